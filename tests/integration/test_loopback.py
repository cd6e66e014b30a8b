"""Nothing that we start can be reached from another machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.faults.processes import private_runtime, processes_of_driver, wait_until
from tests.faults.test_mlflow_away import free_port
from tests.unit.cli.program import PROGRAM, Running, environment, write_space
from tuner.execution.guardian import descendants

LISTENING = "0A"  # the kernel's state of a socket that waits for connections


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


def test_a_run_with_ray_and_mlflow_listens_on_loopback_only(tmp_path: Path) -> None:
    hang = f"import pathlib, time; pathlib.Path({str(tmp_path)!r}, 'middle').touch(); time.sleep(600)"
    write_space(tmp_path, body=hang, tracking={"mlflow": "sqlite:///mlflow.db"})
    run = Running(tmp_path, "run", "tiny.yaml")
    run.wait_for("middle")
    found = listening({*descendants(run.process.pid), *processes_of_driver(run.process.pid), run.process.pid})
    run.process.kill()
    run.end()
    assert wait_until(lambda: not processes_of_driver(run.process.pid), timeout_s=60)
    assert found, "Ray listens somewhere, or this test looks at the wrong processes"
    assert [place for place in found if not ip_address(place[0]).is_loopback] == []


def test_the_ui_listens_on_loopback_only(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "mlflow.db").touch()
    with subprocess.Popen(
        [*PROGRAM, "ui", "--port", str(port)], cwd=tmp_path, env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as ui:  # fmt: skip
        places = lambda: listening({ui.pid, *descendants(ui.pid)})  # noqa: E731 - asked again and again
        is_up = wait_until(lambda: port in {place[1] for place in places()}, timeout_s=180)
        found = places()
        ui.terminate()
    assert is_up
    assert {address for address, _ in found} == {"127.0.0.1"}


def test_a_socket_that_listens_everywhere_is_seen() -> None:
    code = "import socket, time; s = socket.create_server(('0.0.0.0', 0)); print('up', flush=True); time.sleep(60)"
    with subprocess.Popen(["python3", "-c", code], stdout=subprocess.PIPE) as server:
        assert server.stdout and server.stdout.readline()
        found = listening({server.pid})
        server.kill()
    assert [address for address, _ in found] == ["0.0.0.0"]


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Address and port of every TCP socket on which one of the processes waits for connections."""
    held = {inode for pid in pids for inode in _sockets(pid)}
    lines = [
        line.split()
        for family in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]
    ]
    return {_place(words[1]) for words in lines if words[3] == LISTENING and words[9] in held}


def _sockets(pid: int) -> Iterator[str]:
    with suppress(OSError):  # it ended meanwhile
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(link.readlink())
                if target.startswith("socket:["):
                    yield target[8:-1]


def _place(text: str) -> tuple[str, int]:
    """``0100007F:1F90`` (words of the machine's byte order) -> ("127.0.0.1", 8080)."""
    address, _, port = text.partition(":")
    words = [bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8)]
    found = ip_address(b"".join(words))
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found), int(port, 16)
