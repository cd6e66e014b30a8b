"""The parsed space file: frozen, validated once, does nothing by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.objectives import Constraint, Objective
from tuner.space.space import Config, Space


@dataclass(frozen=True)
class Selection:
    """Which point to recommend: ``rule: knee``, or the best ``maximize``/``minimize`` metric ``within`` a
    distance of the best value of other metrics.
    """

    rule: str = "knee"  # knee | first_objective | maximize | minimize
    metric: str | None = None
    within: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Budget:
    """When the study ends. ``trials`` counts configurations sent to run, the baseline included."""

    trials: int = 20
    wall_time_s: float | None = None
    no_gain: int | None = None  # end after so many trials without hypervolume gain beyond the noise
    trial_timeout_s: float = 600.0
    failures_in_a_row: int = 5


@dataclass(frozen=True)
class SearchSettings:
    """How configurations are proposed."""

    sampler: str = "auto"
    seed: int = 0
    concurrent_trials: int = 1
    cut_short: bool = True  # end a trial that cannot reach the front any more


@dataclass(frozen=True)
class Resources:
    """One slot: the most that one trial may use. ``cpus`` None means all cores of the machine / concurrent
    trials.
    """

    cpus: int | None = None
    gpus: int = 0
    memory_gib: float | None = None
    accelerator: str | None = None


@dataclass(frozen=True)
class ConfirmSettings:
    """How finalists and the baseline are measured again. ``finalists`` 0 switches confirmation off."""

    finalists: int = 4
    repeats: int = 3
    baseline_repeats: int = 3


@dataclass(frozen=True)
class TrackingSettings:
    """Where the study is shown. ``mlflow`` None switches MLflow off."""

    mlflow: str | None = "sqlite:///mlflow.db"
    experiment: str | None = None  # default: the study's name


@dataclass(frozen=True)
class KeepSettings:
    """What stays on the disk when a run has ended. ``trial_folders`` None keeps the folder of every
    measurement.
    """

    trial_folders: int | None = None


@dataclass(frozen=True)
class StudyFile:
    """A whole space file. ``workload`` is the section with absolute paths; ``warnings`` are remarks for the
    user.
    """

    path: Path
    text: str
    name: str
    workload: Mapping[str, Any]
    space: Space
    baseline: Config
    try_first: tuple[Config, ...]
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    selection: Selection = Selection()
    budget: Budget = Budget()
    search: SearchSettings = SearchSettings()
    resources: Resources = Resources()
    confirm: ConfirmSettings = ConfirmSettings()
    tracking: TrackingSettings = TrackingSettings()
    keep: KeepSettings = KeepSettings()
    warnings: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The metric keys that the study judges by, objectives first, each once."""
        keys = [o.metric for o in self.objectives] + [c.metric for c in self.constraints]
        return tuple(dict.fromkeys(keys))
