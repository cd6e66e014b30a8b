"""One connection pool to the records: opening, transactions, patience with locks, errors in plain words."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, make_url, select, text
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
)

from tuner.records import tables
from tuner.records.cells import DamagedCellError
from tuner.records.errors import DamagedRecords, RecordsError, RecordsMissing, RecordsUnavailable
from tuner.records.names import DEFAULT_LOCATION, location_meant
from tuner.records.upgrades import STEPS, upgrade

T = TypeVar("T")

BUSY_TIMEOUT_S = 30.0
"""A transaction gives up after twice that."""
SAY_AFTER_S = 1.5
"""Whoever waits in front of a terminal is told why after so long."""
_ONE_WAIT_S = 0.5
"""How long SQLite itself waits for a lock before it is asked again: while it does, nothing can be said."""
_log = logging.getLogger(__name__)

_SCHEMA_LOCK = (
    7_236_541  # any number: PostgreSQL's advisory lock while two processes create the schema at once
)
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")
_PASSING_STATES = ("40001", "40P01", "55P03")  # PostgreSQL: serialization, deadlock, lock not available
_OPERATIONAL = (OperationalError, InterfaceError, sqlite3.OperationalError)
_BACK_TO_A_COPY = "go back to a copy of them, or begin new ones with --records"
_NO_WRITING = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_PERM")
_PACKAGES = {
    "psycopg": "psycopg[binary]",
    "psycopg2": "psycopg2-binary",
    "MySQLdb": "mysqlclient",
    "mysql": "mysql-connector-python",
}
"""What to install for a module of another name."""
_LACKS = ("no such column", "no such table", "has no column named")
_LACKS_STATES = ("42703", "42P01")  # PostgreSQL: undefined column, undefined table
_MEANINGS = {
    "SQLITE_NOTADB": "it is not an SQLite database; give another file with --records",
    "SQLITE_CORRUPT": "the file is damaged; go back to a copy of it, or start a new one with --records",
    "SQLITE_CANTOPEN": "the file cannot be opened or created there; give another place with --records",
    "SQLITE_READONLY": "the file or its folder is read-only; give another place with --records",
    "SQLITE_PERM": "no permission; give another place with --records",
    "SQLITE_FULL": "the disk is full; free some space, what was recorded is intact",
    "SQLITE_IOERR_SHMSIZE": "the disk is full; free some space, what was recorded is intact",
    "SQLITE_IOERR": "the disk reports an error; what was recorded before is intact",
    "53100": "the server's disk is full; free some space, what was recorded is intact",
}


class Database:
    """Short transactions on one database. Safe to use from several threads."""

    def __init__(
        self, engine: Engine, busy_timeout_s: float, url: URL, read_only_since: RecordsError | None = None
    ) -> None:
        """``read_only_since``: why the engine can only read; raised for every write."""
        self.url = url.render_as_string(hide_password=True)
        self.where = _shown(url)
        self._read_only_since = read_only_since
        self._engine = engine
        self._writer = engine.execution_options(tuner_is_writing=True)
        self._give_up_s = 2 * busy_timeout_s
        self._file = Path(url.database or "") if _is_file(url) else None
        self._inode: int | None = None

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` on one consistent view."""
        return self._patiently(self._engine, work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one transaction, committed (on the disk) when this returns.

        ``work`` may run more than once: it is repeated while another process holds the lock.
        RecordsUnavailable when that lasts too long, or at once where waiting does not help (a full disk).
        """
        if self._read_only_since is not None:
            raise self._read_only_since
        self._refuse_a_lost_file()
        return self._patiently(self._writer, work)

    def _refuse_a_lost_file(self) -> None:
        """Writes into a file that was removed would be gone with this process, and nobody would know."""
        if self._file is None:
            return
        try:
            inode = self._file.stat().st_ino
        except FileNotFoundError:
            inode = None
        if self._inode is None:
            self._inode = inode
        elif inode != self._inode:
            raise RecordsUnavailable(
                f"{self.where} was removed or replaced while in use; put it back (finished results are in the "
                "trial folders), or start anew"
            )

    def damaged(self, error: DamagedCellError) -> DamagedRecords:
        """The damage as one line with a way out."""
        way_out = error.way_out or _BACK_TO_A_COPY
        return DamagedRecords(f"the records at {self.where} are damaged: {error}; {way_out}")

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def _patiently(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        wait, pause_s = _Wait(self.where, self._give_up_s), 0.02
        while True:
            is_done = False
            try:
                with engine.begin() as connection:
                    result = work(connection)
                    is_done = True
                return result
            except IntegrityError:
                raise  # not trouble with the database: the caller knows what it means
            except DamagedCellError as error:
                raise self.damaged(error) from error
            except OverflowError as error:  # of a number that was asked for
                raise RecordsError(f"the records at {self.where} hold no such number: {error}") from error
            except (DBAPIError, sqlite3.Error, UnicodeEncodeError) as error:
                # a connection lost during the commit leaves open whether it happened: not repeated
                may_repeat = _passes(error) and not (is_done and _is_lost(error))
                if not may_repeat or wait.is_over():
                    raise explained(error, self.where) from error
                wait.say(error)
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0 if self._file is None else 0.1)  # SQLite has waited itself


class _Wait:
    """Patience with a database that cannot be used now; says once what is waited for."""

    def __init__(self, where: str, limit_s: float) -> None:
        self._where, self._limit_s = where, limit_s
        self._began_s = time.monotonic()
        self._is_said = False

    def is_over(self) -> bool:
        """Whether it has lasted long enough."""
        return time.monotonic() > self._began_s + self._limit_s

    def say(self, error: Exception) -> None:
        """Tell (by the log, which goes to stderr) why nothing happens, as soon as that is strange."""
        if self._is_said or time.monotonic() < self._began_s + min(SAY_AFTER_S, self._limit_s / 2):
            return
        self._is_said = True
        why = "locked by another process" if _code(error).startswith(_LOCKED) else "not to be reached"
        _log.warning("the records at %s are %s: waiting up to %.0f s", self._where, why, self._limit_s)


def open_database(location: str | Path | None, must_exist: bool, busy_timeout_s: float) -> Database:
    """Connect, create the schema unless ``must_exist``, and refuse what is not records of this version."""
    url = _url_of(location)
    where = _shown(url)
    if _is_file(url):
        _check_file(Path(url.database or ""), must_exist)
    database = Database(_engine_for(url, min(busy_timeout_s, _ONE_WAIT_S)), busy_timeout_s, url)
    try:
        version = database.read(lambda connection: _schema_version(connection, where))
        if version is None:
            if must_exist:
                raise _no_records(where)
            _create(database, url)
        elif version < tables.SCHEMA_VERSION:
            database.write(upgrade)
    except BaseException as error:
        database.close()
        if must_exist and _is_file(url) and isinstance(error, RecordsError) and _cannot_write(error):
            return _unchanging(url, busy_timeout_s, error)
        raise
    return database


def _cannot_write(error: RecordsError) -> bool:
    """Even to read, SQLite makes files beside one with a write-ahead log: not on a full or read-only disk."""
    cause = error.__cause__
    return isinstance(cause, Exception) and _code(cause).startswith(_NO_WRITING)


def _unchanging(url: URL, busy_timeout_s: float, problem: RecordsError) -> Database:
    """The file as it lies there, read without a lock; ``problem``, which led here, is raised where that is
    impossible: a log beside it holds what is not in it yet, or its tables are of an older version.
    """
    path = Path(url.database or "")
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise RecordsError(
            f"{problem}; to look at them, copy {path.name} and {log.name} to a place with room, and give that "
            "with --records"
        ) from problem
    options = {"mode": "ro", "immutable": "1", "uri": "true"}
    engine = _engine_for(
        URL.create("sqlite", database=f"file:{quote(str(path))}", query=options), busy_timeout_s
    )
    database = Database(engine, busy_timeout_s, url, read_only_since=problem)
    try:
        version = database.read(lambda connection: _schema_version(connection, database.where))
    except RecordsError:
        version = None
    if version != tables.SCHEMA_VERSION:
        database.close()
        raise problem
    return database


def table_names(url: str) -> set[str]:
    """The tables of any database, ours or another program's. RecordsError where it cannot be opened."""
    place = _url_of(url)
    engine = _engine_for(place, BUSY_TIMEOUT_S)
    try:
        with engine.connect() as connection:
            return set(inspect(connection).get_table_names())
    except (DBAPIError, sqlite3.Error) as error:
        cause = str(_cause(error)).strip().partition("\n")[0]
        raise RecordsError(f"{_shown(place)} cannot be opened: {cause}") from error
    finally:
        engine.dispose()


def explained(error: Exception, where: str) -> RecordsError:
    """The driver's error as one line with a way out."""
    if isinstance(error, UnicodeEncodeError):
        return RecordsError(
            f"{error.object!r:.80} is not valid text, so the records at {where} cannot hold it"
        )
    if _code(error).startswith(_LOCKED):
        return RecordsUnavailable(
            f"the records at {where} stay locked by another process; end it, or wait and try again"
        )
    meaning = next((words for code, words in _MEANINGS.items() if _code(error).startswith(code)), None)
    cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    if _code(error) in _LACKS_STATES or any(words in cause for words in _LACKS):
        return DamagedRecords(f"the records at {where} are damaged: {cause}; {_BACK_TO_A_COPY}")
    is_temporary = _code(error).startswith(
        ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "53")
    ) or _is_lost(error)
    kind = RecordsUnavailable if is_temporary or isinstance(error, _OPERATIONAL) else RecordsError
    return kind(f"cannot use the records at {where}: {meaning or cause}")


def _url_of(location: str | Path | None) -> URL:
    given = location_meant(location)
    if "://" not in given:
        return URL.create("sqlite", database=str(Path(given).expanduser().absolute()))
    try:
        return make_url(given)
    except (ArgumentError, ValueError) as error:
        raise RecordsError(
            "the place of the records is neither a path nor a database URL such as "
            "postgresql://user@host/name (is a special character of the password not %-encoded?)"
        ) from error


def _is_file(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")


def _shown(url: URL) -> str:
    return str(url.database) if _is_file(url) else url.render_as_string(hide_password=True)


def _no_records(where: str) -> RecordsMissing:
    return RecordsMissing(f"no records at {where}; run `tuner run` first or give --records")


def _check_file(path: Path, must_exist: bool) -> None:
    if path.is_dir():
        raise RecordsError(
            f"{path} is a folder; give --records a file in it, such as {path / DEFAULT_LOCATION}"
        )
    if path.is_symlink() and not path.exists():
        raise RecordsError(
            f"{path} is a link that leads nowhere; mend it, or give another file with --records"
        )
    if must_exist and not path.exists():
        raise _no_records(str(path))
    if not path.parent.is_dir():
        raise RecordsError(
            f"the folder {path.parent} of the records does not exist; create it or give --records"
        )


def _engine_for(url: URL, busy_timeout_s: float) -> Engine:
    is_sqlite = url.get_backend_name() == "sqlite"
    try:
        engine = create_engine(url) if is_sqlite else create_engine(url, pool_pre_ping=True)
    except NoSuchModuleError as error:
        raise RecordsError(f"no such kind of database: {url.drivername}") from error
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0], error.name)
        raise RecordsError(f"records at {_shown(url)} need a driver: pip install '{package}'") from error
    if is_sqlite:
        _tune_sqlite(engine, busy_timeout_s)
    return engine


def _tune_sqlite(engine: Engine, busy_timeout_s: float) -> None:
    @event.listens_for(engine, "connect")
    def _(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves, below
        # bytes that are no text must not end a query before it is known whose they are
        connection.text_factory = lambda kept: kept.decode("utf-8", "surrogateescape")
        connection.execute(f"PRAGMA busy_timeout = {int(busy_timeout_s * 1000)}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        # A transaction that reads first and asks for the lock later may have to fail; asking now can wait.
        is_writing = connection.get_execution_options().get("tuner_is_writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _schema_version(connection: Connection, where: str) -> int | None:
    """None where the database is empty; RecordsError for a version that is not known, or another program's file."""
    names = inspect(connection).get_table_names()
    if tables.schema.name in names:
        found = connection.scalar(select(tables.schema.c.version))
        if found is None:
            raise DamagedRecords(
                f"the records at {where} are damaged: {tables.schema.name} has no version; {_BACK_TO_A_COPY}"
            )
        if found != tables.SCHEMA_VERSION and found not in STEPS:
            raise RecordsError(
                f"the records at {where} have schema version {found}, this tuner reads version "
                f"{tables.SCHEMA_VERSION}; use the tuner that wrote them, or give others with --records"
            )
        return int(found)
    if names and connection.dialect.name == "sqlite":
        raise RecordsError(
            f"{where} is the database of another program (it holds {', '.join(sorted(names)[:3])}); "
            "give another file with --records"
        )
    return None


def _create(database: Database, url: URL) -> None:
    def create(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})"))
        if _schema_version(connection, database.where) is None:  # another process may have been first
            tables.metadata.create_all(connection)
            connection.execute(insert(tables.schema).values(version=tables.SCHEMA_VERSION))

    if _is_file(url):
        _use_write_ahead_log(database, Path(url.database or ""))
    database.write(create)


def _use_write_ahead_log(database: Database, path: Path) -> None:
    """Readers then never wait for the writer. The file keeps the mode; it cannot be set in a transaction."""
    wait = _Wait(database.where, BUSY_TIMEOUT_S)
    while True:
        try:
            connection = sqlite3.connect(path, timeout=_ONE_WAIT_S, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            finally:
                connection.close()
            return
        except sqlite3.Error as error:
            # two processes that switch at once: one is told "locked" without being made to wait
            if not _passes(error) or wait.is_over():
                raise explained(error, database.where) from error
            wait.say(error)
        time.sleep(0.05)


def _cause(error: Exception) -> BaseException:
    return (error.orig or error) if isinstance(error, DBAPIError) else error


def _code(error: Exception) -> str:
    """The driver's own name or number of the error, '' where it has none."""
    cause = _cause(error)
    return str(getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None) or "")


def _is_lost(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _passes(error: Exception) -> bool:
    """True where the same transaction may well succeed a little later."""
    return _code(error).startswith(_LOCKED) or _code(error) in _PASSING_STATES or _is_lost(error)
