"""What ``tuner run`` refuses before it touches the records, so that a refused run leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.cli.errors import CliError
from tuner.space.model import StudyFile


def refuse_what_cannot_run(file: StudyFile, *, is_on_this_machine: bool) -> None:
    """CliError where the file asks for a store that MLflow refuses, or for more than this machine has."""
    from tuner.execution.placement import refuse_what_does_not_fit, usable_cores, usable_gpus
    from tuner.execution.protocol import ExecutionError
    from tuner.launch import slots_of
    from tuner.tracking.stores import TrackingError, checked_uri

    try:
        if file.tracking.mlflow is not None:
            checked_uri(file.tracking.mlflow)
        if is_on_this_machine:
            refuse_what_does_not_fit(slots_of(file), len(usable_cores()), len(usable_gpus()), "this machine")
    except (TrackingError, ExecutionError) as problem:
        raise CliError(f"{file.path}: {problem}") from problem


def changed_study(file: StudyFile, differences: Sequence[str]) -> str:
    """What to say of a file that is not the study that was recorded under its name."""
    lines = "\n".join(f"  {line}" for line in differences)
    return (
        f"{file.path}: study '{file.name}' is recorded with something else:\n{lines}\n"
        "add --new-space to begin a new generation that reuses the trials still inside, "
        "or give the file another name (study: ...)"
    )
