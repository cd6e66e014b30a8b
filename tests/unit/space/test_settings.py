from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.space.conftest import Load, Refuse
from tuner.space.fields import COUNT_OR_ALL, DURATION, INTEGER, MEMORY, SECTIONS
from tuner.space.model import (
    Budget,
    ConfirmSettings,
    KeepSettings,
    Resources,
    SearchSettings,
    TrackingSettings,
)
from tuner.space.units import UnitError, gibibytes, in_unit_of, ratio, seconds


def test_settings_are_read_and_the_rest_has_defaults(load: Load) -> None:
    study = load(
        "study: lm-training\n"
        "budget: {trials: 40, wall_time: 30 min, no_gain: 12, trial_timeout: 3 min, failures_in_a_row: 5}\n"
        "search: {sampler: auto, seed: 7, concurrent_trials: 1}\n"
        "resources: {cpus: 2, gpus: 0, memory: 512 MiB, accelerator: H100}\n"
        "confirm: {finalists: 0, repeats: 2, baseline_repeats: 5}\n"
        "tracking: {mlflow: 'sqlite:///other.db', experiment: mine}\n"
    )
    assert study.name == "lm-training"
    assert study.budget == Budget(40, 1800.0, 12, 180.0, 5)
    assert study.search == SearchSettings("auto", 7, 1)
    assert study.resources == Resources(2, 0, 0.5, "H100")
    assert study.confirm == ConfirmSettings(0, 2, 5)
    assert study.tracking == TrackingSettings("sqlite:///other.db", "mine")
    assert load("budget: {trials: 3}\n").budget == Budget(trials=3)
    assert load("search: {cut_short: false}\n").search == SearchSettings(cut_short=False)
    assert load("search: {seed: 1}\n").search.cut_short
    assert load("tracking: {mlflow: null}\n").tracking.mlflow is None
    assert load("keep: {trial_folders: 20}\n").keep == KeepSettings(20)
    assert load("keep: {trial_folders: all}\n").keep == KeepSettings() == load("budget: {trials: 3}\n").keep


def test_a_study_without_a_name_is_called_like_its_file(load: Load) -> None:
    assert load("budget: {trials: 3}\n").name == "space"


def test_a_slot_is_the_machine_shared_out_where_the_file_does_not_say(load: Load) -> None:
    assert load("study: x\n", cpus=8, gpus=2).resources == Resources(cpus=8, gpus=2)
    assert load("search: {concurrent_trials: 2}\n", cpus=8, gpus=2).resources == Resources(cpus=4, gpus=1)
    assert load("resources: {gpus: 0}\n", gpus=2).resources.gpus == 0
    assert load("study: x\n", cpus=8, gpus=2).space.world == {"cpus": 8, "gpus": 2}


def test_more_than_the_machine_has_is_reported(load: Load) -> None:
    warnings = load("resources: {cpus: 3}\nsearch: {concurrent_trials: 2}\n", cpus=4).warnings
    assert (
        "resources.cpus=3 for each of 2 trials at once, and this machine has 4: fewer run at once"
        in warnings[0]
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budgets: {trials: 3}", "budgets is not known; did you mean budget?"),
        ("budget: {trails: 3}", "budget.trails is not known; did you mean trials?"),
        ("budget: {trials: 0}", "budget.trials=0 must be at least 1"),
        (
            "budget: {trials: 1000001}",
            "budget.trials=1000001 must be at most 1,000,000; write 1000000 or less",
        ),
        (
            "budget: {trial_timeout: 999999999999 h}",
            "999999999999 h is longer than a year; write 365 d or less",
        ),
        (f"budget: {{wall_time: {'9' * 400} d}}", "is longer than a year; write 365 d or less"),
        ("search: {seed: 4000000001}", "search.seed=4000000001 must be at most 4,000,000,000"),
        ("resources: {memory: 1025 TiB}", "is more than any machine has; write 1024 TiB or less"),
        ("keep: {trial_folders: 1000001}", "keep.trial_folders=1000001 must be at most 1,000,000; write all"),
        ("budget: {trials: 2.5}", "budget.trials=2.5 is not a whole number"),
        ("budget: {trials: true}", "budget.trials=true is not a whole number"),
        ("budget: {wall_time: 30}", "budget.wall_time=30 has no unit; write 30 s or 30 min"),
        (
            "budget: {wall_time: 30 minutes}",
            "budget.wall_time=30 minutes is not a duration; write 20 s, 30 min",
        ),
        ("budget: {wall_time: 0 min}", "must be longer than 0"),
        ("budget: 40", "budget=40 is not a map; write budget: {trials: ...}"),
        ("search: {seed: -1}", "search.seed=-1 must be at least 0"),
        ("search: {concurrent_trials: 0}", "search.concurrent_trials=0 must be at least 1"),
        ("search: {sampler: 3}", "search.sampler=3 is not a text"),
        ("resources: {memory: 6}", "resources.memory=6 has no unit; write 6 GiB"),
        ("resources: {memory: 6 min}", "is not a memory size"),
        (
            "resources: {memory: 1 B}",
            "resources.memory=1 B is less than a trial's bare interpreter takes; write 16 MiB",
        ),
        ("confirm: {finalists: -1}", "must be at least 0"),
        (
            "tracking: {mlflow: ./mlruns}",
            "tracking.mlflow=./mlruns is a file store, which MLflow refuses; write sqlite:///mlflow.db",
        ),
        (
            "tracking: {mlflow: 'foo://x'}",
            "tracking.mlflow=foo://x is no store that MLflow knows; use sqlite",
        ),
        ("tracking: {mlflow: 'sqlite:///:memory:'}", "has no file; write sqlite:///mlflow.db"),
        ("tracking: {mlflow: 'sqlite://'}", "has no file; write sqlite:///mlflow.db"),
        (r'tracking: {experiment: "a\eb"}', "holds a character that cannot be printed; delete it"),
        ("budget: {trials: 4294967296}", "budget.trials=4294967296 must be at most 1,000,000"),
        ("tracking: {mlflow: 'file:///tmp/mlruns'}", "is a file store, which MLflow refuses"),
        (
            "keep: {trial_folders: -1}",
            "keep.trial_folders=-1 is not a number of folders; write 0 or more, or all",
        ),
        ("keep: {trial_folders: none}", "keep.trial_folders=none is not a number of folders"),
        ("study: a/b", "study=a/b is no name for a study"),
        ("study: [a]", "is no name for a study"),
        ("workload: {kind: toyy}", "workload.kind=toyy is not known; did you mean toy?"),
        ("workload: {task: x}", "workload.kind is missing"),
        ("workload: toy", "workload=toy is not a map"),
        ("workload: {kind: toy, tsk: 3}", "workload.tsk is not known; did you mean task?"),
        ("parameters: [a]", "is not a map; write parameters:"),
    ],
)
def test_settings_that_cannot_be_are_refused(refuse: Refuse, text: str, said: str) -> None:
    assert said in refuse(f"{text}\n")


def test_a_problem_of_the_workload_has_the_line_of_its_key(refuse: Refuse) -> None:
    said = refuse("workload:\n  kind: toy\n  train_for:\n    tokens: 0\n")
    assert said == "space.yaml:4: workload.train_for.tokens is below 1; train for longer"


def test_environment_variables_are_left_in_place_and_a_missing_one_is_said(
    load: Load, refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "${TUNER_TEST_TOKEN}"
    text = f'workload: {{kind: toy, token: "{variable}"}}\nparameters: {{env.KEY: "x-{variable}"}}\n'
    monkeypatch.delenv("TUNER_TEST_TOKEN", raising=False)
    said = refuse(text)
    assert said.count("${TUNER_TEST_TOKEN} is not set in the environment; export TUNER_TEST_TOKEN=...") == 2
    monkeypatch.setenv("TUNER_TEST_TOKEN", "secret")
    study = load(text)
    assert study.workload["token"] == "${TUNER_TEST_TOKEN}"
    assert study.baseline == {"env.KEY": "x-${TUNER_TEST_TOKEN}"}
    assert "secret" not in repr(study)


def test_set_replaces_and_adds_by_dotted_key(load: Load) -> None:
    study = load(
        "parameters: {precision: [fp32, bf16], task.learning_rate: {min: 1e-4, max: 1e-2, scale: log}}\n",
        {
            "budget.trials": "7",
            "parameters.task.learning_rate": "5e-4",
            "parameters.task.width": "[8, 16]",
            "parameters.precision": "bf16",
            "workload.train_for.tokens": "400000",
            "baseline.task.width": "16",
        },
    )
    assert study.budget.trials == 7
    assert study.workload["train_for"] == {"tokens": 400_000}
    assert study.baseline == {"precision": "bf16", "task.learning_rate": 5e-4, "task.width": 16}
    assert "# --set budget.trials=7" in study.text


def test_set_reaches_into_a_parameter_that_is_a_map(load: Load) -> None:
    study = load(
        "parameters: {micro_batch_size: {min: 1, max: 4}}\n", {"parameters.micro_batch_size.max": "6"}
    )
    assert study.space.size() == 6


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("budget.trails", "3", "--set budget.trails=3: budget.trails is not known; did you mean trials?"),
        ("budgte.trials", "3", "--set budgte.trials=3: budgte is not known; did you mean budget?"),
        ("parameters.precison", "3", "--set parameters.precison=3: precison is no parameter of toy"),
        ("budget.trials", "many", "--set budget.trials=many: budget.trials=many is not a whole number"),
        ("study.x", "3", "study is not a map, so it has no x; set study as a whole"),
        ("parameters.precision", "[fp32", "--set parameters.precision=[fp32: is not YAML"),
        ("", "3", "is no key of the file"),
        ("budget..trials", "3", "is no key of the file"),
    ],
)
def test_set_of_what_is_not_known_names_the_option(refuse: Refuse, key: str, value: str, said: str) -> None:
    assert said in refuse("study: x\nbudget: {trials: 3}\n", {key: value})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("20 s", 20), ("30 min", 1800), ("1.5h", 5400), ("1 h 30 min", 5400), ("500 ms", 0.5), ("2 d", 172800)],
)
def test_durations(text: str, expected: float) -> None:
    assert seconds(text) == expected


@given(
    st.one_of(
        st.text(max_size=20),
        st.floats(),
        st.integers(-(10**300), 10**300),
        st.none(),
        st.lists(st.integers(), max_size=2),
    )
)
def test_any_amount_is_read_or_refused(value: object) -> None:
    for read in (
        seconds,
        gibibytes,
        ratio,
        lambda v: in_unit_of("latency_p50_ms", v),
        lambda v: in_unit_of("f1", v),
    ):
        try:
            amount = read(value)
        except UnitError:
            continue
        assert isinstance(amount, float)
        assert abs(amount) < float("inf")


def test_one_trial_is_not_called_trials_at_once(load: Load) -> None:
    (said,) = load("resources: {cpus: 8}\n", cpus=2).warnings
    assert said.endswith("resources.cpus=8, and this machine has 2: tuner run refuses this on this machine")


def test_every_count_and_duration_and_size_has_an_upper_bound(refuse: Refuse) -> None:
    far = ((INTEGER, "9" * 30), (COUNT_OR_ALL, "9" * 30), (DURATION, "9999999 h"), (MEMORY, "9999999 TiB"))
    settings = [
        (f"{name}.{field.key}={value}", f"{name}: {{{field.key}: {value}}}\n")
        for name, fields in SECTIONS.items()
        for field in fields
        for kind, value in far
        if field.type is kind
    ]
    assert len(settings) >= 14
    for said, text in settings:
        line = refuse(text)
        assert re.match(rf"space.yaml:1: {re.escape(said)} .*; write ", line), line
