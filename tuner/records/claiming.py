"""One live run per study: a claim names the process that runs it, and blocks nobody once that has ended."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from tuner.records import codec
from tuner.records.cells import DamagedCellError, read_cell
from tuner.records.database import Database
from tuner.records.errors import RecordsInUse
from tuner.records.owner import Owner
from tuner.records.tables import claims


def claim(database: Database, study: str, owner: Owner, take_over: bool) -> None:
    """Make ``owner`` the holder, or raise RecordsInUse."""
    while not _try_claim(database, study, owner, take_over):
        pass  # another process changed the claim in between: look again; one of the two has won by then


def release(database: Database, study: str, owner: Owner) -> None:
    """Remove the claim where ``owner`` holds it."""

    def work(connection: Connection) -> None:
        if holder(connection, study) == owner:
            connection.execute(delete(claims).where(claims.c.study == study))

    database.write(work)


def holder(connection: Connection, study: str) -> Owner | None:
    """Who claims the study, dead or alive."""
    text = connection.scalar(select(claims.c.owner).where(claims.c.study == study))
    return None if text is None else _owner(text, study)


def _owner(text: str, study: str) -> Owner:
    place = f"study {study!r}, the claim of its run"
    return read_cell(
        text, "owner", Owner.from_json, place, "if no run of it is alive: tuner run ... --take-over"
    )


def _claimer(text: str, study: str, take_over: bool) -> Owner | None:
    """Who claims the study; None where that cannot be read any more and the user takes over."""
    try:
        return _owner(text, study)
    except DamagedCellError:
        if take_over:
            return None
        raise


def _try_claim(database: Database, study: str, owner: Owner, take_over: bool) -> bool:
    mine = {"owner": owner.to_json(), "claimed_at": codec.now_text()}

    def work(connection: Connection) -> bool:
        held = connection.scalar(select(claims.c.owner).where(claims.c.study == study))
        if held is None:
            connection.execute(insert(claims).values(study=study, **mine))
            return True
        other = _claimer(held, study, take_over)
        if other is not None and other != owner:
            _refuse_unless_gone(study, other, take_over)
        # only if it is still the claim that was looked at
        changed = connection.execute(
            update(claims).where(claims.c.study == study, claims.c.owner == held).values(mine)
        )
        return changed.rowcount == 1

    try:
        return database.write(work)
    except IntegrityError:
        return False


def _refuse_unless_gone(study: str, other: Owner, take_over: bool) -> None:
    is_gone = other.is_gone()
    if is_gone is False:
        raise RecordsInUse(f"study {study!r} is being run by {other}; wait for it, or stop it", other)
    if is_gone is None and not take_over:
        raise RecordsInUse(
            f"study {study!r} is claimed by {other}, which cannot be seen from here; "
            "if that run has ended, say --take-over",
            other,
        )
