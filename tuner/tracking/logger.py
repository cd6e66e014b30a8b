"""The logger process (``python -m tuner.tracking.logger``): reads messages, writes them to MLflow, answers.

It is a process of its own because MLflow in a thread of the driver slows the driver by a fifth, and because a
store that hangs can then never hang a study. It ends when the driver's end of the pipe is closed, whatever
way the driver ended.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from tuner.tracking.wire import Closing, Message, Opening, RunView, decode

if TYPE_CHECKING:
    from tuner.tracking.writer import StudyWriter

LAST_WORD_S = 1.0  # after the driver is gone: time to mark the study's run as killed
PATIENCE_S = 30.0  # a locked database or a server that restarts is waited for this long
LAST_TRY_S = 5.0  # at the end of a study whose store was given up before
_QUIET = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # retried here, where the whole wait is bounded
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


def silence() -> None:
    """Keep MLflow and its database migrations out of the terminal; call before importing MLflow."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic", "sqlalchemy", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def main() -> None:
    """Serve standard input until it ends."""
    silence()
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not look like an answer
    inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, inbox), daemon=True).start()
    serve(inbox, answers, PATIENCE_S)
    os._exit(0)  # MLflow's own threads would otherwise be waited for


def _read(stream: BinaryIO, inbox: queue.SimpleQueue[bytes | None]) -> None:
    for line in stream:
        inbox.put(line)
    inbox.put(None)
    time.sleep(LAST_WORD_S)
    os._exit(0)  # the main thread hangs in a request


def serve(inbox: queue.SimpleQueue[bytes | None], answers: BinaryIO, patience_s: float) -> None:
    """Answer every message. After one was given up the others are refused at once, save the closing one."""
    from tuner.tracking.writer import StudyWriter

    writer, gave_up = None, ""
    while (line := inbox.get()) is not None:
        number, message = decode(line)
        if isinstance(message, Opening):
            writer, gave_up = StudyWriter(message), ""
        if gave_up and not isinstance(message, Closing):
            answer: dict[str, Any] = {"failed": number, "why": gave_up}
        elif writer is None:
            answer = {"failed": number, "why": "no study was opened"}
        else:
            answer = _patiently(writer, message, LAST_TRY_S if gave_up else patience_s)
            gave_up = "" if answer.pop("is_refused", False) else str(answer.get("why", ""))
            answer["failed" if "why" in answer else "done"] = number
        answers.write(json.dumps(answer).encode() + b"\n")
    if writer is not None:
        writer.abandon()


def _patiently(
    writer: StudyWriter, message: Message, patience_s: float, sleep: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Try until it works or the patience is over. What was written stays, and is found again."""
    from mlflow.exceptions import MlflowException

    give_up_at, pause_s = time.monotonic() + patience_s, 0.25
    while True:
        try:
            return {"parent_id": _write(writer, message)}
        except Exception as error:  # noqa: BLE001 - whatever MLflow, a driver or a socket raises is told, never fatal
            writer.forget()
            is_refused = isinstance(error, MlflowException) and error.error_code == "INVALID_PARAMETER_VALUE"
            if is_refused or time.monotonic() + pause_s > give_up_at:
                return {"why": one_line(error), "is_refused": is_refused}
            sleep(pause_s)
            pause_s = min(2 * pause_s, 4.0)


def _write(writer: StudyWriter, message: Message) -> str:
    if isinstance(message, RunView):
        return writer.trial(message)
    return writer.finish(message) if isinstance(message, Closing) else writer.open()


def one_line(error: Exception) -> str:
    """What an exception says, short enough for a terminal."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}..."


if __name__ == "__main__":
    main()
