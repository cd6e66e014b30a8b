"""Says before a run that ``--more`` asks for more configurations than the space still has."""

from __future__ import annotations

from tuner.cli.size import size_of
from tuner.cli.text import plural
from tuner.records.rows import StudyRecord
from tuner.space.model import StudyFile


def too_few_left(file: StudyFile, record: StudyRecord, more: int) -> str | None:
    """A line where fewer than ``more`` valid configurations are left; None where enough are, or nobody can count."""
    size = size_of(file.space)
    if size.after is None or size.continuous:
        return None
    inside = [
        t for t in record.trials if file.space.contains(t.config) and file.space.rejection(t.config) is None
    ]
    left = max(size.after - len(inside), 0)
    if left >= more:
        return None
    known = (
        f"--more {more}: {len(inside):,} of {plural(size.after, 'valid configuration')} are measured already"
    )
    if not left:
        return f"{known}, so none is left to search; widen the space, and add --new-space"
    return f"{known}, so only {left:,} can be added"
