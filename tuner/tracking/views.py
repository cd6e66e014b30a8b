"""How a study looks in MLflow: judged trials in, run views out. Pure, and without MLflow."""

from __future__ import annotations

import getpass
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from trials.contract import Outcome
from trials.stages import PARTIAL
from tuner.records.rows import CONTAMINATED, StudyRecord
from tuner.results import StudyResult, TrialResult
from tuner.results.wording import changes_text
from tuner.tracking.names import NameBook, flatten
from tuner.tracking.notes import study_note, trial_note
from tuner.tracking.wire import Point, RunView, StudyKey

MAX_PARAM_LENGTH = 6000  # MLflow's limit for a parameter's value
MAX_TAG_LENGTH = 5000  # what every store takes; sqlite would take 8,000
MAX_RUN_NAME_LENGTH = 80
NOTE = "mlflow.note.content"


class StudyViews:
    """Makes the views of one study; remembers which name each metric and parameter got."""

    def __init__(self, study: StudyRecord) -> None:
        self.key = StudyKey(study.name, study.generation, study.created_at.isoformat())
        self._metric_names, self._param_names = NameBook(), NameBook()
        name = study.name if study.generation <= 1 else f"{study.name} (generation {study.generation})"
        self._running = RunView(None, name, "RUNNING", _ms(study.created_at), None)

    def opening(self, study: StudyRecord) -> RunView:
        """The study's own run, while it goes on."""
        params = self._params(_study_facts(study))[0]
        return replace(self._running, params=params, tags=_study_tags(study))

    def progress(self, number: int, hypervolume: float, time_ms: int) -> RunView:
        """The study's run, with the hypervolume after trial ``number``."""
        point = Point("hypervolume", hypervolume, time_ms, number)
        return replace(self._running, params={}, tags={}, points=(point,))

    def trial(
        self, trial: TrialResult, judged_ms: int | None = None, is_recommended: bool = False
    ) -> RunView:
        """The run of one trial. ``judged_ms``: when the values were judged, if later than measured."""
        started, ended = _span_ms(trial)
        params, cut = self._params(trial.config)
        points, not_finite = self._points(trial, judged_ms or ended)
        tags = {**_trial_tags(trial, is_recommended), NOTE: trial_note(trial)}
        tags |= {"tuner.not_finite": not_finite} if not_finite else {}
        tags |= {"tuner.cut_params": ", ".join(cut)} if cut else {}
        tags |= self._renamed(trial)
        return RunView(
            trial=trial.number,
            name=_run_name(trial, is_recommended=is_recommended),
            status="FAILED" if trial.outcome is Outcome.FAILED else "FINISHED",
            started_ms=started,
            ended_ms=ended,
            params=params,
            tags={name: _shortened(value, MAX_TAG_LENGTH) for name, value in tags.items()},
            points=tuple(points),
            texts={"config.json": json.dumps(dict(trial.config), indent=1, default=str)},
        )

    def closing(self, result: StudyResult) -> tuple[RunView, tuple[RunView, ...]]:
        """The study's run and all trials', as judged at the end."""
        study, recommended = result.record, result.recommended
        judged_ms = _ms(study.updated_at)
        opening = self.opening(study)
        view = replace(
            opening,
            status=_study_status(study),
            ended_ms=_last_ms(study),
            tags={**opening.tags, **_result_tags(result)},
            points=tuple(self._study_points(result, judged_ms)),
        )
        best = recommended.trial if recommended else None
        measured = [trial for trial in result.trials if trial.outcome is not None]
        return view, tuple(self.trial(trial, judged_ms, trial.number == best) for trial in measured)

    def _params(self, values: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
        """Flat parameters as text, and the names of those that were cut."""
        texts = {self._param_names.name(name): _as_text(value) for name, value in flatten(values).items()}
        cut = [name for name, text in texts.items() if len(text) > MAX_PARAM_LENGTH]
        return {name: _shortened(text, MAX_PARAM_LENGTH) for name, text in texts.items()}, cut

    def _points(self, trial: TrialResult, time_ms: int) -> tuple[list[Point], str]:
        """Finite numbers as points; the others as words for a tag (MLflow turns infinity into 1.8e308)."""
        numbers = dict(_numbers(trial))
        finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
        points = [Point(self._metric_names.name(name), value, time_ms) for name, value in finite.items()]
        return points, ", ".join(f"{name}={numbers[name]}" for name in numbers if name not in finite)

    def _renamed(self, trial: TrialResult) -> dict[str, str]:
        names = self._metric_names.renamed([name for name, _ in _numbers(trial)])
        names |= self._param_names.renamed(list(flatten(trial.config)))
        return {"tuner.original_names": json.dumps(names)} if names else {}

    def _study_points(self, result: StudyResult, time_ms: int) -> Iterator[Point]:
        ended = {trial.number: _span_ms(trial)[1] for trial in result.trials}
        for number, volume in result.history:
            yield Point("hypervolume", volume, ended[number], number)
        failed = sum(result.failures.values())
        counts = {"front_size": len(result.front), "trials": len(result.trials), "failed_trials": failed}
        for name, count in counts.items():
            yield Point(name, count, time_ms)
        if result.hypervolume is not None:
            yield Point("hypervolume_confirmed", result.hypervolume, time_ms)
        shown = {"recommended": result.recommended.trial} if result.recommended else {}
        shown |= {"baseline": 0} if result.has_baseline else {}
        for word, number in shown.items():
            for objective in result.objectives:
                estimate = result.trial(number).estimates.get(objective.metric)
                if estimate is not None and math.isfinite(estimate.value):
                    yield Point(
                        self._metric_names.name(f"{word}.{objective.metric}"), estimate.value, time_ms
                    )


def _study_facts(study: StudyRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "space_file": Path(study.file_path).name,
        "objectives": ", ".join(f"{o.metric} ({o.direction})" for o in study.objectives),
    }
    if study.constraints:
        facts["limits"] = "; ".join(constraint.formula for constraint in study.constraints)
    if study.reference_point:
        facts["reference_point"] = dict(study.reference_point)
    if study.trials and study.trials[0].number == 0:
        facts["baseline"] = dict(study.trials[0].config)
    return facts


def _study_tags(study: StudyRecord) -> dict[str, str]:
    reference = (
        {"tuner.reference_point": json.dumps(dict(study.reference_point))} if study.reference_point else {}
    )
    return {
        "tuner.kind": "study",
        "mlflow.source.name": Path(study.file_path).name,
        "mlflow.source.type": "LOCAL",
        "mlflow.user": _user(),
        **reference,
    }


def _result_tags(result: StudyResult) -> dict[str, str]:
    study, found = result.record, result.recommended
    tags = {
        "tuner.front": ", ".join(map(str, result.front)) or "empty",
        "tuner.outcomes": ", ".join(f"{count} {outcome}" for outcome, count in result.counts.items()),
        "tuner.stopped_because": study.stopped_because or "still running",
        "tuner.recommended": f"trial {found.trial}: {found.reason}" if found else "none",
        NOTE: study_note(result),
    }
    return {name: _shortened(value, MAX_TAG_LENGTH) for name, value in tags.items()}


def _trial_tags(trial: TrialResult, is_recommended: bool) -> dict[str, str]:
    tags = {
        "tuner.kind": "trial",
        "tuner.outcome": str(trial.outcome or "running"),
        "tuner.failure_kind": str(trial.failure_kind or ""),
        "tuner.reason": trial.message,
        "tuner.feasible": {True: "yes", False: "no", None: "unknown"}[trial.is_feasible],
        "tuner.confirmed": "yes" if trial.is_confirmed else "no",
        "tuner.on_front": "yes" if trial.on_front else "no",
        "tuner.is_recommended": "yes" if is_recommended else "no",
        "tuner.proposed_by": trial.proposed_by,
        "tuner.measurements": str(len(trial.measurements)),
        "tuner.contaminated": _disturbance(trial),
        "tuner.log_dir": trial.log_dir,
        "mlflow.source.name": "tuner",
        "mlflow.source.type": "LOCAL",
        "mlflow.user": _user(),
    }
    return {name: value for name, value in tags.items() if value}


def _disturbance(trial: TrialResult) -> str:
    """What disturbed a measurement that counts; empty where nothing did."""
    kept = [run for run in trial.measurements if run.facts.get(CONTAMINATED) and not run.is_discarded]
    return str(kept[0].facts[CONTAMINATED]) if kept else ""


def _numbers(trial: TrialResult) -> Iterator[tuple[str, float]]:
    """Every number of a trial: judged values and gains over the baseline with their intervals, then what only
    the last run reported.
    """
    for key, estimate in trial.estimates.items():
        yield key, estimate.value
        for end, value in (("low", estimate.low), ("high", estimate.high)):
            if value is not None:
                yield f"{key}.{end}", value
    for key, gain in trial.gain.items():
        for end, value in (("", gain.value), (".low", gain.low), (".high", gain.high)):
            if value is not None:
                yield f"gain.{key}{end}", value
    last = trial.measurements[-1] if trial.measurements else None
    for key, metric in (last.metrics if last else {}).items():
        if key not in trial.estimates and PARTIAL not in metric.flags:  # it would be sorted among whole runs
            yield key, metric.value
    for phase, seconds in trial.phases.items():
        yield f"phase.{phase}", seconds


def _run_name(trial: TrialResult, *, is_recommended: bool) -> str:
    """``007 ★ bf16, compile``: what differs from the baseline; ★ recommended, ☆ another of the front.

    MLflow's table of runs shows the first 15 letters or so, hence values before names.
    """
    mark = " ★" if is_recommended else " ☆" if trial.on_front else ""
    return f"{trial.number:03d}{mark} {changes_text(trial, MAX_RUN_NAME_LENGTH)}"


def _study_status(study: StudyRecord) -> str:
    if study.stopped_because == "interrupted":
        return "KILLED"
    return "FINISHED" if study.bounds is not None else "FAILED"


def _last_ms(study: StudyRecord) -> int:
    """When the last measurement ended: starting a finished study again does not make it longer."""
    ends = [run.ended_at for trial in study.trials for run in trial.measurements if run.ended_at is not None]
    return _ms(max(ends, default=study.updated_at))


def _span_ms(trial: TrialResult) -> tuple[int, int]:
    runs: Sequence[Any] = trial.measurements
    if not runs:
        return 0, 0
    return _ms(runs[0].started_at), _ms(max(run.ended_at or run.started_at for run in runs))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry in the password file
        return "unknown"
