"""READ FIRST. The loop of a study: baseline -> search -> confirm; ask, check, run, record, tell.

A `Study` is a source of jobs: an executor pulls the next measurement and hands back what it gave. The plan of the
whole study is one generator, so that it reads from top to bottom although results arrive later::

    baseline    one cold run that is thrown away, then repeats; freezes every relative limit
    search      try_first, then what the sampler proposes, until the budget or the space is spent
    confirm     finalists and the baseline again, in interleaved rounds

Everything that happened is in the records before the next job is given out; a study that was cut short, by Ctrl-C
or a power cut, goes on from there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from trials.contract import FailureKind, Measurement, Outcome, Purpose, TrialSpec
from tuner.execution.protocol import Job, Signal
from tuner.objectives import Bound
from tuner.records.repository import Records
from tuner.records.rows import GIVEN, StudyRecord
from tuner.results import StudyResult, finalists, judge
from tuner.search.protocol import Observation, Sampler
from tuner.space.model import StudyFile
from tuner.space.space import Config, config_key
from tuner.pareto import reference_point
from tuner.stopping import FailureStreak, GainWatch, TimeBudget

BASELINE = 0
_NOT_RETRIED_BY_CHANCE = {FailureKind.KILLED}  # an outside hand; deterministic causes are never run again
_MAX_CONFIRM_PASSES = 3
"""How often fallen finalists are replaced by the next candidates."""
_MAX_EXTRA_ROUNDS = 3
"""Further rounds for limits that stay undecided after the planned ones."""


class StudyFailed(Exception):  # noqa: N818 - says what happened to the study
    """The study cannot go on; the message shows why and what to do (exit code 1)."""


@dataclass(frozen=True)
class Ticket:
    """One measurement to take: which trial, why, with which seed; ``is_cold`` marks the run to throw away."""

    number: int
    purpose: Purpose
    seed: int
    round_number: int | None = None
    is_cold: bool = False
    attempt: int = 1


class Watcher(Protocol):
    """Is told how a study goes. Called between trials only, never inside a measured window."""

    def phase(self, name: str, detail: str) -> None:
        """A phase begins: baseline, search, confirm."""
        ...

    def started(self, ticket: Ticket, config: Config) -> None:
        """A measurement was sent to run."""
        ...

    def measured(self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None) -> None:
        """A measurement ended and is in the records."""
        ...

    def note(self, message: str) -> None:
        """Something the user should read."""
        ...


class Study:
    """A study as a source of jobs (see `tuner.execution.protocol.JobSource`).

    ``records`` must already hold the study (created or found, and claimed). ``measure_dir`` is where trial folders
    go. ``clock`` gives seconds and is a parameter for tests.
    """

    def __init__(
        self,
        file: StudyFile,
        records: Records,
        sampler: Sampler,
        measure_dir: Path,
        watchers: Sequence[Watcher] = (),
        clock: Callable[[], float] = time.monotonic,
        spent_s: float = 0.0,
    ) -> None:
        self.file = file
        self.records = records
        self.sampler = sampler
        self.measure_dir = measure_dir
        self.watchers = watchers
        self.stopped_because: str | None = None
        self.failure: StudyFailed | None = None
        self.is_interrupted = False
        self.time = TimeBudget(file.budget.wall_time_s, clock, spent_s)
        self._streak = FailureStreak(file.budget.failures_in_a_row)
        self._gain = GainWatch(file.objectives, file.budget.no_gain)
        self._configs: dict[int, Config] = {}
        self._by_key: dict[str, int] = {}
        self._running: dict[str, Ticket] = {}
        self._again: deque[Ticket] = deque()
        self._rejections_seen: dict[str, int] = {}
        self._next_round = 0
        self._folders = 0
        self._bounds: tuple[Bound, ...] | None = self._record().bounds
        self._recall()
        self._first: Job | Signal | None = None  # a job that was looked at and not yet given out
        self._plan = self._whole_plan()

    # --- what an executor calls -------------------------------------------------------------------------------

    def next_job(self, running: int) -> Job | Signal:
        """The next measurement; a failure of the study ends the jobs and is kept in ``failure``."""
        if self.is_interrupted or self.failure is not None:
            return Signal.FINISHED
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            return next(self._plan, Signal.FINISHED)
        except StudyFailed as failure:
            self.failure = failure
            self.stopped_because = str(failure).splitlines()[0]
            return Signal.FINISHED

    def has_work(self) -> bool:
        """Whether there is a job to run, without needing an executor to ask."""
        if self._first is None:
            self._first = self.next_job(running=0)
        return self._first is not Signal.FINISHED

    def on_result(self, job: Job, measurement: Measurement) -> None:
        """Record a measurement, tell the sampler and the watchers."""
        ticket = self._running.pop(job.spec.measurement_id)
        measurement = replace(measurement, facts={**measurement.facts, GIVEN: dict(job.spec.config)})
        again = self._second_attempt(ticket, measurement)
        self.records.finish_measurement(
            job.spec.measurement_id, measurement, is_discarded=ticket.is_cold or again is not None
        )
        if again is not None:
            self._again.append(again)
            self._note(f"trial {ticket.number} is measured again: {_why_again(measurement)}")
        elif ticket.purpose in (Purpose.SEARCH, Purpose.RETRY):
            self._learn(ticket.number, measurement)
        self.time.add(measurement.phases.get("wall_s", 0.0))
        config, feasible = self._configs[ticket.number], self._feasible(measurement)
        for watcher in self.watchers:
            watcher.measured(ticket, config, measurement, is_feasible=feasible)

    def must_stop(self) -> bool:
        """True when what runs must be cut: the user said so, or the wall time is over."""
        if self.time.is_over() and self.stopped_because is None:
            self.stopped_because = f"wall time of {self.time.limit_s:.0f} s is over"
        return self.is_interrupted or self.time.is_over()

    def interrupt(self) -> None:
        """No new jobs; what runs is cut (called from a signal handler)."""
        self.is_interrupted = True
        self.stopped_because = "interrupted"

    # --- the plan -----------------------------------------------------------------------------------------------

    def _whole_plan(self) -> Iterator[Job | Signal]:
        yield from self._baseline()
        yield from self._search()
        yield from self._confirm()
        yield from self._settled()

    def _baseline(self) -> Iterator[Job | Signal]:
        """Trial 0: a cold run that is thrown away, then repeats; ends with the limits frozen."""
        if self._bounds is None:
            config = self.file.baseline
            if BASELINE not in self._configs:
                self._admit(config, "baseline")
            self._phase("baseline", "your own configuration, to compare everything with")
            yield self._job(Ticket(BASELINE, Purpose.BASELINE, self._seed(0), is_cold=True))
            yield from self._settled()
            self._stop_if_baseline_failed()
            for repeat in range(self.file.confirm.baseline_repeats):
                yield self._job(Ticket(BASELINE, Purpose.BASELINE, self._seed(repeat)))
            yield from self._settled()
            self._stop_if_baseline_failed()
            self._freeze()

    def _search(self) -> Iterator[Job | Signal]:
        """What the user wants tried, then what the sampler proposes."""
        self._phase("search", f"up to {self.file.budget.trials} configurations, the baseline included")
        wishes = deque(self.file.try_first)
        while (reason := self._why_end_search()) is None:
            if self._again:
                yield self._job(self._again.popleft())
                continue
            proposal = self._next_configuration(wishes)
            if proposal is not None:
                number = self._admit(*proposal)
                yield self._job(Ticket(number, Purpose.SEARCH, self._seed(0)))
            elif self._running:
                yield Signal.WAIT  # a result may ask for a second attempt
            else:
                reason = f"space exhausted: all {len(self._configs)} valid configurations are measured"
                break
        self.stopped_because = self.stopped_because or reason
        yield from self._settled()

    def _confirm(self) -> Iterator[Job | Signal]:
        """Finalists and the baseline in interleaved rounds; a finalist that falls is replaced by the next one."""
        settings = self.file.confirm
        for _ in range(_MAX_CONFIRM_PASSES if settings.finalists else 0):
            result = self.judged()
            chosen = [n for n in finalists(result, settings.finalists) if not result.trial(n).is_confirmed]
            if not chosen:
                return
            names = ", ".join(str(number) for number in chosen)
            self._phase("confirm", f"trials {names} and the baseline, {settings.repeats} interleaved rounds")
            yield from self._rounds(chosen, range(settings.repeats))
            yield from self._extra_rounds(chosen)
            if self.time.is_over():
                return

    def _rounds(self, numbers: Sequence[int], rounds: Sequence[int]) -> Iterator[Job | Signal]:
        """One run of each in turn, A B C A B C; a round's runs share a seed, and rounds are numbered on."""
        offset = self._next_round - (rounds[0] if rounds else 0)
        for index in rounds:
            for number in dict.fromkeys([BASELINE, *numbers]):
                yield self._job(Ticket(number, Purpose.CONFIRM, self._seed(index), round_number=index + offset))
            self._next_round = index + offset + 1
        yield from self._settled()

    def _extra_rounds(self, numbers: Sequence[int]) -> Iterator[Job | Signal]:
        """More rounds while a limit of a finalist is undecided and the time allows."""
        done = self.file.confirm.repeats
        for extra in range(done, done + _MAX_EXTRA_ROUNDS):
            open_ones = [n for n in numbers if self.judged().trial(n).has_undecided_limit]
            if not open_ones or not self.time.allows(len(open_ones) + 1):
                return
            yield from self._rounds(open_ones, range(extra, extra + 1))

    def _settled(self) -> Iterator[Job | Signal]:
        """Until nothing runs and no second attempt is due."""
        while self._running or self._again:
            yield self._job(self._again.popleft()) if self._again else Signal.WAIT

    # --- steps --------------------------------------------------------------------------------------------------

    def _next_configuration(self, wishes: deque[Config]) -> tuple[Config, str] | None:
        while wishes:
            config = wishes.popleft()
            if config_key(config) not in self._by_key:
                return config, "try_first"
        pending = [self._configs[ticket.number] for ticket in self._running.values()]
        proposal = self.sampler.ask(len(self._configs), pending)
        self._count_rejections()
        return (proposal.config, proposal.reason) if proposal else None

    def _admit(self, config: Config, proposed_by: str) -> int:
        number = self.records.add_trial(self.file.name, config, proposed_by)
        self._configs[number] = config
        self._by_key[config_key(config)] = number
        return number

    def _job(self, ticket: Ticket) -> Job:
        config = self._configs[ticket.number]
        folder = self.measure_dir / f"{ticket.number:04d}-{ticket.purpose}-{self._next_folder():06d}"
        measurement_id = self.records.start_measurement(
            self.file.name, ticket.number, ticket.purpose, ticket.seed, str(folder), ticket.round_number
        )
        self._running[measurement_id] = ticket
        for watcher in self.watchers:
            watcher.started(ticket, config)
        return Job(
            TrialSpec(
                study=self.file.name,
                trial_number=ticket.number,
                measurement_id=measurement_id,
                purpose=ticket.purpose,
                workload=self.file.workload,
                config=self.file.space.resolve(config),
                seed=ticket.seed,
                trial_dir=folder,
                cache_dir=self.measure_dir / "cache",
                parameters=tuple(p.name for p in self.file.space.parameters),
                wanted=self.file.wanted,
                timeout_s=self.file.budget.trial_timeout_s,
                memory_limit_gib=self.file.resources.memory_gib,
            )
        )

    def _second_attempt(self, ticket: Ticket, measurement: Measurement) -> Ticket | None:
        """A measurement that something outside spoiled is taken once more; deterministic failures never are."""
        if ticket.attempt > 1 or ticket.is_cold or self.must_stop():
            return None
        if not measurement.facts.get("contaminated") and measurement.failure_kind not in _NOT_RETRIED_BY_CHANCE:
            return None
        purpose = Purpose.RETRY if ticket.purpose is Purpose.SEARCH else ticket.purpose
        return replace(ticket, purpose=purpose, attempt=2)

    def _learn(self, number: int, measurement: Measurement) -> None:
        observation = self._observation(number, measurement)
        self.sampler.tell(observation)
        self._streak.add(measurement)
        self._gain.add(observation)

    def _observation(self, number: int, measurement: Measurement) -> Observation:
        values = {key: metric.value for key, metric in measurement.metrics.items()}
        is_complete = measurement.outcome is Outcome.COMPLETE
        return Observation(
            number=number,
            config=self._configs[number],
            outcome=measurement.outcome,
            failure_kind=measurement.failure_kind,
            values=tuple(values[o.metric] for o in self.file.objectives) if is_complete else None,
            violations=tuple(b.violation(values.get(b.metric)) for b in self._bounds or ()) if is_complete else (),
            cost_s=measurement.phases.get("wall_s", 0.0),
        )

    def _feasible(self, measurement: Measurement) -> bool | None:
        if measurement.outcome is not Outcome.COMPLETE or self._bounds is None:
            return None
        values = {key: metric.value for key, metric in measurement.metrics.items()}
        return all(bound.violation(values.get(bound.metric)) <= 0 for bound in self._bounds)

    def _why_end_search(self) -> str | None:
        """Why no further configuration is proposed, or None."""
        if self._streak.is_full:
            raise StudyFailed(self._streak.explanation)
        if len(self._configs) >= self.file.budget.trials:
            return f"budget of {self.file.budget.trials} trials is spent"
        settings = self.file.confirm
        if not self.time.allows(settings.finalists * settings.repeats + settings.repeats):
            return f"wall time of {self.time.limit_s:.0f} s is spent, less what confirmation needs"
        return self._gain.why_stop()

    def _stop_if_baseline_failed(self) -> None:
        runs = [run for run in self._record().trials[BASELINE].measurements if run.outcome is not None]
        last = runs[-1]
        if last.outcome is not Outcome.COMPLETE and last.failure_kind is not FailureKind.INTERRUPTED:
            raise StudyFailed(
                f"the baseline failed ({last.failure_kind}): {last.message}\n"
                f"its log and the command that runs it alone: {last.log_dir}"
            )

    def _freeze(self) -> None:
        """Turn every limit into a number and fix the reference point of the hypervolume."""
        baseline = self.judged().baseline
        values = {key: estimate.value for key, estimate in baseline.estimates.items()}
        try:
            self._bounds = tuple(c.freeze(values.get(c.metric)) for c in self.file.constraints)
        except ValueError as problem:
            raise StudyFailed(str(problem)) from problem
        reference = reference_point(values, self.file.objectives)
        self.records.freeze(self.file.name, self._bounds, reference)
        self._gain.begin(reference)
        for bound in self._bounds:
            met = "" if bound.violation(values.get(bound.metric)) <= 0 else "  (the baseline itself does not meet it)"
            self._note(f"limit {bound}{met}")
        self._learn_baseline(values)

    def _learn_baseline(self, values: dict[str, float]) -> None:
        observation = Observation(
            number=BASELINE,
            config=self._configs[BASELINE],
            outcome=Outcome.COMPLETE,
            values=tuple(values[o.metric] for o in self.file.objectives),
            violations=tuple(b.violation(values.get(b.metric)) for b in self._bounds or ()),
        )
        self.sampler.tell(observation)
        self._gain.add(observation)

    # --- going on where a study stopped -------------------------------------------------------------------------

    def _recall(self) -> None:
        """Take over what the records hold: known configurations, results, and what was interrupted."""
        record = self._record()
        self._next_round = 1 + max(
            (run.round_number for t in record.trials for run in t.measurements if run.round_number is not None),
            default=-1,
        )
        self._folders = sum(len(trial.measurements) for trial in record.trials)
        for trial in record.trials:
            self._configs[trial.number] = dict(trial.config)
            self._by_key[config_key(trial.config)] = trial.number
        if self._bounds is None:
            return
        self._gain.begin(record.reference_point or {})
        result = judge(record)
        self._learn_baseline({key: estimate.value for key, estimate in result.baseline.estimates.items()})
        for trial in record.trials[1:]:
            runs = [r for r in trial.measurements if r.purpose is not Purpose.CONFIRM and r.outcome]
            settled = [r for r in runs if r.failure_kind is not FailureKind.INTERRUPTED and not r.is_discarded]
            if settled:
                last = settled[-1]
                self._learn(
                    trial.number,
                    Measurement(
                        outcome=last.outcome or Outcome.FAILED,
                        failure_kind=last.failure_kind,
                        message=last.message,
                        metrics=last.metrics,
                        phases=last.phases,
                    ),
                )
            else:
                self._again.append(Ticket(trial.number, Purpose.SEARCH, self._seed(0)))

    # --- small things ---------------------------------------------------------------------------------------------

    def judged(self) -> StudyResult:
        """The study as it stands in the records."""
        return judge(self._record())

    def _record(self) -> StudyRecord:
        return self.records.study(self.file.name)

    def _seed(self, repeat: int) -> int:
        return self.file.search.seed + repeat

    def _next_folder(self) -> int:
        self._folders += 1
        return self._folders

    def _count_rejections(self) -> None:
        now = dict(self.sampler.rejected())
        news = {rule: n - self._rejections_seen.get(rule, 0) for rule, n in now.items()}
        if any(news.values()):
            self.records.count_rejected(self.file.name, {rule: n for rule, n in news.items() if n})
            self._rejections_seen = now

    def _phase(self, name: str, detail: str) -> None:
        for watcher in self.watchers:
            watcher.phase(name, detail)

    def _note(self, message: str) -> None:
        for watcher in self.watchers:
            watcher.note(message)


def _why_again(measurement: Measurement) -> str:
    return str(measurement.facts.get("contaminated") or f"{measurement.failure_kind}: {measurement.message}")
