from __future__ import annotations

import pytest

from tests.unit.space.conftest import Load, Refuse
from trials.metrics import Direction
from tuner.objectives import Constraint, LimitKind, Objective
from tuner.space.model import Selection
from tuner.space.parse_goals import example_objectives
from tuner.space.vocabulary import Vocabulary


def test_directions_come_from_the_catalogue_or_from_the_file(load: Load) -> None:
    study = load(
        "workload: {kind: open}\nparameters: {x: [1, 2]}\n"
        "objectives: [tokens_per_s, {metric: f1, direction: maximize}]\n"
    )
    assert study.objectives == (
        Objective("tokens_per_s", Direction.MAXIMIZE),
        Objective("f1", Direction.MAXIMIZE),
    )
    assert study.wanted == ("tokens_per_s", "f1")


def test_an_unusual_direction_is_reported(load: Load) -> None:
    study = load("objectives: [{metric: accuracy, direction: minimize}]\n")
    assert "accuracy: minimize, where maximize is usual" in study.warnings[0]


@pytest.mark.parametrize(
    ("objectives", "said"),
    [
        ("[]", "is not a list with at least one metric; write objectives: [tokens_per_s"),
        ("null", "is not a list with at least one metric"),
        ("tokens_per_s", "is not a list"),
        ("[tokens]", "tokens is not reported by this toy workload; did you mean tokens_per_s?"),
        ("[tokens_per_s, tokens_per_s]", "objective tokens_per_s is given twice"),
        (
            "[{metric: accuracy}]",
            "objective accuracy has no direction; write direction: maximize or minimize",
        ),
        ("[{metric: accuracy, direction: up}]", "objective accuracy has direction=up"),
        ("[{direction: maximize}]", "an objective has no metric"),
        ("[{metric: accuracy, direction: maximize, weight: 2}]", "objective: weight is not known"),
        ("[3]", "objective 3 is not a metric"),
    ],
)
def test_objectives_that_cannot_be_are_refused(refuse: Refuse, objectives: str, said: str) -> None:
    assert said in refuse(f"objectives: {objectives}\n")


@pytest.mark.parametrize("name", ["", " ", "a ", r"a\nb", r"\e[31mred", r"a\u200b"])
def test_a_name_that_no_trial_can_print_is_no_metric(refuse: Refuse, name: str) -> None:
    begun = "workload: {kind: open}\nparameters: {x: [1, 2]}\n"
    said = refuse(f'{begun}objectives: [{{metric: "{name}", direction: maximize}}]\n')
    assert "space.yaml:3: " in said and "is no name for a metric; write letters, digits and _" in said
    if name.strip() == name != "":
        limited = refuse(f'{begun}constraints: {{"{name}": {{max: 3}}}}\n')
        assert "is no name for a metric" in limited


def test_a_metric_without_a_known_direction_asks_for_one(refuse: Refuse) -> None:
    said = refuse("workload: {kind: open}\nparameters: {x: 1}\nobjectives: [f1, tokens_per_second]\n")
    assert "objective f1 has no known direction; write {metric: f1, direction: maximize} or minimize" in said
    assert "or did you mean tokens_per_s?" in said


def test_missing_sections_are_named_with_an_example(refuse: Refuse) -> None:
    said = refuse(
        "workload: {kind: toy}\nparameters: {precision: fp32}\nobjectives: {}\n".replace(
            "objectives: {}\n", "objective: 1\n"
        )
    )
    assert "objective is not known; did you mean objectives?" in said


@pytest.mark.parametrize(
    ("limit", "kind", "amount"),
    [
        ("peak_memory_gib: {max: 6}", LimitKind.MAX, 6.0),
        ("peak_memory_gib: {max: 6 GiB}", LimitKind.MAX, 6.0),
        ("peak_memory_gib: {max: 512MiB}", LimitKind.MAX, 0.5),
        ("step_time_p50_ms: {max: 900 ms}", LimitKind.MAX, 900.0),
        ("step_time_p50_ms: {max: 0.9 s}", LimitKind.MAX, 900.0),
        ("val_loss_nats: {max_increase: 0.02}", LimitKind.MAX_INCREASE, 0.02),
        ("val_loss_nats: {max_increase: 0.02 nats}", LimitKind.MAX_INCREASE, 0.02),
        ("accuracy: {max_decrease: 1%}", LimitKind.MAX_DECREASE, 0.01),
        ("accuracy: {min: 29 %}", LimitKind.MIN, 0.29),
        ("tokens_per_s: {min_relative: 95%}", LimitKind.MIN_RELATIVE, 0.95),
        ("tokens_per_s: {min_relative: 1.0}", LimitKind.MIN_RELATIVE, 1.0),
        ("peak_memory_gib: {max_relative: 110%}", LimitKind.MAX_RELATIVE, 1.1),
    ],
)
def test_limits_come_in_the_unit_of_their_metric(
    load: Load, limit: str, kind: LimitKind, amount: float
) -> None:
    study = load(f"constraints:\n  {limit}\n")
    assert study.constraints == (Constraint(limit.split(":")[0], kind, amount, 2),)


def test_a_metric_may_have_two_limits(load: Load) -> None:
    study = load("constraints: {accuracy: {min: 0.9, max_decrease: 0.01}}\n")
    assert [limit.kind for limit in study.constraints] == [LimitKind.MIN, LimitKind.MAX_DECREASE]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (
            "peak_memory: {max: 6}",
            "peak_memory is not reported by this toy workload; did you mean peak_memory_gib?",
        ),
        ("peak_memory_gib: 6", "does not say which kind of limit it is; write peak_memory_gib: {max: ...}"),
        ("peak_memory_gib: {}", "does not say which kind of limit it is"),
        (
            "peak_memory_gib: {maximum: 6}",
            "constraints.peak_memory_gib.maximum is not known; did you mean max?",
        ),
        (
            "peak_memory_gib: {max: 6 s}",
            "max=6 s is a time, and peak_memory_gib is in GiB; write a number in GiB",
        ),
        ("step_time_p50_ms: {max: 3 GiB}", "is a memory size, and step_time_p50_ms is in ms"),
        (
            "val_loss_nats: {max_increase: 1%}",
            "for a share of the baseline write min_relative or max_relative",
        ),
        ("step_time_p50_ms: {max: 3 parsecs}", "has an unknown unit; write a number in ms"),
        ("tokens_per_s: {min_relative: 3 ms}", "is not a ratio to the baseline"),
        ("tokens_per_s: {min_relative: 0}", "must be above 0"),
        (
            "val_loss_nats: {max_increase: -1}",
            "must not be negative; write a number from 0 up, or max_decrease",
        ),
        ("peak_memory_gib: {max: lots}", "is not a number; write a number, with a unit"),
        ("peak_memory_gib: {max: .nan}", "is not finite"),
        ("peak_memory_gib: {max: true}", "is not a number"),
        ("peak_memory_gib: {max: [1]}", "is not a number"),
        ("step_time_p90_ms: {max_p: 3}", "did you mean max?"),
        ("peak_memory_gib: {max: 6, min: 7}", "min=7 lies above max=6, so no trial can meet both; swap them"),
        ("accuracy: {min: 99}", "is above 1, and accuracy is a fraction; write 0.99 or 99%"),
    ],
)
def test_limits_that_cannot_be_are_refused(refuse: Refuse, limit: str, said: str) -> None:
    assert said in refuse(f"constraints:\n  {limit}\n")


def test_a_percentile_that_a_trial_cannot_fill_is_refused(load: Load, refuse: Refuse) -> None:
    assert load("constraints:\n  step_time_p90_ms: {max: 1}\n").constraints  # 300 samples, 200 needed
    short = "workload: {kind: toy, train_for: {tokens: 100000}}\n"
    said = refuse(f"{short}constraints:\n  step_time_p90_ms: {{max: 1}}\n")
    assert (
        said == "space.yaml:3: step_time_p90_ms needs 200 samples, a trial of the baseline takes 100; "
        "use p50, or make a trial longer"
    )
    assert "make a trial longer" in refuse(
        "workload: {kind: toy, train_for: {tokens: 9000}}\nobjectives: [step_time_p50_ms]\n"
    )


def test_selection_by_rule_or_by_metric_within_others(load: Load) -> None:
    assert load("study: x\n").selection == Selection()
    assert load("selection: {rule: first_objective}\n").selection == Selection("first_objective")
    chosen = load("selection: {maximize: tokens_per_s, within: {val_loss_nats: 0.01}}\n").selection
    assert chosen == Selection("maximize", "tokens_per_s", {"val_loss_nats": 0.01})


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ("{rule: kneee}", "did you mean knee?"),
        ("knee", "is not a map"),
        ("{}", "selection needs one of rule, maximize, minimize"),
        ("{rule: knee, maximize: accuracy}", "needs one of"),
        ("{rule: knee, within: {accuracy: 1}}", "does not go with rule"),
        ("{maximize: acuracy}", "did you mean accuracy?"),
        ("{maximize: [accuracy]}", "is not a metric"),
        ("{maximize: accuracy, within: {val_loss_nats: 1 s}}", "is a time"),
        ("{maximize: accuracy, within: 3}", "is not a map"),
        ("{best: accuracy}", "selection.best is not known"),
    ],
)
def test_a_selection_that_cannot_be_is_refused(refuse: Refuse, selection: str, said: str) -> None:
    assert said in refuse(f"selection: {selection}\n")


def test_missing_objectives_are_proposed_from_what_the_workload_reports() -> None:
    def example(*metrics: str) -> str:
        return example_objectives(Vocabulary(metrics=metrics))

    assert example("samples_per_s", "accuracy") == "write objectives: [samples_per_s, accuracy]"
    assert example("wall_time_s", "f1") == (
        "write objectives: [wall_time_s, {metric: f1, direction: maximize}]"
    )
    assert example_objectives(Vocabulary()) == "write objectives: [tokens_per_s, val_loss_nats]"
