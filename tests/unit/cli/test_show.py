"""``tuner show`` and ``tuner list``: what a person reads, and the frozen keys of what a program reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests import builders
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from tuner.cli.summary import summary_of
from tuner.records.owner import Owner
from tuner.records.repository import Records
from tuner.records.rows import StudyRecord
from tuner.results import judge

STUDY_KEYS = {
    "schema_version", "study", "generation", "created_at", "updated_at", "objectives", "limits", "baseline", "trials",
    "front", "copies", "recommended", "nearest_miss", "counts", "failures", "rejected", "noise_floor", "hypervolume",
    "hypervolume_history", "reference_point", "influences", "failure_patterns", "stopped_because",
}  # fmt: skip
TRIAL_KEYS = {
    "number", "outcome", "failure_kind", "message", "proposed_by", "is_feasible", "is_confirmed", "on_front",
    "is_tied_with", "config", "changes_from_baseline", "metrics", "limits", "gain", "measurements", "phases", "log_dir",
}  # fmt: skip
RUN_KEYS = {
    "measurement_id", "purpose", "outcome", "failure_kind", "message", "seed", "round", "is_discarded", "metrics",
    "phases", "warnings", "log_dir", "started_at", "ended_at",
}  # fmt: skip


def shown(study: StudyRecord) -> str:
    return summary_of(judge(study))


def one_sided(*trials: Any, **changed: Any) -> StudyRecord:
    return builders.study(
        builders.baseline({"speed": [10, 11, 12]}),
        *trials,
        objectives=(builders.objective("speed"),),
        **changed,
    )


def test_the_json_of_a_study_has_the_keys_that_programs_rely_on(tuner: Tuner) -> None:
    store(two_sided_study())
    said = tuner("show", "built", "--json")
    assert (said.code, said.err) == (0, "")
    plain = json.loads(said.out)
    assert plain["schema_version"] == 1
    assert set(plain) >= STUDY_KEYS
    assert all(set(trial) >= TRIAL_KEYS for trial in plain["trials"])
    assert all(set(run) >= RUN_KEYS for trial in plain["trials"] for run in trial["measurements"])
    assert set(plain["trials"][1]["metrics"]["tokens_per_s"]) >= {"value", "low", "high", "n", "unit"}
    assert plain["front"] == [0, 1, 2]
    assert plain["counts"] == {"complete": 4, "failed": 1}
    assert plain["rejected"] == {"x <= 9": 3}
    assert plain["stopped_because"] == "budget of 5 trials is spent"
    assert plain["trials"][0]["config"]["flag"] == "1"


def test_the_list_is_newest_first_and_has_frozen_keys(tuner: Tuner) -> None:
    store(two_sided_study(name="old"))
    store(two_sided_study(name="new", stopped_because=None))
    plain = json.loads(tuner("list", "--json").out)
    assert plain["schema_version"] == 1
    assert [study["name"] for study in plain["studies"]] == ["new", "old"]
    assert set(plain["studies"][0]) == {
        "name", "generation", "trials", "measurements", "counts", "created_at", "updated_at", "stopped_because",
        "folders_mib",
    }  # fmt: skip
    text = tuner("list").out
    assert text.splitlines()[1].startswith("new         5  4 complete, 1 failed  20")
    assert text.splitlines()[1].endswith("not finished, and no process runs it")


def test_the_records_are_found_by_option_and_by_environment(
    tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(two_sided_study(), "elsewhere.db")
    assert tuner("show", "built", "--records", "elsewhere.db").code == 0
    assert tuner("show", "built").code == 2
    monkeypatch.setenv("TUNER_RECORDS", "elsewhere.db")
    assert tuner("show", "built").code == 0


def test_a_person_reads_front_gain_recommendation_limits_failures_and_the_end(tuner: Tuner) -> None:
    store(two_sided_study())
    said = tuner("show", "built")
    assert (said.code, said.err) == (0, "")
    for words in (
        "built: Pareto front of 3 (2 confirmed) out of 5 trials (4 complete, 1 failed)",
        "max tokens_per_s",
        "min val_loss_nats",
        "tokens_per_s vs baseline",
        "x1.50",
        "1 unconfirmed",
        "0 baseline",
        "* recommended: trial ",
        "gives up: ",
        "limit val_loss_nats <= 2.5 (baseline + 0.5): 1 of 4 measured trials breaks it",
        "1 failed, out_of_memory: trial 3: [31mno memory",
        "log: /trials/m",
        "3 configurations rejected by the rule: x <= 9",
        "stopped: budget of 5 trials is spent",
    ):
        assert words in said.out, words


def test_all_trials_are_one_table_with_the_columns_of_the_front(tuner: Tuner) -> None:
    store(two_sided_study())
    said = tuner("show", "built", "--all")
    assert (said.code, said.err) == (0, "")
    header, *rows = said.out.splitlines()
    assert header.split("  ")[0].strip() == "trial" and "min val_loss_nats" in header
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert "front, confirmed" in rows[1] and "baseline + x=2" in rows[1]
    assert "failed (out_of_memory)" in rows[3]
    assert "breaks a limit" in rows[4] and "limit not met" in rows[4]
    assert "leave out OTHER" in tuner("show", "built", "--all", "--json").line


def test_a_study_is_not_compared_with_itself_however_it_is_written(tuner: Tuner) -> None:
    store(two_sided_study())
    for other in ("built", "built@1"):
        assert "are the same; name two studies" in tuner("show", "built", other).line


def test_an_unconfirmed_member_of_the_front_says_why_and_how_to_confirm_it() -> None:
    study = two_sided_study(notes={"finalists": 1})
    text = shown(study)
    assert (
        "not confirmed: trial 2 (not among the 1 finalist); confirm all of the front with: "
        "tuner run /spaces/space.yaml --set confirm.finalists=2"
    ) in text
    assert "confirm all" not in shown(two_sided_study(notes={"finalists": 1}, stopped_because=None))


def test_only_parameters_that_varied_are_shown() -> None:
    text = shown(two_sided_study())
    assert "x=3 width=64" in text
    assert "precision" not in text


@pytest.mark.parametrize("width", [50, 80, 100])
def test_the_front_stays_readable_on_a_narrow_terminal(
    width: int, tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(two_sided_study())
    monkeypatch.setenv("COLUMNS", str(width))
    lines = tuner("show", "built").out.splitlines()
    assert max(map(len, lines)) <= width
    assert any("x=3 width=64" in line for line in lines)
    assert any("x1.50" in line for line in lines)


def test_one_objective_has_a_best_and_the_next_best_instead_of_a_front() -> None:
    trials = [
        builders.trial(n, builders.measurement({"speed": float(speed)})) for n, speed in ((1, 20), (2, 15))
    ]
    text = shown(one_sided(*trials))
    assert text.startswith("built: the highest speed of 3 trials (3 complete)")
    order = [line.split()[0] for line in text.split("\n\n")[1].splitlines()[1:]]
    assert order == ["1", "2", "0"]
    assert "front" not in text.split("\n\n")[0]


def test_three_objectives_fit_in_one_table() -> None:
    values = {"speed": [10.0, 10, 10], "cost": [5.0, 5, 5], "loss": [1.0, 1, 1]}
    text = shown(
        builders.study(
            builders.baseline(values),
            builders.trial(1, builders.measurement({"speed": 12, "cost": 6, "loss": 0.9})),
            objectives=[
                builders.objective("speed"),
                *(builders.objective(m, "minimize") for m in ("cost", "loss")),
            ],
        )
    )
    assert "max speed" in text and "min cost" in text and "min loss" in text
    assert "Pareto front of 2" in text


def test_nothing_feasible_shows_the_nearest_miss_with_its_gap() -> None:
    text = shown(one_sided(constraints=(builders.limit("speed", "min", 22.0),)))
    assert text.startswith("built: none of 1 trial (1 complete) meets the limits")
    assert "nearest miss: trial 0, speed 11 < 22, by 11 (50.0% of the limit)" in text


def test_a_study_without_trials_or_with_a_running_baseline_is_no_error(tuner: Tuner) -> None:
    store(builders.study(name="empty", is_frozen=False))
    said = tuner("show", "empty")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "empty: nothing is measured yet", "",
        "not finished, and no process runs it; go on with: tuner run /spaces/space.yaml",
    ]  # fmt: skip
    assert tuner("show", "empty", "--json").code == 0
    store(
        builders.study(builders.trial(0, builders.measurement(outcome=None)), name="begun", is_frozen=False)
    )
    assert "nothing to recommend yet, 1 trial (1 unfinished)" in tuner("show", "begun").out


def test_an_interrupted_trial_is_not_called_a_failure() -> None:
    text = shown(one_sided(builders.trial(1, builders.failed("interrupted", "cut"))))
    assert "(1 complete, 1 interrupted)" in text
    assert "failed" not in text


def test_ties_are_marked() -> None:
    runs = builders.repeats({"speed": [10, 11, 12]})
    trials = [builders.trial(number, *builders.repeats({"speed": [20, 21, 22]})) for number in (1, 2)]
    text = shown(
        builders.study(
            builders.baseline({"speed": [10, 11, 12]}, *runs),
            *trials,
            objectives=(builders.objective("speed"),),
        )
    )
    assert "(tie with 2)" in text and "(tie with 1)" in text


def test_a_reader_who_leaves_early_is_no_error(tuner: Tuner) -> None:
    store(two_sided_study())
    program = [sys.executable, "-c", "from tuner.cli import main; main()", "show", "built", "--json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_output_onto_a_full_disk_is_said_in_a_line(tuner: Tuner) -> None:
    store(two_sided_study())
    program = [sys.executable, "-c", "from tuner.cli import main; main()", "show", "built"]
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "tuner: cannot write the output: No space left on device\n"


def test_a_terminal_that_knows_ascii_only_is_no_error() -> None:
    store(two_sided_study())
    program = [sys.executable, "-c", "from tuner.cli import main; main()", "show", "built"]
    done = subprocess.run(
        program, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True
    )
    assert b"1,500" in done.stdout and done.stderr == b""


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_study_under_way_says_who_runs_it_or_that_its_run_was_killed(tuner: Tuner, is_alive: bool) -> None:
    cut = builders.trial(9, builders.measurement(outcome=None), config={"x": 9})
    study = two_sided_study(stopped_because=None)
    store(replace(study, trials=(*study.trials, cut)))
    me = Owner.current()
    owner = me if is_alive else replace(me, started_ticks=me.started_ticks - 1)
    with Records.open("tuner.db", owner=owner) as records:
        records.claim("built")
    *_, last = tuner("show", "built").out.splitlines()
    listed = tuner("list").out.splitlines()[1]
    if is_alive:
        assert last == f"running now: {me}; under way: trial 5 (search)"
        assert listed.endswith(f"running now: {me}")
    else:
        assert last.startswith(
            "interrupted: trial 5 (search) under way when its run ended; go on with: tuner run /"
        )
        assert listed.endswith("not finished, and no process runs it")
    assert "1 unfinished" in tuner("show", "built").out.splitlines()[0]


def test_a_study_that_nobody_runs_and_nothing_cut_says_how_to_go_on(tuner: Tuner) -> None:
    store(two_sided_study(stopped_because=None))
    *_, last = tuner("show", "built").out.splitlines()
    assert last == "not finished, and no process runs it; go on with: tuner run /spaces/space.yaml"
