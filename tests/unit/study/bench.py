"""A study on a bench: real records, real samplers, a fake clock, and trials whose truth is known."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trials.contract import (
    EVENTS_FILE,
    SPEC_FILE,
    FailureKind,
    Measurement,
    MetricValue,
    Outcome,
    Purpose,
    TrialSpec,
)
from trials.metrics import Direction, unit_of
from trials.stages import STAGE, Stage, read_stages
from tuner.execution.classify import STAGES
from tuner.execution.cut import CUT_FILE, cut_short
from tuner.execution.kept import keep_measurement
from tuner.execution.protocol import Job, JobSource, Signal, Slots
from tuner.launch import Ending, claimed, prepare_records, run_study, try_config
from tuner.objectives import Constraint, LimitKind, Objective
from tuner.records.owner import Owner
from tuner.records.repository import Records
from tuner.records.rows import MeasurementRecord, StudyRecord
from tuner.space.domains import Choice, Choices
from tuner.space.expressions import parse_expression
from tuner.space.model import Budget, ConfirmSettings, SearchSettings, StudyFile
from tuner.space.space import Config, Parameter, Rule, Space
from tuner.study import Study, StudyFailed, Ticket

FAST, LOSS, MEMORY = "tokens_per_s", "val_loss_nats", "peak_memory_gib"
OBJECTIVES = (Objective(FAST, Direction.MAXIMIZE), Objective(LOSS, Direction.MINIMIZE))
HERE = {"cpu_model": "Bench 1", "cores_held": [0, 1], "torch": "2.13.0"}

_processes = itertools.count(1)


class Clock:
    """Seconds that pass only when somebody works or sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        self.on_sleep()

    def as_text(self) -> str:
        """The time of day that the records are given."""
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now_s)
        return moment.isoformat(timespec="microseconds")


class PowerCut(BaseException):
    """The driver is killed: no handler of the program may see this."""


Measure = Callable[[TrialSpec, int], Measurement]
"""What a run gives: its spec, and the how-many-th run of this trial it is, counted from 1."""


def gave(wall_s: float = 10.0, environment: Mapping[str, Any] = HERE, **values: float) -> Measurement:
    """A complete run."""
    metrics = {key: MetricValue(value, unit_of(key), n=50) for key, value in values.items()}
    return Measurement(
        Outcome.COMPLETE, metrics=metrics, phases={"wall_s": wall_s}, environment=dict(environment)
    )


def failed(kind: str, message: str = "it broke") -> Measurement:
    """A failed run of two seconds."""
    return Measurement.failed(FailureKind(kind), message, phases={"wall_s": 2.0})


def contaminated(measurement: Measurement) -> Measurement:
    """The same, taken while something else was busy."""
    return replace(measurement, facts={"contaminated": "foreign load"})


def line(config: Mapping[str, Any], seed: int = 0) -> Measurement:
    """All of ``x`` is on the front: the larger, the faster and the worse. Seeds make 0.1% of noise."""
    x, wobble = config["x"], 1 + 0.001 * ((seed * 7 + 3) % 5 - 2)
    return gave(**{FAST: 100.0 * (1 + x) * wobble, LOSS: (2.0 + 0.1 * x) * wobble, MEMORY: 1.0 + x})


def on_line(spec: TrialSpec, nth: int) -> Measurement:
    """``line`` as what a run gives."""
    return line(spec.config, spec.seed)


def study_file(
    *,
    x: int = 8,
    baseline: Config | None = None,
    limits: tuple[Constraint, ...] = (),
    rules: tuple[str, ...] = (),
    sampler: str = "random",
    seed: int = 5,
    at_once: int = 1,
    confirm: ConfirmSettings | None = None,
    **more: Any,
) -> StudyFile:
    """A space ``x: [0, ..., x - 1]``; ``more`` are fields of the file, and of its budget."""
    budget = {key: more.pop(key) for key in tuple(more) if key in Budget.__dataclass_fields__}
    domain = Choices(tuple(Choice(value, value) for value in range(x)))
    space = Space(
        (Parameter("x", domain, None, 0, 1),), tuple(Rule(parse_expression(rule), 1) for rule in rules)
    )
    settings = {
        "path": Path("/spaces/space.yaml"),
        "text": "study: bench\n",
        "name": "bench",
        "workload": {"kind": "bench"},
        "space": space,
        "baseline": {"x": 0} if baseline is None else baseline,
        "try_first": (),
        "objectives": OBJECTIVES,
        "constraints": limits,
        "budget": Budget(**{"trials": 6, **budget}),
        "search": SearchSettings(sampler, seed, at_once),
        "confirm": confirm or ConfirmSettings(finalists=0, repeats=3, baseline_repeats=2),
    }
    return StudyFile(**{**settings, **more})


def limit(metric: str, kind: str, amount: float) -> Constraint:
    return Constraint(metric, LimitKind(kind), amount)


@dataclass
class FakeExecutor:
    """Slots that work on the fake clock. ``cut_at`` pulls the plug at that many-th step (counted in ``steps``).

    ``stages`` are what a trial that is asked for them reports: seconds after its start, and the stage. Steps: a
    job was asked for, a job ended (its folder is written), its result was recorded.
    """

    measure: Measure
    clock: Clock
    cut_at: int | None = None
    on_step: Callable[[FakeExecutor, JobSource], None] = lambda executor, source: None
    stages: Callable[[TrialSpec], list[tuple[float, Stage]]] = lambda spec: []
    steps: int = 0
    taken: list[TrialSpec] = field(default_factory=list)
    most_at_once: int = 0
    is_interrupted: bool = False
    _nth: Counter[int] = field(default_factory=Counter)
    _running: list[tuple[float, Job, Measurement]] = field(default_factory=list)
    _due: list[tuple[float, TrialSpec, Stage]] = field(default_factory=list)

    def interrupt(self) -> None:
        self.is_interrupted = True

    def run(self, source: JobSource, slots: Slots) -> None:
        is_finished = False
        while True:
            while len(self._running) < slots.count and not is_finished and not self._must_stop(source):
                job = source.next_job(len(self._running))
                self._step(source)
                assert job is not Signal.WAIT or self._running, "the study waits while nothing runs"
                is_finished = job is Signal.FINISHED
                if not isinstance(job, Job):
                    break
                self._begin(job)
            if not self._running:
                return
            self._work(source)

    def _begin(self, job: Job) -> None:
        spec = job.spec
        self.taken.append(spec)
        self._nth[spec.trial_number] += 1
        spec.trial_dir.mkdir(parents=True)  # fails where a folder would be used twice
        (spec.trial_dir / SPEC_FILE).write_text(spec.to_json(), encoding="utf-8")
        measurement = self.measure(spec, self._nth[spec.trial_number])
        if spec.report_at:
            self._due += [(self.clock.now_s + after_s, spec, stage) for after_s, stage in self.stages(spec)]
        self._running.append((self.clock.now_s + measurement.phases["wall_s"], job, measurement))
        self.most_at_once = max(self.most_at_once, len(self._running))

    def _work(self, source: JobSource) -> None:
        """Until the first of the running jobs ends, looking every second whether it must stop."""
        first = min(self._running, key=lambda entry: entry[0])
        while self.clock.now_s < first[0]:
            self.clock.now_s = min(first[0], self.clock.now_s + 1.0)
            self._report()
            source.look()
            if (cut := next((entry for entry in self._running if _is_cut(entry[1])), None)) is not None:
                self._running.remove(cut)
                self._hand_back(source, cut[1], self._pruned(cut[1].spec, cut[0] - self.clock.now_s, cut[2]))
                return
            if self._must_stop(source):
                self._cut(source)
                return
        self._running.remove(first)
        _, job, measurement = first
        self._hand_back(source, job, _with_stages(measurement, job.spec))

    def _hand_back(self, source: JobSource, job: Job, measurement: Measurement) -> None:
        keep_measurement(job.spec, measurement)
        self._step(source)
        source.on_result(job, measurement)
        self._step(source)

    def _report(self) -> None:
        """Write the stages that are due into the events files."""
        for _, spec, stage in [entry for entry in self._due if entry[0] <= self.clock.now_s]:
            with (spec.trial_dir / EVENTS_FILE).open("a", encoding="utf-8") as events:
                events.write(json.dumps({"event": STAGE, **stage.as_event()}) + "\n")
        self._due = [entry for entry in self._due if entry[0] > self.clock.now_s]

    def _pruned(self, spec: TrialSpec, left_s: float, whole: Measurement) -> Measurement:
        stages, _ = read_stages(spec.trial_dir)
        ran_s = whole.phases["wall_s"] - left_s
        return _with_stages(replace(cut_short(spec.trial_dir, stages), phases={"wall_s": ran_s}), spec)

    def _cut(self, source: JobSource) -> None:
        while self._running:
            _, job, _ = self._running.pop(0)
            source.on_result(job, failed("interrupted", "cut before it ended"))

    def _must_stop(self, source: JobSource) -> bool:
        return source.must_stop() or self.is_interrupted

    def _step(self, source: JobSource) -> None:
        self.steps += 1
        if self.steps == self.cut_at:
            raise PowerCut
        self.on_step(self, source)

    def purposes(self) -> list[str]:
        """Purpose of every run, in order."""
        return [str(spec.purpose) for spec in self.taken]

    def searched(self) -> list[int]:
        """``x`` of every run of the search, in order."""
        return [spec.config["x"] for spec in self.taken if spec.purpose is Purpose.SEARCH]


def _is_cut(job: Job) -> bool:
    return (job.spec.trial_dir / CUT_FILE).exists()


def _with_stages(measurement: Measurement, spec: TrialSpec) -> Measurement:
    """As an executor hands it back."""
    stages = [stage.as_event() for stage in read_stages(spec.trial_dir)[0]]
    return replace(measurement, facts={**measurement.facts, STAGES: stages}) if stages else measurement


@dataclass
class Notes:
    """A watcher that remembers."""

    phases: list[str] = field(default_factory=list)
    details: dict[str, list[str]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    measurements: list[tuple[Ticket, bool | None]] = field(default_factory=list)

    def phase(self, name: str, detail: str) -> None:
        self.phases.append(name)
        self.details.setdefault(name, []).append(detail)

    def started(self, ticket: Ticket, config: Config) -> None:
        pass

    def measured(
        self, ticket: Ticket, config: Config, measurement: Measurement, *, is_feasible: bool | None
    ) -> None:
        self.measurements.append((ticket, is_feasible))

    def note(self, message: str) -> None:
        self.said.append(message)


@dataclass
class Bench:
    """One folder with records; every ``run`` is a process of its own."""

    folder: Path
    clock: Clock
    notes: Notes = field(default_factory=Notes)
    patch: Callable[[Records], None] = lambda records: None

    @property
    def database(self) -> Path:
        return self.folder / "tuner.db"

    def run(
        self, file: StudyFile, measure: Measure = on_line, *, new_space: bool = False, **how: Any
    ) -> tuple[Ending, FakeExecutor]:
        """Run the study as ``tuner run`` does. PowerCut passes through, and leaves what was written."""
        executor = FakeExecutor(measure, self.clock, **how)
        with Records.open(self.database, owner=_new_process(), busy_timeout_s=0.05) as records:
            records.claim(file.name, take_over=True)
            prepare_records(file, records, new_space=new_space)
            self.patch(records)
            with claimed(records, file.name, take_over=True):
                ending = run_study(
                    file, records, executor, [self.notes], clock=self.clock, sleep=self.clock.sleep
                )
        return ending, executor

    def try_one(
        self, file: StudyFile, config: Config, measure: Measure = on_line
    ) -> tuple[int, Study, FakeExecutor]:
        """As ``tuner try`` does."""
        executor = FakeExecutor(measure, self.clock)
        opened = Records.open(self.database, owner=_new_process())
        with opened as records, claimed(records, file.name, take_over=True):
            number, study = try_config(file, records, executor, config, [self.notes])
        return number, study, executor

    def cut(self, file: StudyFile, measure: Measure = on_line, **how: Any) -> None:
        """Run it until the plug is pulled."""
        try:
            self.run(file, measure, **how)
        except PowerCut:
            return
        raise AssertionError("the study ended before the power cut")

    def record(self, name: str = "bench") -> StudyRecord:
        with Records.open(self.database, must_exist=True) as records:
            return records.study(name)

    def runs(self, number: int) -> list[MeasurementRecord]:
        """The measurements of a trial."""
        return list(self.record().trials[number].measurements)

    def searches(self, number: int) -> list[MeasurementRecord]:
        """The same without confirmations."""
        return [run for run in self.runs(number) if run.purpose is not Purpose.CONFIRM]

    def xs(self) -> list[int]:
        """``x`` of every recorded configuration."""
        return [trial.config["x"] for trial in self.record().trials]


def failure_of(ending: Ending) -> str:
    """The message of a study that failed."""
    assert isinstance(ending.failure, StudyFailed)
    return str(ending.failure)


def _new_process() -> Owner:
    return Owner("bench", "m", "b", "ns", next(_processes), 1, "2026-01-01")
