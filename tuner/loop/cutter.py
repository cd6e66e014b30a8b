"""Watches the trials of a search as they run, and cuts the one that cannot reach the front any more.

It looks at a trial's events file every few seconds, which costs the trial nothing: whether the file has grown
is one call of the file system, and only a stage that came is read and judged. A stage that was disturbed from
outside decides nothing. Baselines, confirmations, tries and verifications are never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trials.contract import Outcome, Purpose, TrialSpec
from trials.stages import Stage, read_stages
from tuner.comparison import Spread, pool_values
from tuner.execution.classify import STAGES
from tuner.execution.cut import ask_to_cut
from tuner.loop.cutting import Finished, Guess, Partial, guesses, should_cut
from tuner.objectives import Bound, Objective
from tuner.results import TrialResult
from tuner.search.protocol import Expected

REPORT_AT = (0.1, 0.3)
"""Shares of its work after which a trial of the search says how it goes."""
LOOK_EVERY_S = 2.0
_MAY_BE_CUT = (Purpose.SEARCH, Purpose.RETRY)


@dataclass
class _Watched:
    """A trial that runs: where it reports, how far that was read, what the model expected of it."""

    trial_dir: Path
    expected: Mapping[str, Expected]
    offset: int = 0
    is_cut: bool = False


@dataclass
class Cutter:
    """Knows what finished, and looks at what runs. ``clock`` gives seconds."""

    objectives: Sequence[Objective]
    clock: Callable[[], float]
    is_on: bool = True
    bounds: Sequence[Bound] = ()
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    _seen: dict[int, Finished] = field(default_factory=dict)
    _running: dict[str, _Watched] = field(default_factory=dict)
    _look_at: float = 0.0

    def begin(self, bounds: Sequence[Bound], spreads: Mapping[str, Spread]) -> None:
        """The baseline is known: the limits as numbers, and how much one run differs from the next."""
        self.bounds, self.spreads = bounds, spreads

    def report_at(self, purpose: Purpose) -> tuple[float, ...]:
        """When a trial that is run for this purpose should report; empty: it is left alone."""
        return REPORT_AT if self.is_on and self.spreads and purpose in _MAY_BE_CUT else ()

    def learn(self, trial: TrialResult) -> None:
        """A trial ended; what it gave, and what it had reported on the way, tells of others."""
        if trial.losses is None:
            return
        values = {k: Guess(e.value, e.error, e.degrees) for k, e in trial.estimates.items()}
        early = {
            stage.fraction: {key: metric.value for key, metric in stage.metrics.items()}
            for run in trial.measurements
            if run.outcome is Outcome.COMPLETE and not run.is_discarded
            for stage in map(Stage.from_event, run.facts.get(STAGES, ()))
        }
        self._seen[trial.number] = Finished(trial.number, values, trial.is_feasible is not False, early)

    def started(self, spec: TrialSpec, expected: Mapping[str, Expected] | None) -> None:
        """A trial was sent to run."""
        if spec.report_at:
            self._running[spec.measurement_id] = _Watched(spec.trial_dir, expected or {})

    def ended(self, measurement_id: str) -> None:
        """It has ended, in whatever way."""
        self._running.pop(measurement_id, None)

    def look(self) -> None:
        """See what came; called as often as one likes, it looks only every ``LOOK_EVERY_S``."""
        if not self._running or self.clock() < self._look_at:
            return
        self._look_at = self.clock() + LOOK_EVERY_S
        for trial in self._running.values():
            if not trial.is_cut:
                self._look_into(trial)

    def _look_into(self, trial: _Watched) -> None:
        stages, trial.offset = read_stages(trial.trial_dir, trial.offset)
        for stage in stages:
            if stage.contaminated:
                continue
            seen, partial = list(self._seen.values()), self._partial(stage)
            why = should_cut(seen, partial, self.objectives, self.bounds, trial.expected)
            if why is not None:
                trial.is_cut = True
                guessed = {key: (guess.value, guess.error) for key, guess in guesses(seen, partial).items()}
                ask_to_cut(trial.trial_dir, why, guessed)
                return

    def _partial(self, stage: Stage) -> Partial:
        steady = {key: self._guess(key, stage) for key in stage.steady}
        early = {key: metric.value for key, metric in stage.metrics.items() if key not in steady}
        return Partial(stage.fraction, steady, early)

    def _guess(self, key: str, stage: Stage) -> Guess:
        """A steady value with the noise of the baseline's repeats, or its own where that is larger.

        A few repeats that agree to the last digit do not say that there is none: it is unknown then.
        """
        metric, prior = stage.metrics[key], self.spreads.get(key)
        if prior is None:
            return Guess(metric.value, None)
        estimate = pool_values([metric], prior)
        return Guess(estimate.value, estimate.error, estimate.degrees)
