"""READ FIRST. The loop of a study: baseline -> search -> confirm; ask, check, run, record, tell.

A `Study` is a source of jobs: an executor pulls the next measurement and hands back what it gave. The plan of
the whole study is one generator of tickets, so that it reads from top to bottom although results arrive
later::

    baseline    one cold run that is thrown away, then repeats; freezes every relative limit
    search      what was cut short, try_first, then what the sampler proposes, until budget or space is spent
    confirm     finalists and the baseline again, in interleaved rounds

Everything that happened is in the records before the next job is given out; a study that was cut short, by
Ctrl-C or a power cut, goes on from there (``recall.py``). ``stopping.py`` says when it is enough,
``confirmation.py`` which rounds are due, ``tickets.py`` what is measured twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trials.contract import Measurement, Outcome, Purpose
from tuner.execution.protocol import Job, Signal
from tuner.loop import recall
from tuner.loop.confirmation import due_rounds, rounds_text
from tuner.loop.cutter import Cutter
from tuner.loop.failure import StudyFailed, baseline_failed, other_machine, without_values
from tuner.loop.fingerprint import harmless_differences, machine_differences
from tuner.loop.patience import Patience
from tuner.loop.proposing import Proposer
from tuner.loop.stopping import FailureStreak, GainWatch, TimeBudget
from tuner.loop.tickets import Ticket, second_attempt, trial_spec, what_spoiled
from tuner.loop.watching import Watcher, Watchers
from tuner.objectives import is_feasible
from tuner.pareto import reference_point
from tuner.records.errors import DuplicateConfig
from tuner.records.repository import Records
from tuner.records.rows import CONCURRENT, CONTAMINATED, GIVEN, Forecast, StudyRecord
from tuner.results import StudyResult, TrialResult, judge, judge_trial
from tuner.results.model import BASELINE
from tuner.results.trial import Yardstick
from tuner.search.protocol import Expected, Proposal, Sampler
from tuner.space.model import StudyFile
from tuner.space.space import Config, config_key

_MOST_PASSES = 20
"""Times that confirmation looks for rounds that are due; each pass settles some, this is a backstop."""


_MOST_VAIN = 3
"""After so many second attempts in a row that were disturbed again, disturbed runs are not repeated."""


class Study:
    """A study as a source of jobs (see `tuner.execution.protocol.JobSource`).

    ``records`` must already hold the study (created or found, and claimed). ``measure_dir`` is where trial
    folders go. ``clock`` gives seconds; it and ``sleep`` are parameters for tests.
    """

    def __init__(
        self,
        file: StudyFile,
        records: Records,
        sampler: Sampler,
        measure_dir: Path,
        watchers: Sequence[Watcher] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.file, self.records, self.sampler, self.measure_dir = file, records, sampler, measure_dir
        self.watchers = Watchers(watchers)
        self.stopped_because: str | None = None
        self.failure: StudyFailed | None = None
        self.is_interrupted = False
        self.confirm_runs = 0  # that confirmation has asked for so far, those done included
        self.other_machine: tuple[str, ...] = ()  # what differed, where a measurement came from another one
        self._patiently = Patience(sleep, self.watchers.note, is_over=self._has_ended)
        record = self._record()
        self.bounds = record.bounds
        at_once = file.search.concurrent_trials
        self.time = TimeBudget(file.budget.wall_time_s, clock, recall.spent_s(record), at_once)
        for seconds in recall.durations_s(record):
            self.time.add(seconds)
        self._streak = FailureStreak(file.budget.failures_in_a_row)
        self._gain = GainWatch(file.objectives, file.budget.no_gain)
        self._cutter = Cutter(file.objectives, clock, file.search.cut_short)
        self._configs: dict[int, Config] = {trial.number: dict(trial.config) for trial in record.trials}
        self._keys = {config_key(config) for config in self._configs.values()}
        self._environment = recall.known_environment(record)
        self._has_compared = False
        self._proposer = Proposer(sampler, file.try_first, record.rejected, self._count_rejected)
        self._next_round = recall.next_round(record)
        self._expected: dict[int, Mapping[str, Expected]] = {}  # by trial not sent to run yet
        self._folders = sum(len(trial.measurements) for trial in record.trials)
        self._running: dict[str, Ticket] = {}
        self._again: deque[Ticket] = deque()
        self._vain = 0  # second attempts in a row that were disturbed as well
        self._baseline_failure: StudyFailed | None = None
        self._is_confirming = False
        self._ahead: Ticket | Signal | None = None  # was looked at and not yet given out
        self._plan = self._whole_plan()

    def limit_to(self, config: Config, proposed_by: str) -> int:
        """Measure this configuration and nothing else, to its end; returns the number of its trial."""
        self._cutter.is_on = False
        key = config_key(config)
        known = next((number for number, other in self._configs.items() if config_key(other) == key), None)
        number = self._admit(config, proposed_by) if known is None else known
        self._plan = self._one(number)
        return number

    # --- what an executor calls -----------------------------------------------------------------------------

    def next_job(self, running: int) -> Job | Signal:
        """The next measurement; a failure of the study ends the jobs and is kept in ``failure``."""
        if self.failure is not None or self.must_stop():
            return Signal.FINISHED
        try:
            ticket, self._ahead = self._ahead or next(self._plan, Signal.FINISHED), None
            return self._started(ticket) if isinstance(ticket, Ticket) else ticket
        except StudyFailed as failure:
            self._fail(failure)
            return Signal.FINISHED

    def has_work(self) -> bool:
        """Whether there is a job to run, without needing an executor to ask."""
        if self.failure is None and not self.must_stop() and self._ahead is None:
            try:
                self._ahead = next(self._plan, Signal.FINISHED)
            except StudyFailed as failure:
                self._fail(failure)
        return isinstance(self._ahead, Ticket)

    def on_result(self, job: Job, measurement: Measurement) -> None:
        """Record a measurement, tell the sampler and the watchers."""
        ticket = self._running.pop(job.spec.measurement_id)
        self._cutter.ended(job.spec.measurement_id)
        measurement = without_values(measurement, self.file.objectives)
        facts = {**measurement.facts, GIVEN: dict(job.spec.config)}
        at_once = self.file.search.concurrent_trials
        measurement = replace(measurement, facts=facts | ({CONCURRENT: at_once} if at_once > 1 else {}))
        try:
            self._keep(ticket, job, measurement)
        except StudyFailed as failure:
            self._fail(failure)
            return
        self.watchers.measured(
            ticket, self._configs[ticket.number], measurement, is_feasible=self._is_feasible(measurement)
        )

    def must_stop(self) -> bool:
        """True when what runs must be cut: the user said so, or the wall time is over."""
        if self.time.is_over():
            self.stopped_because = self.stopped_because or f"wall time of {self.time.limit_s:g} s is over"
            self._say_confirmation_is_cut()
        return self.is_interrupted or self.time.is_over()

    def look(self) -> None:
        """See how the running trials go, and cut one that cannot reach the front any more."""
        self._cutter.look()

    def interrupt(self) -> None:
        """No new jobs; what runs is cut (called from a signal handler)."""
        self.is_interrupted = True
        self.stopped_because = "interrupted"

    # --- the plan -------------------------------------------------------------------------------------------

    def _whole_plan(self) -> Iterator[Ticket | Signal]:
        if self.bounds is None:
            yield from self._baseline()
            self._freeze()
        self._recall()
        yield from self._search()
        yield from self._confirm()

    def _one(self, number: int) -> Iterator[Ticket | Signal]:
        yield Ticket(number, Purpose.SEARCH, self._seed)
        yield from self._settled()

    def _baseline(self) -> Iterator[Ticket | Signal]:
        """Trial 0: a cold run that is thrown away, then what is missing of its repeats."""
        if BASELINE not in self._configs:
            self._admit(self.file.baseline, "baseline")
        runs = recall.settled(self._record().trials[BASELINE].measurements)
        complete = [run for run in runs if run.outcome is Outcome.COMPLETE]
        missing = recall.missing_repeats(complete, self.file.confirm.baseline_repeats, self._seed)
        if not missing:
            return
        self.watchers.phase("baseline", "your own configuration, to compare everything with")
        yield Ticket(BASELINE, Purpose.BASELINE, self._seed, is_cold=True)
        yield from self._settled()
        for repeat in missing:
            yield Ticket(BASELINE, Purpose.BASELINE, self._seed + repeat)
        yield from self._settled()

    def _search(self) -> Iterator[Ticket | Signal]:
        """What is owed, what the user wants tried, then what the sampler proposes."""
        trials = self.file.budget.trials
        self.watchers.phase("search", f"up to {trials} configurations, the baseline included")
        while (reason := self._why_end_search()) is None:
            if self._again:
                yield self._again.popleft()
            elif (proposal := self._proposal()) is not None:
                yield Ticket(self._proposed(proposal), Purpose.SEARCH, self._seed)
            elif self._running:
                yield Signal.WAIT  # a result may ask for a second attempt
            else:
                known = len(self._configs)
                reason = f"space exhausted: every valid configuration is measured, {known} in all"
                break
        self.stopped_because = self.stopped_because or reason
        yield from self._settled()

    def _confirm(self) -> Iterator[Ticket | Signal]:
        """Finalists and the baseline in interleaved rounds; a finalist that falls is replaced by the next."""
        for _ in range(_MOST_PASSES if self.file.confirm.finalists else 0):
            due = due_rounds(self.judged(), self.file.confirm, self._seed, self.time.room)
            self._is_confirming = bool(due)
            if not due:
                return
            self.confirm_runs += sum(len(one.numbers) for one in due)
            self.watchers.phase("confirm", rounds_text(self.judged(), due, self.file.confirm))
            for one in due:
                if self.time.room < len(one.numbers):
                    yield from self._settled()
                    self._say_confirmation_is_cut()
                    return
                for number in one.numbers:
                    yield Ticket(number, Purpose.CONFIRM, self._seed + one.repeat, self._next_round)
                self._next_round += 1
            yield from self._settled()

    def _settled(self) -> Iterator[Ticket | Signal]:
        """Until nothing runs and no second attempt is due. StudyFailed where the baseline failed."""
        while self._running or self._again:
            yield self._again.popleft() if self._again else Signal.WAIT
        if self._baseline_failure is not None:
            raise self._baseline_failure

    # --- steps of the search --------------------------------------------------------------------------------

    def _why_end_search(self) -> str | None:
        """Why no further configuration is proposed, or None."""
        if self._streak.is_full:
            raise StudyFailed(self._streak.explanation)
        known, settings = len(self._configs), self.file.confirm
        if known >= self.file.budget.trials:
            return f"budget of {self.file.budget.trials} trials is spent"
        to_confirm = min(settings.finalists, known)
        kept_back = settings.repeats * (to_confirm + 1) if to_confirm else 0
        if self.time.room < kept_back + 1:
            return f"wall time of {self.time.limit_s:g} s is spent, less what confirmation needs"
        return self._gain.why_stop()

    def _proposal(self) -> Proposal | None:
        pending = [self._configs[ticket.number] for ticket in self._running.values()]
        return self._proposer.next(len(self._configs), self._keys, pending)

    def _proposed(self, proposal: Proposal) -> int:
        """The number of a proposal's trial; what the model expected of it is kept."""
        expected = proposal.expected or {}
        forecast = Forecast(expected, proposal.probability_ok) if proposal.expected is not None else None
        number = self._admit(proposal.config, proposal.reason, forecast)
        self._expected[number] = expected
        return number

    def _admit(self, config: Config, proposed_by: str, forecast: Forecast | None = None) -> int:
        try:
            number = self._patiently(
                lambda: self.records.add_trial(self.file.name, config, proposed_by, forecast)
            )
        except DuplicateConfig as known:
            if known.number in self._configs:
                raise StudyFailed(f"the sampler proposed what is known: {known}") from known
            number = known.number  # a try that seemed to fail had been written
        self._configs[number] = config
        self._keys.add(config_key(config))
        return number

    def _count_rejected(self, more: Mapping[str, int]) -> None:
        self._patiently(lambda: self.records.count_rejected(self.file.name, more))

    # --- steps of a measurement -----------------------------------------------------------------------------

    def _started(self, ticket: Ticket) -> Job:
        config = self._configs[ticket.number]
        self._folders += 1
        folder = self.measure_dir / f"{ticket.number:04d}-{ticket.purpose}-{self._folders:06d}"
        name, round_number = self.file.name, ticket.round_number
        measurement_id = self._patiently(
            lambda: self.records.start_measurement(
                name, ticket.number, ticket.purpose, ticket.seed, folder, round_number
            )
        )
        self._running[measurement_id] = ticket
        self.watchers.started(ticket, config)
        report_at = self._cutter.report_at(ticket.purpose)
        spec = trial_spec(self.file, ticket, config, measurement_id, folder, report_at)
        self._cutter.started(spec, self._expected.pop(ticket.number, None))
        return Job(spec)

    def _keep(self, ticket: Ticket, job: Job, measurement: Measurement) -> None:
        """Record it and draw the conclusions: measure again, learn, fail."""
        again = self._second_attempt(ticket, measurement)
        differences = machine_differences(self._environment, measurement.environment)
        is_discarded = ticket.is_cold or again is not None or bool(differences)
        self._patiently(
            lambda: self.records.finish_measurement(job.spec.measurement_id, measurement, is_discarded)
        )
        if differences:
            self.other_machine = tuple(differences)
            raise other_machine(ticket.number, differences)
        self._compare(measurement.environment)
        if again is not None:
            self._again.append(again)
            self.watchers.note(f"trial {ticket.number} is measured again: {what_spoiled(measurement)}")
        elif ticket.purpose in (Purpose.SEARCH, Purpose.RETRY):
            self._streak.add(measurement)
            self._learn(ticket.number)
        elif ticket.purpose is Purpose.BASELINE:
            failure = baseline_failed(measurement, job.spec.trial_dir)
            self._baseline_failure = self._baseline_failure or failure
        seconds = measurement.phases.get("wall_s")
        if seconds is not None and measurement.outcome is Outcome.COMPLETE and not ticket.is_cold:
            self.time.add(seconds)

    def _compare(self, environment: Mapping[str, Any]) -> None:
        """Say, once, that earlier numbers are taken to compare although something small is another than then."""
        others = harmless_differences(self._environment, environment)
        if others and not self._has_compared:
            self.watchers.note(
                f"not quite the environment of the measurements before ({'; '.join(others)}): taken to compare"
            )
        self._has_compared = self._has_compared or bool(environment)
        self._environment = self._environment or environment

    def _second_attempt(self, ticket: Ticket, measurement: Measurement) -> Ticket | None:
        """The ticket to measure again with; on a machine that is busy all the time this only costs time."""
        disturbed = measurement.facts.get(CONTAMINATED)
        if ticket.attempt > 1 and disturbed:
            self._vain += 1
            if self._vain == _MOST_VAIN:
                self.watchers.note(
                    f"this machine is busy all the time ({disturbed}): disturbed runs are marked and no longer "
                    "repeated; free it, or leave the others a core with resources: {cpus: N}"
                )
        elif not disturbed:
            self._vain = 0
        if self.must_stop() or (disturbed and self._vain >= _MOST_VAIN):
            return None
        return second_attempt(ticket, measurement)

    # --- what is known --------------------------------------------------------------------------------------

    def _freeze(self) -> None:
        """Turn every limit into a number and fix the reference point of the hypervolume."""
        estimates = self.judged().baseline.estimates
        values = {key: estimate.value for key, estimate in estimates.items()}
        try:
            bounds = tuple(c.freeze(values.get(c.metric)) for c in self.file.constraints)
            reference = reference_point(values, self.file.objectives)
        except ValueError as problem:
            raise StudyFailed(str(problem)) from problem
        self._patiently(lambda: self.records.freeze(self.file.name, bounds, reference))
        self.bounds = bounds
        for bound in bounds:
            is_met = bound.violation(values.get(bound.metric)) <= 0
            remark = "" if is_met else "  (the baseline itself does not meet it)"
            self.watchers.note(f"limit {bound}{remark}")
        for remark in self.judged().warnings:
            self.watchers.note(f"warning: {remark}")

    def _recall(self) -> None:
        """Learn all that is recorded, and put first what was cut short."""
        record = self._record()
        result = judge(record)
        self._gain.begin(record.reference_point or {}, result.noise_floor)
        self._cutter.begin(result.bounds, Yardstick.of(record, {}).spreads)
        self._again.extend(recall.owed_tickets(record, self._seed))
        owed = {ticket.number for ticket in self._again}
        for trial in result.trials:
            if trial.number in owed:
                self.watchers.note(f"trial {trial.number} was cut short and is measured first")
            else:
                self._observe(trial)

    def _learn(self, number: int) -> None:
        name, only = self.file.name, (BASELINE, number)
        self._observe(judge_trial(self._patiently(lambda: self.records.study(name, only=only)), number))

    def _observe(self, trial: TrialResult) -> None:
        observation = recall.observation_of(trial, self.file.objectives)
        self.sampler.tell(observation)
        self._gain.add(observation)
        self._cutter.learn(trial)

    def _is_feasible(self, measurement: Measurement) -> bool | None:
        if measurement.outcome is not Outcome.COMPLETE or self.bounds is None:
            return None
        return is_feasible(self.bounds, {key: metric.value for key, metric in measurement.metrics.items()})

    def judged(self) -> StudyResult:
        """The study as it stands in the records."""
        return judge(self._record())

    # --- small things ---------------------------------------------------------------------------------------

    @property
    def _seed(self) -> int:
        return self.file.search.seed

    def _record(self) -> StudyRecord:
        return self._patiently(lambda: self.records.study(self.file.name))

    def _fail(self, failure: StudyFailed) -> None:
        if self.failure is None:
            self.failure = failure
            first, *others = str(failure).splitlines()
            self.stopped_because = f"{first} {others[0].strip()}" if first.endswith(":") and others else first

    def _has_ended(self) -> bool:
        return self.is_interrupted or self.failure is not None

    def _say_confirmation_is_cut(self) -> None:
        if self._is_confirming and not self.is_interrupted:
            self.stopped_because = f"{self.stopped_because}; no time was left to confirm every finalist"
            self._is_confirming = False  # said


__all__ = ["BASELINE", "Study", "StudyFailed", "Ticket", "Watcher"]
