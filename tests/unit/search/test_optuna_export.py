"""A study in a real Optuna storage: what Optuna then finds in it."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from tests import builders
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord
from tuner.results import StudyResult, judge
from tuner.search.optuna_export import OptunaExportError, write_optuna_study

FAST, LOSS = builders.THROUGHPUT, builders.LOSS
SPACE = {
    "precision": {"choices": ["fp32", "bf16"]},
    "batch": {"min": 4, "max": 64, "scale": "log2"},
    "rate": {"min": 1e-4, "max": 1e-2, "scale": "log"},
    "workers": {"min": 0, "max": 5, "step": 2, "scale": "linear"},
    "mixed": {"choices": [1, 1.0, True, "1", None, [1, 2]]},
    "how": {"choices": [{"label": "off", "value": ""}, {"label": "on", "value": "--compile"}]},
    "fixed": {"value": 7},
    "derived": {"expr": "batch // 2"},
}  # fmt: skip


def config(**changed: Any) -> dict[str, Any]:
    return {
        "precision": "fp32", "batch": 8, "rate": 0.001, "workers": 2, "mixed": 1, "how": "off", "fixed": 7,
        "derived": 4, **changed,
    }  # fmt: skip


def row(speed: float, loss: float) -> dict[str, float]:
    return {FAST: speed, LOSS: loss}


def study(**changed: Any) -> StudyRecord:
    """A baseline, two on the front, one beaten, one over the limit, one failed, one cut short, one that runs."""
    trials = (
        builders.baseline({FAST: [1000.0, 1010.0], LOSS: [2.0, 2.0]}, config=config()),
        builders.trial(1, builders.measurement(row(1500, 2.1)), config=config(batch=16, mixed=1.0)),
        builders.trial(2, builders.measurement(row(2000, 2.4)), config=config(batch=32, mixed=True)),
        builders.trial(3, builders.measurement(row(1400, 2.3)), config=config(mixed="1", how="on")),
        builders.trial(4, builders.measurement(row(3000, 9.0)), config=config(batch=64, mixed=[1, 2])),
        builders.trial(5, builders.failed("out_of_memory", "no room"), config=config(mixed=None)),
        builders.trial(6, builders.measurement(outcome="pruned", message="slow"), config=config(rate=0.01)),
        builders.trial(7, builders.measurement(outcome=None), config=config(rate=0.002)),
    )
    limits = (builders.limit(LOSS, "max_increase", 0.5),)
    return builders.study(*trials, constraints=limits, definition={"parameters": SPACE}, **changed)


def written(result: StudyResult, folder: Path, name: str = "built") -> optuna.Study:
    url = f"sqlite:///{folder / 'optuna.db'}"
    write_optuna_study(result, url, name)
    return optuna.load_study(study_name=name, storage=url)


def test_optuna_finds_the_same_front_and_every_trial_in_its_state(tmp_path: Path) -> None:
    result = judge(study())
    found = written(result, tmp_path)
    assert [str(d.name).lower() for d in found.directions] == ["maximize", "minimize"]
    assert found.metric_names == [FAST, LOSS]
    assert [trial.number for trial in found.best_trials] == list(result.front) == [0, 1, 2]
    assert [trial.state for trial in found.trials] == [
        *[TrialState.COMPLETE] * 5, TrialState.FAIL, TrialState.PRUNED, TrialState.RUNNING,
    ]  # fmt: skip
    assert found.trials[1].values == [1500.0, 2.1]
    assert found.trials[5].user_attrs["failure_kind"] == "out_of_memory"
    assert found.trials[5].user_attrs["message"] == "no room"
    assert [trial.user_attrs["on_front"] for trial in found.trials] == [
        trial.on_front for trial in result.trials
    ]


def test_a_limit_is_a_constraint_that_is_positive_exactly_where_it_is_not_met(tmp_path: Path) -> None:
    found = written(judge(study()), tmp_path)
    values = [trial.constraints.get(f"{LOSS} <= 2.5") for trial in found.trials]
    assert values[4] == pytest.approx(6.5)
    assert all(value is not None and value <= 0 for value in values[:4])
    assert values[5:] == [None, None, None]


def test_a_limit_that_is_undecided_does_not_push_a_trial_off_the_front(tmp_path: Path) -> None:
    confirmed = builders.repeats({FAST: [1500, 1510, 1490], LOSS: [2.40, 2.56, 2.56]})
    over = builders.trial(1, builders.measurement(row(1500, 2.4)), *confirmed, config=config(batch=16))
    record = study()
    result = judge(replace(record, trials=(record.trials[0], over)))
    assert result.trial(1).has_undecided_limit and result.trial(1).limits[0].gap > 0
    assert [trial.number for trial in written(result, tmp_path).best_trials] == [0, 1]


def test_a_trial_whose_confirmation_failed_is_not_among_the_best(tmp_path: Path) -> None:
    lucky = builders.trial(
        1, builders.measurement(row(9000, 1.0)), builders.failed(purpose="confirm"), config=config(batch=16)
    )
    record = study()
    result = judge(replace(record, trials=(record.trials[0], lucky)))
    assert [trial.number for trial in written(result, tmp_path).best_trials] == list(result.front) == [0]


def test_choices_that_optuna_cannot_hold_are_text_and_the_exact_values_are_kept(tmp_path: Path) -> None:
    found = written(judge(study()), tmp_path)
    texts = [trial.params["mixed"] for trial in found.trials[:6]]
    assert texts == ["1", "1.0", "true", '"1"', "[1, 2]", "null"]
    assert found.user_attrs["choices_as_text"] == ["mixed"]
    kept = [trial.user_attrs["config"]["mixed"] for trial in found.trials[:6]]
    assert [type(value) for value in kept] == [int, float, bool, str, list, type(None)]
    assert found.trials[0].user_attrs["config"]["fixed"] == 7
    assert "fixed" not in found.trials[0].params and "derived" not in found.trials[0].params


def test_ranges_keep_their_scale_and_labels_their_names(tmp_path: Path) -> None:
    distributions = written(judge(study()), tmp_path).trials[0].distributions
    assert distributions["batch"] == optuna.distributions.IntDistribution(4, 64, log=True)
    assert distributions["rate"] == optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True)
    assert distributions["workers"] == optuna.distributions.IntDistribution(0, 4, step=2)
    assert distributions["how"] == optuna.distributions.CategoricalDistribution(("off", "on"))


def test_a_baseline_off_the_grid_is_shown_too(tmp_path: Path) -> None:
    record = study()
    odd = replace(record.trials[0], config=config(batch=100, precision="tf32", workers=3, rate=0.5))
    found = written(judge(replace(record, trials=(odd, *record.trials[1:]))), tmp_path)
    assert found.trials[0].params["batch"] == 100
    assert found.trials[0].params["precision"] == "tf32"
    assert (found.trials[0].params["workers"], found.trials[0].params["rate"]) == (3, 0.5)


def test_a_baseline_that_leaves_a_range_to_the_default_lacks_that_parameter(tmp_path: Path) -> None:
    record = study()
    unset = replace(record.trials[0], config=config(batch=None))
    found = written(judge(replace(record, trials=(unset, *record.trials[1:]))), tmp_path)
    assert "batch" not in found.trials[0].params


def test_times_are_those_of_the_measurements(tmp_path: Path) -> None:
    trial = written(judge(study()), tmp_path).trials[1]
    assert trial.datetime_start is not None
    assert trial.datetime_start.astimezone(builders.NOON.tzinfo) == builders.NOON


def test_exporting_again_replaces_what_an_export_wrote(tmp_path: Path) -> None:
    record = study()
    written(judge(replace(record, trials=record.trials[:3])), tmp_path)
    found = written(judge(record), tmp_path)
    assert len(found.trials) == 8
    assert len(written(judge(record), tmp_path, "built@1").trials) == 8


def test_a_study_with_trials_of_others_is_left_alone(tmp_path: Path) -> None:
    found = written(judge(study()), tmp_path)
    found.tell(found.ask(), state=TrialState.FAIL)
    with pytest.raises(OptunaExportError, match="'built' is there with trials that are not ours"):
        written(judge(study()), tmp_path)
    assert len(found.get_trials()) == 9


def test_the_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "optuna.db"
    with Records.open(path):
        pass
    with pytest.raises(OptunaExportError, match="holds something else"):
        written(judge(study()), tmp_path)
    with sqlite3.connect(path) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert not any("alembic" in name for name in names)


def test_what_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "optuna.db").write_text("not a database, but long enough to be looked at as one " * 20)
    with pytest.raises(OptunaExportError, match="cannot be opened: file is not a database"):
        written(judge(study()), tmp_path)


def test_an_unfinished_study_without_a_space_is_written(tmp_path: Path) -> None:
    begun = builders.study(builders.trial(0, config={"x": math.pi}, by="baseline"), is_frozen=False)
    assert begun.trials[0].measurements == ()
    found = written(judge(begun), tmp_path)
    assert [trial.state for trial in found.trials] == [TrialState.WAITING]
