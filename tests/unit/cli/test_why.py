"""``tuner show STUDY --why N``."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from tuner.records.rows import Forecast, StudyRecord

KEYS = {
    "schema_version", "study", "trial", "proposed_by", "why", "outcome", "message", "is_feasible", "probability_ok",
    "objectives",
}  # fmt: skip


def explained() -> StudyRecord:
    """Trial 1 came as expected in loss and faster than expected, trial 3 failed though it was thought to run."""
    study = two_sided_study()
    trials = list(study.trials)
    forecast = Forecast({"tokens_per_s": (1200.0, 1100.0, 1300.0), "val_loss_nats": (2.0, 1.8, 2.3)}, 0.9)
    trials[1] = replace(trials[1], proposed_by="exploit", forecast=forecast)
    trials[3] = replace(trials[3], proposed_by="explore", forecast=Forecast(forecast.expected, 0.25))
    return replace(study, trials=tuple(trials))


def test_it_says_why_what_was_expected_and_what_came(tuner: Tuner) -> None:
    store(explained())
    said = tuner("show", "built", "--why", "1")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[1] == (
        "proposed: exploit: the model expects it to be better than the front; "
        "confirm: measured 3 times more, as a finalist or beside them"
    )
    speed, loss = (line.split() for line in lines if line.startswith(("tokens_per_s", "val_loss_nats")))
    assert speed[1:4] == ["1,200", "±", "100"] and speed[-3:] == ["higher", "than", "expected"]
    assert loss[1] == "2.00" and loss[-2:] == ["as", "expected"]
    assert "expected to run and to meet the limits: 90%" in lines
    assert lines[-1] == "what came: complete, meets the limits, on the front"


def test_of_a_failed_trial_only_the_expectation_has_numbers(tuner: Tuner) -> None:
    store(explained())
    said = tuner("show", "built", "--why", "3").out
    assert "expected to run and to meet the limits: 25%" in said
    assert said.splitlines()[-1] == "what came: failed (out_of_memory): [31mno memory"
    plain = json.loads(tuner("show", "built", "--why", "3", "--json").out)
    assert [row["came"] for row in plain["objectives"]] == [None, None]
    assert plain["objectives"][0]["expected"] == {"value": 1200.0, "low": 1100.0, "high": 1300.0}


def test_without_a_model_the_reason_stands_alone(tuner: Tuner) -> None:
    store(explained())
    said = tuner("show", "built", "--why", "0").out
    assert "proposed: your own configuration, to compare everything with" in said
    assert "no model expected anything of it" in said
    plain = json.loads(tuner("show", "built", "--why", "2", "--json").out)
    assert set(plain) == KEYS
    assert (plain["proposed_by"], plain["why"], plain["probability_ok"]) == ("tpe", "tpe", None)


def test_a_trial_that_is_not_there_and_options_that_do_not_fit_are_one_line(tuner: Tuner) -> None:
    store(explained())
    assert "has no trial 9; it has trials 0 to 4" in tuner("show", "built", "--why", "9").line
    assert "--why asks about one trial" in tuner("show", "built", "--why", "1", "--watch").line
