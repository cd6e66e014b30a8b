"""``tuner run --dry-run``: what ``check`` says, with what the run itself would add or refuse."""

from __future__ import annotations

from typing import Any

from tuner.cli.errors import CliError
from tuner.cli.more import with_more
from tuner.cli.outline import describe, outline_of
from tuner.cli.recorded import what_is_recorded
from tuner.space.model import StudyFile


def dry_run_of(
    file: StudyFile, location: str | None, more: int | None, *, new_space: bool, ray_address: str | None
) -> tuple[dict[str, Any], str]:
    """The outline, as plain values and as a page. CliError where the run itself would refuse to start."""
    from tuner.cli.refusals import changed_study, refuse_what_cannot_run
    from tuner.tracking.stores import without_password

    refuse_what_cannot_run(file, ray_address)
    recorded = what_is_recorded(file, location)
    if recorded is not None and recorded.differences and not new_space:
        raise CliError(changed_study(file, recorded.differences))
    remark = None
    if more is not None:
        file, remark = with_more(file, recorded.trials if recorded else 0, more)
    outline = describe(file, recorded)
    resources, search = file.resources, file.search
    slot = f"{resources.cpus} cpus and {resources.gpus} gpus"
    lines = [
        outline_of(file, outline),
        f"trials      {search.concurrent_trials} at once, each on {slot}",
        f"sampler     {search.sampler}, seed {search.seed}",
        f"mlflow      {without_password(file.tracking.mlflow) if file.tracking.mlflow else 'off'}",
    ]
    return outline, "\n".join([*lines, *([remark] if remark else [])])
