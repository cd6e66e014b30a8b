"""``tuner ui``: which store, which port."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study


def test_the_command_is_printed_for_the_store_in_this_folder(tuner: Tuner, workplace: Path) -> None:
    said = tuner("ui", "--print-command", "--port", "6001")
    assert (said.code, said.err) == (0, "")
    words = shlex.split(said.out)
    assert words[words.index("--backend-store-uri") + 1] == f"sqlite:///{workplace / 'mlflow.db'}"
    assert words[words.index("--port") + 1] == "6001"
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert words[words.index("--registry-store-uri") + 1] == words[words.index("--backend-store-uri") + 1]
    assert {"PYTHONWARNINGS=ignore", "MLFLOW_LOGGING_LEVEL=WARNING"} <= set(words)


def test_a_study_is_shown_on_the_store_that_it_was_logged_to(tuner: Tuner) -> None:
    store(two_sided_study(notes={"mlflow_store": "sqlite:////data/team.db"}))
    assert "sqlite:////data/team.db" in tuner("ui", "built", "--print-command").out
    assert "sqlite:///x.db" not in tuner("ui", "built", "--print-command").out
    said = tuner("ui", "bilt", "--print-command")
    assert (said.code, said.line) == (2, "tuner: no study 'bilt' in these records; did you mean built?")


def test_a_port_in_use_is_refused_with_the_next_one(tuner: Tuner, workplace: Path) -> None:
    (workplace / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = tuner("ui", "--port", str(port))
    assert said.code == 2
    assert said.line.startswith(
        f"tuner: port {port} cannot be used (Address already in use); give another: --port "
    )


def test_ending_the_ui_ends_its_whole_group_and_frees_the_port(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    server = ["sh", "-c", f"sleep 100 & echo $! >{pids}; wait"]
    code = f"from tuner.cli.ui import _wait_for; raise SystemExit(_wait_for({server!r}))"
    with subprocess.Popen([sys.executable, "-c", code]) as ui:
        wait_until(lambda: pids.exists() and pids.read_text().strip())
        ui.send_signal(signal.SIGTERM)
        assert ui.wait(timeout=20) == 0
    worker = Path("/proc", pids.read_text().strip(), "stat")
    wait_until(lambda: not worker.exists() or worker.read_text().split()[2] == "Z")


def wait_until(holds: Callable[[], object], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
