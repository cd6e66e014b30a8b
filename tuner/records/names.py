"""Where records are, and the studies in an sqlite file, for a shell that waits: no database library is loaded."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

DEFAULT_LOCATION = "tuner.db"
LOCATION_VARIABLE = "TUNER_RECORDS"
_BUSY_TIMEOUT_S = 0.2  # nobody waits longer for a suggestion


def location_meant(location: str | Path | None) -> str:
    """Where the records are: as given, else ``$TUNER_RECORDS``, else ``./tuner.db``; a path or a URL."""
    return str(location or os.environ.get(LOCATION_VARIABLE) or DEFAULT_LOCATION)


def study_names(location: str | None = None) -> list[str]:
    """The studies in the records, newest first; none where they are not a readable file of records.

    ``location`` as for ``--records``. A database server is not asked: a key press must not open a connection.
    """
    given = location_meant(location).removeprefix("sqlite:///")
    path = Path(given).expanduser()
    if "://" in given or not path.is_file():
        return []
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_TIMEOUT_S)) as connection:
            query = "SELECT name FROM tuner_study GROUP BY name ORDER BY max(updated_at) DESC"
            return [str(name) for (name,) in connection.execute(query)]
    except sqlite3.Error:
        return []
