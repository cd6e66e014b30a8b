"""What ``tuner run`` refuses before it touches the records, so that a refused run leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.cli.errors import CliError
from tuner.space.errors import known_names
from tuner.space.model import StudyFile


def refuse_an_unknown_sampler(file: StudyFile) -> None:
    """CliError where no sampler has that name. Light: nothing of a sampler is loaded."""
    from tuner.search.registry import sampler_names

    name = file.search.sampler
    if name not in sampler_names():
        meant = known_names(name, sampler_names())
        raise CliError(f"{file.path}: search.sampler={name} is no sampler; {meant}")


def refuse_what_cannot_run(file: StudyFile, ray_address: str | None) -> None:
    """CliError where the file asks for a store that MLflow refuses, for more than this machine has, or for a
    sampler that cannot search this space; and where no Ray is at the address. SpaceError where a package is missing.
    """
    from tuner.cli.outline import refuse_what_is_not_installed
    from tuner.execution.cluster import refuse_an_unreachable
    from tuner.execution.placement import refuse_what_does_not_fit, usable_cores, usable_gpus
    from tuner.execution.protocol import ExecutionError
    from tuner.launch import slots_of
    from tuner.search.protocol import SearchProblem
    from tuner.search.registry import build_sampler
    from tuner.tracking.stores import TrackingError, checked_uri

    try:
        if ray_address is not None:
            refuse_an_unreachable(ray_address)
    except ExecutionError as problem:
        raise CliError(f"--ray-address {problem}") from problem
    search = file.search
    try:
        if file.tracking.mlflow is not None:
            checked_uri(file.tracking.mlflow)
        if ray_address is None:
            refuse_what_does_not_fit(slots_of(file), len(usable_cores()), len(usable_gpus()), "this machine")
        problem_to_search = SearchProblem(file.space, file.objectives, search.seed, file.budget.trials)
        build_sampler(search.sampler, problem_to_search)
        refuse_what_is_not_installed(file)
    except (TrackingError, ExecutionError, ValueError) as problem:
        raise CliError(f"{file.path}: {problem}") from problem


def changed_study(file: StudyFile, differences: Sequence[str]) -> str:
    """What to say of a file that is not the study that was recorded under its name."""
    lines = "\n".join(f"  {line}" for line in differences)
    return (
        f"{file.path}: study '{file.name}' is recorded with something else:\n{lines}\n"
        "add --new-space to begin a new generation that reuses the trials still inside, "
        "or give the file another name (study: ...)"
    )
