"""Exit codes, and how an error reaches the user: one clear line on stderr, never a traceback for bad input.

An exception that nobody foresaw is one line as well; its traceback is kept in a file, and ``TUNER_DEBUG=1``
prints it.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path

import click

from tuner.cli.console import legible

DEBUG_VARIABLE = "TUNER_DEBUG"


class ExitCode(IntEnum):
    """What the program's exit status means."""

    DONE = 0
    STUDY_FAILED = 1
    BAD_INPUT = 2
    NOTHING_FEASIBLE = 3
    INTERRUPTED = 130


class CliError(click.ClickException):
    """A message for the user with an exit code; the message says what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.BAD_INPUT) -> None:
        super().__init__(message)
        self.code = code


def run_and_exit(
    command: click.Command, arguments: Sequence[str], begin: Callable[[], None] = lambda: None
) -> None:
    """Run a command and end the process with its exit code; ``begin`` is called where an interrupt is caught."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal shows the rest all the same
    code: int
    try:
        begin()
        code = _run(command, arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
        _say("tuner: interrupted")
        # one that came while Python ran a text as code marks the process as ended by the signal, whoever caught
        # it; running another text takes the mark away, or the exit status would be another
        exec("")
    except BrokenPipeError:
        code = ExitCode.DONE  # the reader of our output (head, less) has gone; nothing is wrong
        forget_output()
    except OSError as problem:
        if problem.errno != errno.ENOSPC or problem.filename:
            raise
        code = ExitCode.STUDY_FAILED  # standard output is a file on a full disk
        forget_output()
        _say(f"tuner: cannot write the output: {problem.strerror}")
    sys.exit(int(code))


def _run(command: click.Command, arguments: Sequence[str]) -> int:
    """The command's exit code; its errors are said."""
    from tuner.records.errors import RecordsError
    from tuner.space.errors import SpaceError

    try:
        with command.make_context("tuner", list(arguments)) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.ClickException as problem:
        _say(_line_of(problem))
        return problem.code if isinstance(problem, CliError) else ExitCode.BAD_INPUT
    except SpaceError as problem:
        _say("\n".join(map(str, problem.problems)))
        return ExitCode.BAD_INPUT
    except RecordsError as problem:
        _say(f"tuner: {problem}")
        return ExitCode.BAD_INPUT
    except click.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        raise
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno == errno.ENOSPC and not problem.filename:
            raise
        _say(_crash(problem))
        return ExitCode.STUDY_FAILED
    return code if isinstance(code, int) else ExitCode.DONE


def _line_of(problem: click.ClickException) -> str:
    """``tuner run: missing argument 'SPACE'; see: tuner run --help``."""
    if isinstance(problem, CliError):
        return f"tuner: {problem.message}"
    context = problem.ctx if isinstance(problem, click.UsageError) else None
    path = context.command_path if context else "tuner"
    text = " ".join(problem.format_message().split())
    hint = "" if "?" in text else f"; see: {path} --help"
    return f"{path}: {text[:1].lower()}{text[1:].rstrip('.')}{hint}"


def _crash(problem: Exception) -> str:
    """What to say of an exception that nobody foresaw: its traceback is not for the screen."""
    said = f"tuner: unexpected {type(problem).__name__}: {' '.join(str(problem).split())[:300]}"
    text = "".join(traceback.format_exception(problem))
    if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
        return f"{text}{said}"
    try:
        handle, path = tempfile.mkstemp(prefix="tuner-crash-", suffix=".txt")
        os.close(handle)
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return f"{text}{said}"
    return f"{said}; please report it with the traceback in {path} ({DEBUG_VARIABLE}=1 prints it)"


def _say(text: str) -> None:
    """Print on stderr, which may be closed; text of a file name or a trial may hold odd characters."""
    try:
        print(legible(text), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # nobody is there to read it; the exit code says it


def forget_output() -> None:
    """Point stdout at nothing, for its reader has gone: Python would complain when it flushes it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
