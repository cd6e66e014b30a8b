"""Where MLflow keeps its data: which addresses work, where artifacts go."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from tuner.space.fields import STORE_DATABASES, STORE_SERVERS


class TrackingError(Exception):
    """MLflow cannot be used as asked; the message is one line with the way out."""


def checked_uri(uri: str, folder: Path | None = None) -> str:
    """``uri`` with a relative sqlite path made absolute against ``folder`` (default: the working directory).

    Raises TrackingError for what this MLflow refuses: a folder (``./mlruns``), an in-memory database, an
    unknown scheme.
    """
    scheme = urlsplit(uri).scheme.split("+")[0]
    if scheme in ("", "file"):
        raise TrackingError(
            f"tracking.mlflow: {uri!r} is a folder, and MLflow no longer writes its data to plain folders; "
            "use a database such as sqlite:///mlflow.db, or the address of a server"
        )
    if scheme not in STORE_SERVERS + STORE_DATABASES:
        raise TrackingError(
            f"tracking.mlflow: {uri!r} is no store that MLflow knows; use sqlite:///mlflow.db, "
            "postgresql://..., mysql://... or http://..."
        )
    return f"sqlite:///{_database_file(uri, folder)}" if scheme == "sqlite" else uri


def is_server(uri: str) -> bool:
    """True for an MLflow server, False for a database that this machine opens itself."""
    return urlsplit(uri).scheme in STORE_SERVERS


def artifact_folder(uri: str, folder: Path | None = None) -> str | None:
    """Where a new experiment keeps its files: ``mlartifacts`` beside an sqlite file, else in the working
    directory; None for a server, which decides itself.
    """
    if is_server(uri):
        return None
    is_sqlite = urlsplit(uri).scheme.split("+")[0] == "sqlite"
    beside = _database_file(uri, folder).parent if is_sqlite else (folder or Path.cwd()).absolute()
    return str(beside / "mlartifacts")


def without_password(uri: str) -> str:
    """The address as it may be shown."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", uri)


def _database_file(uri: str, folder: Path | None) -> Path:
    path = uri.partition(":///")[2].partition("?")[0]
    if path in ("", ":memory:"):
        raise TrackingError(f"tracking.mlflow: {uri!r} has no file; use sqlite:///mlflow.db")
    return ((folder or Path.cwd()) / path).absolute()
