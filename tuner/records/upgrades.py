"""From the tables of an older version to the present ones, one step a version; each only adds."""

from __future__ import annotations

from sqlalchemy import Connection, select, text, update

from tuner.records import tables

STEPS = {1: ("ALTER TABLE tuner_trial ADD COLUMN forecast TEXT",)}
"""Version -> the statements that make the next one of it."""


def upgrade(connection: Connection) -> None:
    """Bring the tables up to date, in the transaction of ``connection``; nothing where they are."""
    version = int(connection.scalar(select(tables.schema.c.version)) or 0)
    while version in STEPS and version < tables.SCHEMA_VERSION:
        for statement in STEPS[version]:
            connection.execute(text(statement))
        version += 1
    connection.execute(update(tables.schema).values(version=version))
