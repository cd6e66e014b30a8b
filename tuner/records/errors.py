"""What can go wrong with the records; nothing heavy is imported, so a command line can catch these cheaply.

RecordsError
├── UnknownStudy         no study (or generation) of that name; names the nearest ones
├── DuplicateConfig      the configuration is already a trial; ``number`` says which
├── RecordsInUse         another live run works on the study; ``owner`` says which
├── DamagedRecords       something in the database is not what was written there; names study, trial and column
└── RecordsUnavailable   locked, full, read-only or away: nothing was written, and it can be tried again later
"""

from __future__ import annotations

from tuner.records.owner import Owner


class RecordsError(Exception):
    """The records cannot do what was asked; the message is one line for the user."""


class RecordsMissing(RecordsError):  # noqa: N818 - reads as the fact it states
    """There are no records at that place yet."""


class UnknownStudy(RecordsError):  # noqa: N818 - reads as the fact it states
    """No study, generation, trial or measurement of that name."""


class DuplicateConfig(RecordsError):  # noqa: N818 - reads as the fact it states
    """The configuration is already a trial of this generation: it is trial ``number``."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class RecordsInUse(RecordsError):  # noqa: N818 - reads as the fact it states
    """Another run, ``owner``, works on the study."""

    def __init__(self, message: str, owner: Owner) -> None:
        super().__init__(message)
        self.owner = owner


class DamagedRecords(RecordsError):  # noqa: N818 - reads as the fact it states
    """What is kept is not what was written: edited by hand, half restored, or damaged by the disk."""


class RecordsUnavailable(RecordsError):  # noqa: N818 - reads as the fact it states
    """Nothing was written, what was recorded before is intact, and the same call may be made again later."""
