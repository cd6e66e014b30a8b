"""``tuner show A B``: two studies, or two generations, side by side."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests import builders
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from tuner.cli.compare import compared, comparison_text
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord
from tuner.results import judge

FAST, LOSS = builders.THROUGHPUT, builders.LOSS
KEYS = {"schema_version", "studies", "settings", "environment", "front", "shared"}


def study(*points: tuple[int, float, float], torch: str = "2.13.0", **changed: Any) -> StudyRecord:
    """A baseline x = 0 and, per point, a trial x with its speed and loss."""
    made = [
        builders.trial(n, builders.measurement({FAST: speed, LOSS: loss}), config={"x": x})
        for n, (x, speed, loss) in enumerate(points, start=1)
    ]
    base = builders.baseline({FAST: [1000.0, 1020.0, 980.0], LOSS: [2.0, 2.01, 1.99]})
    record = builders.study(base, *made, **changed)
    trials = [
        replace(t, measurements=tuple(replace(m, environment={"torch": torch}) for m in t.measurements))
        for t in record.trials
    ]
    return replace(record, trials=tuple(trials))


def comparison(one: StudyRecord, other: StudyRecord) -> dict[str, Any]:
    return compared((judge(one), judge(other)), ("old", "new"))


def test_shared_configurations_stand_with_both_numbers_and_the_change() -> None:
    plain = comparison(
        study((1, 1500, 2.1), (2, 1800, 2.2)), study((2, 3600, 2.2), (3, 4000, 2.5), (1, 1510, 2.1))
    )
    pairs = {tuple(row["trials"]): row["metrics"] for row in plain["shared"]}
    assert set(pairs) == {(0, 0), (1, 3), (2, 1)}
    doubled, same = pairs[2, 1][FAST], pairs[1, 3][FAST]
    assert [numbers["value"] for numbers in doubled["values"]] == [1800, 3600]
    assert doubled["change"]["value"] == 2.0 and doubled["change"]["is_beyond_noise"]
    assert not same["change"]["is_beyond_noise"]


def test_a_member_of_a_front_is_held_against_the_other_front() -> None:
    plain = comparison(study((1, 1500, 2.1)), study((2, 1600, 2.05)))
    beaten = {(row["study"], row["trial"]): row["beaten_by"] for row in plain["front"]}
    assert beaten == {("old", 1): [1], ("old", 0): [], ("new", 1): [], ("new", 0): []}


def test_studies_with_other_objectives_are_not_held_against_one_another() -> None:
    other = replace(study((1, 1, 1)), objectives=(builders.objective(LOSS, "minimize"),))
    plain = comparison(study((1, 1500, 2.1)), other)
    assert {json.dumps(row["beaten_by"]) for row in plain["front"]} == {"null"}
    assert "beaten" in comparison_text(plain, (judge(study((1, 1500, 2.1))), judge(other)))


def test_what_differs_in_settings_and_machine_is_said() -> None:
    one = study(definition={"parameters": {"x": {"choices": [1, 2]}}})
    other = study(torch="2.14.0", definition={"parameters": {"x": {"choices": [1, 2, 3]}}})
    plain = comparison(one, other)
    assert plain["environment"] == ["torch: was 2.13.0, now 2.14.0"]
    assert plain["settings"] == ['parameters.x: was "choices": [1, 2], now "choices": [1, 2, 3]']
    text = comparison_text(plain, (judge(one), judge(other)))
    assert "settings that differ (was: old, now: new)" in text
    assert "  torch: was 2.13.0, now 2.14.0" in text


def test_the_program_compares_studies_as_a_table_and_as_json(tuner: Tuner) -> None:
    store(two_sided_study(name="old"))
    store(two_sided_study(name="new"))
    plain = json.loads(tuner("show", "old", "new", "--json").out)
    assert set(plain) == KEYS
    assert [row["trials"] for row in plain["shared"]] == [[0, 0], [1, 1], [2, 2], [4, 4]]
    assert (plain["settings"], plain["environment"]) == ([], [])
    said = tuner("show", "old", "new")
    assert (said.code, said.err) == (0, "")
    assert "old: 5 trials (4 complete, 1 failed), front of 3" in said.out
    assert "measured in both: 4 configurations" in said.out
    assert "settings that differ" not in said.out


def test_two_generations_of_a_study_are_compared(tuner: Tuner, workplace: Path) -> None:
    record = two_sided_study()
    store(record)
    with Records.open(workplace / "tuner.db") as records:
        records.new_generation("built", "", "", {"baseline": {"x": 9}}, record.objectives, ())
        records.reuse("built", [0, 1])
    plain = json.loads(tuner("show", "built@1", "built@2", "--json").out)
    assert [(s["generation"], s["trials"]) for s in plain["studies"]] == [(1, 5), (2, 2)]
    assert [row["trials"] for row in plain["shared"]] == [[0, 0], [1, 1]]
    assert plain["settings"]
