"""The contract suite on a PostgreSQL server of our own, on loopback; skipped where there is none to start."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.contracts.records_suite import RecordsSuite, complete, create, measure
from tuner.records.errors import RecordsError, RecordsUnavailable
from tuner.records.repository import Records


def _binaries() -> Path | None:
    """The folder with the server's programs; distributions keep it off the PATH."""
    found = [
        Path(shutil.which("initdb") or "/nowhere/initdb"),
        *Path("/usr/lib/postgresql").glob("*/bin/initdb"),
    ]
    return next((path.resolve().parent for path in found if path.exists()), None)


def _other_user() -> pwd.struct_passwd | None:
    """The server refuses to run as root: somebody else, where we are root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known.get("nobody")


def _why_not() -> str | None:
    if find_spec("psycopg") is None:
        return "the PostgreSQL driver is not installed: pip install 'psycopg[binary]'"
    return None if _binaries() else "no PostgreSQL server is installed (initdb was not found)"


pytestmark = pytest.mark.skipif(_why_not() is not None, reason=_why_not() or "")


class Server:
    """A throw-away server: its own folder, a free port of 127.0.0.1, a random password."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._bin = folder, _binaries() or Path()
        self._process: subprocess.Popen[bytes] | None = None
        user = _other_user()
        self._user: int | None = user.pw_uid if user else None
        self._group: int | None = user.pw_gid if user else None
        self.password = secrets.token_hex(8)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        (folder / "password").write_text(self.password)
        if user:
            for path in (folder, folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        self._run("initdb", "-D", str(folder / "data"), "-U", "tuner", "-A", "scram-sha-256", "-E", "UTF8")

    def _run(self, program: str, *arguments: str) -> None:
        extra = ["--locale=C", f"--pwfile={self._folder / 'password'}", "--no-sync"]
        subprocess.run(
            [str(self._bin / program), *arguments, *extra],
            check=True,
            capture_output=True,
            cwd="/",
            user=self._user,
            group=self._group,
        )

    def start(self) -> None:
        settings = ["-p", str(self.port), "-h", "127.0.0.1", "-k", str(self._folder), "-N", "60"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self._folder / "data"), *settings],
                stdout=log,
                stderr=log,
                cwd="/",
                user=self._user,
                group=self._group,
            )
        for _ in range(300):
            ready = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise AssertionError((self._folder / "server.log").read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # "fast": ends the sessions, keeps the data
            self._process.wait(timeout=60)
            self._process = None

    def new_place(self) -> str:
        """The URL of an empty schema."""
        psycopg = import_module("psycopg")  # by name: the module is optional, for the type checker too

        name = f"t{secrets.token_hex(6)}"
        login = f"host=127.0.0.1 port={self.port} user=tuner dbname=postgres password={self.password}"
        with psycopg.connect(login, autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"'.encode())
        place = f"tuner:{self.password}@127.0.0.1:{self.port}/postgres"
        return f"postgresql+psycopg://{place}?options=-csearch_path%3D{name}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # not tmp_path: its parents are closed to the user that the server runs as
    folder = Path(tempfile.mkdtemp(prefix="tuner-postgresql-"))
    running = Server(folder)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder)


class TestPostgresql(RecordsSuite):
    @pytest.fixture
    def location(self, server: Server) -> str:
        return server.new_place()

    def test_a_password_is_not_shown(self, server: Server, records: Records) -> None:
        assert server.password not in records.location
        assert "127.0.0.1" in records.location

    def test_a_server_that_went_away_loses_nothing_and_can_be_written_to_when_it_is_back(
        self, server: Server, location: str
    ) -> None:
        with Records.open(location, busy_timeout_s=0.2) as records:
            create(records)
            records.add_trial("lm", {"x": 1}, "baseline")
            server.stop()
            try:
                with pytest.raises(RecordsUnavailable) as refused:
                    records.add_trial("lm", {"x": 2}, "tpe")
                assert "\n" not in str(refused.value)
                assert server.password not in str(refused.value)
            finally:
                server.start()
            assert records.add_trial("lm", {"x": 2}, "tpe") == 1
            measure(records, 1, complete(1.0))
            assert len(records.study("lm").trials) == 2

    def test_a_server_that_is_not_there_is_said_in_one_line(self, server: Server) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
            with pytest.raises(RecordsError, match="cannot use the records at postgresql") as refused:
                Records.open(f"postgresql+psycopg://tuner:secret@127.0.0.1:{port}/postgres")
        assert "\n" not in str(refused.value)
        assert "secret" not in str(refused.value)
