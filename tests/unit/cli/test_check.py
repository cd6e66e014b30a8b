"""``tuner check``: counts, types, formulas and the time that a run would take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import builders
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store
from tuner.cli.options import parse_settings
from tuner.cli.outline import describe
from tuner.cli.size import size_of
from tuner.space import load_study_file, study_definition
from tuner.space.model import StudyFile

KEYS = {
    "schema_version", "study", "file", "workload", "parameters", "rules", "size", "baseline", "try_first", "objectives",
    "limits", "budget", "runs", "confirm_at_most", "time", "records", "warnings",
}  # fmt: skip


def load(*settings: str) -> StudyFile:
    return load_study_file(Path("toy.yaml"), parse_settings(settings))


def test_the_page_shows_parameters_counts_rules_limits_and_runs(tuner: Tuner, space: Path) -> None:
    said = tuner("check", str(space))
    assert (said.code, said.err) == (0, "")
    for line in (
        "study       toy  (toy.yaml)",
        "  x      1 to 4  (4)",
        '  mode   fast, "1", 1, true  (4)',
        "  scale  0.1 to 10.0, log scale  (continuous)",
        "size        16 x any scale before rules, 14 x any scale after",
        "  2 rejected by: not (mode == 'fast' and x > 2)",
        "objectives  maximize speed",
        "limit       speed >= 0.5 x baseline",
        "baseline    x=1 mode=fast scale=0.1",
        "time        about 15 to 32 runs (4 of the baseline, 5 to search, 6 to 23 to confirm)",
    ):
        assert line in said.out, line


def test_the_json_has_frozen_keys_and_keeps_types(tuner: Tuner, space: Path) -> None:
    plain = json.loads(tuner("check", str(space), "--json").out)
    assert set(plain) == KEYS
    assert plain["schema_version"] == 1
    assert plain["parameters"]["mode"]["choices"] == ["fast", "1", 1, True]
    assert plain["size"] == {
        "before_rules": 16, "after_rules": 14, "valid_share": None, "continuous": ["scale"],
        "rejected": {"not (mode == 'fast' and x > 2)": 2}, "useless": {},
    }  # fmt: skip
    assert plain["runs"] == {"baseline": 4, "search": 5, "confirm": 6}
    assert plain["confirm_at_most"] == 23
    assert plain["time"] == {"mean_run_s": None, "expected_s": None}
    assert plain["records"] is None


def test_settings_and_warnings_are_part_of_what_is_checked(tuner: Tuner, space: Path) -> None:
    said = tuner(
        "check", str(space), "--set", "parameters.x={min: 1, max: 4, step: 2}", "--set", "budget.trials=9"
    )
    assert "1 to 4, step 2  (2)" in said.out
    assert "8 to search" in said.out
    assert "warning: " in said.err and "4 is never tried" in said.err


@pytest.mark.parametrize(
    ("domain", "text"),
    [
        ('{choices: {off: "", on: "--fast"}}', 'off = "", on = --fast  (2)'),
        ("{choices: [1, 2], when: 'x > 1'}", "1, 2  (2)  when x > 1"),
        ('{expr: "x * 2"}', "= x * 2"),
        ('"007"', '"007"  (fixed)'),
        ("7.0", "7.0  (fixed)"),
        ("{min: 1, max: 64, scale: log2}", "1 to 64, log2 scale  (7)"),
        ("{min: 0.0, max: 1.0, step: 0.5}", "0.0 to 1.0, step 0.5  (3)"),
    ],
)
def test_every_kind_of_parameter_is_readable(domain: str, text: str, tuner: Tuner, space: Path) -> None:
    said = tuner("check", str(space), "--set", f"parameters.extra={domain}")
    assert said.code == 0, said.err
    assert any(line.split(None, 1) == ["extra", text] for line in said.out.splitlines()), said.out


def test_a_space_that_no_rule_narrows_says_so(tuner: Tuner, space: Path) -> None:
    said = tuner("check", str(space), "--set", "rules=[]")
    assert "size        16 x any scale configurations, no rule rejects any" in said.out


def test_what_the_user_wants_tried_shows_its_changes(tuner: Tuner, space: Path) -> None:
    said = tuner("check", str(space), "--set", "try_first=[{x: 2}]")
    assert "try first   x=2\n" in said.out


def test_a_space_too_large_to_count_is_sampled(space: Path) -> None:
    file = load("parameters.scale={min: 1, max: 1000000000}", "rules=['x <= 1']")
    size = size_of(file.space)
    assert (size.before, size.after, size.rejected) == (16 * 10**9, None, {})
    assert size.share == pytest.approx(0.25, abs=0.05)


def test_a_small_space_bounds_the_runs(space: Path) -> None:
    file = load("parameters={x: [1, 2, 3]}", "rules=[]", "budget.trials=100")
    assert describe(file)["runs"] == {"baseline": 4, "search": 2, "confirm": 6}


def recorded(space: Path, **changed: Any) -> None:
    file = load()
    store(
        builders.study(
            builders.baseline({"speed": [1.0, 1.0, 1.0]}, config=file.baseline),
            builders.trial(1, builders.measurement({"speed": 2.0}), config={**file.baseline, "x": 2}),
            name="toy",
            objectives=file.objectives,
            constraints=file.constraints,
            definition=study_definition(file),
            **changed,
        )
    )


def test_recorded_runs_tell_how_long_the_rest_takes(tuner: Tuner, space: Path) -> None:
    recorded(space)
    plain = json.loads(tuner("check", str(space), "--json").out)
    assert plain["records"]["trials"] == 2
    assert plain["records"]["differences"] == []
    mean_s = plain["time"]["mean_run_s"]
    assert mean_s >= 0
    assert plain["time"]["expected_s"] == pytest.approx(mean_s * (0 + 4 + 6))
    text = tuner("check", str(space)).out
    assert "a run so far" in text
    assert f"records     2 trials of this study in {Path('tuner.db').resolve()}" in text


def test_a_changed_file_is_said_with_its_differences(tuner: Tuner, space: Path) -> None:
    recorded(space)
    said = tuner("check", str(space), "--set", "parameters.x={min: 1, max: 5}")
    assert said.code == 0
    assert "tuner run wants --new-space:" in said.out
    assert "parameters.x: was" in said.out


def test_records_that_cannot_be_read_are_a_warning(tuner: Tuner, space: Path) -> None:
    said = tuner("check", str(space), "--records", "toy.yaml")
    assert said.code == 0
    assert "warning: cannot use the records" in said.err


def test_a_dry_run_prints_what_would_run_and_runs_nothing(tuner: Tuner, space: Path, workplace: Path) -> None:
    said = tuner("run", str(space), "--dry-run", "--trials", "3")
    assert said.code == 0
    for words in ("2 to search", "sampler     auto, seed 0", "mlflow      off", "1 at once, each on"):
        assert words in said.out
    assert said.err == "dry run: nothing was run\n"
    assert list(workplace.iterdir()) == [workplace / "toy.yaml"]
    plain = json.loads(tuner("run", str(space), "--dry-run", "--json").out)
    assert set(plain) == KEYS


def test_a_dry_run_of_more_counts_what_is_recorded(tuner: Tuner, space: Path) -> None:
    recorded(space)
    said = tuner("run", str(space), "--dry-run", "--more", "5", "--json")
    assert json.loads(said.out)["budget"]["trials"] == 7
