"""Puts a built study into real records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import builders
from trials.contract import Measurement
from tuner.records.repository import Records
from tuner.records.rows import GIVEN, MeasurementRecord, StudyRecord

WORKLOAD = {"kind": "command", "run": ["true"]}


def store(study: StudyRecord, location: Path | str = "tuner.db") -> None:
    """Write the study as a run would have."""
    with Records.open(location) as records:
        records.create_study(
            study.name,
            study.file_text,
            study.file_path,
            study.definition,
            study.objectives,
            study.constraints,
        )
        for trial in study.trials:
            number = records.add_trial(study.name, trial.config, trial.proposed_by, trial.forecast)
            for run in trial.measurements:
                _store_run(records, study.name, number, run, trial.config)
        if study.bounds is not None:
            records.freeze(study.name, study.bounds, study.reference_point)
        for key, value in {"workload": WORKLOAD, **study.notes}.items():
            records.note(study.name, key, value)
        records.count_rejected(study.name, study.rejected)
        records.set_stopped(study.name, study.stopped_because)


def _store_run(records: Records, study: str, number: int, run: MeasurementRecord, config: Any) -> None:
    started = records.start_measurement(study, number, run.purpose, run.seed, run.log_dir, run.round_number)
    if run.outcome is None:
        return
    measurement = Measurement(
        outcome=run.outcome,
        failure_kind=run.failure_kind,
        message=run.message,
        metrics=run.metrics,
        phases=run.phases,
        facts={**run.facts, GIVEN: {key: value for key, value in config.items() if value is not None}},
        environment=run.environment,
    )
    records.finish_measurement(started, measurement, run.is_discarded)


def two_sided_study(**changed: Any) -> StudyRecord:
    """Throughput against loss: a baseline, a confirmed trade-off (1), an unconfirmed one (2), a failure (3), one that
    breaks the limit (4).
    """
    given: dict[str, Any] = {
        "constraints": (builders.limit(builders.LOSS, "max_increase", 0.5),),
        "stopped_because": "budget of 5 trials is spent",
        "rejected": {"x <= 9": 3},
    }
    both = (builders.THROUGHPUT, builders.LOSS)

    def row(speed: float, loss: float) -> dict[str, float]:
        return dict(zip(both, (speed, loss), strict=True))

    baseline = builders.repeats({both[0]: [1010, 990, 1000], both[1]: [2.01, 2.0, 1.99]})
    confirmed = builders.repeats({both[0]: [1510, 1490, 1500], both[1]: [2.11, 2.1, 2.09]})
    return builders.study(
        builders.baseline(
            {both[0]: [1000, 1010, 990], both[1]: [2.0, 2.01, 1.99]}, *baseline, config=_config(1)
        ),
        builders.trial(1, builders.measurement(row(1505, 2.1)), *confirmed, config=_config(2)),
        builders.trial(2, builders.measurement(row(2000, 2.4)), config=_config(3, width=64)),
        builders.trial(
            3, builders.failed("out_of_memory", "\x1b[31mno memory\x07\nsecond line"), config=_config(4)
        ),
        builders.trial(4, builders.measurement(row(3000, 3.0)), config=_config(5)),
        **{**given, **changed},
    )


def _config(x: int, **more: Any) -> dict[str, Any]:
    return {"x": x, "precision": "bf16", "flag": "1", **more}
