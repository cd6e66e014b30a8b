"""Public cases about what comes out: an export that says why, units that say what, every trial kept."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import yaml

from tests import builders
from tests.cases.spaces import fake, measured, says, written
from tests.unit.cli.conftest import Tuner
from tests.unit.cli.stored import store, two_sided_study
from trials.metrics import Key, unit_of
from trials.training.batch_plan import BatchPlan
from trials.training.report import Window, speed_metrics
from tuner.records.rows import StudyRecord


def test_vllm_project_vllm_56111_a_metric_says_whether_it_is_of_the_job_or_of_one_device() -> None:
    window = Window([0.5] * 40, [0.0] * 40, 1.0, 3, True)
    found = speed_metrics(window, BatchPlan(8, 1), tokens_per_sample=10, devices=8)
    assert found[Key.TOKENS_PER_S].value == pytest.approx(160.0)
    assert found[Key.TOKENS_PER_S_PER_GPU].value == pytest.approx(20.0)
    assert (unit_of(Key.TOKENS_PER_S), unit_of(Key.TOKENS_PER_S_PER_GPU)) == ("tokens/s", "tokens/s/GPU")


def test_vllm_project_vllm_56111_the_devices_that_a_trial_held_are_recorded_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for place in ("local", "supervisor"):
        monkeypatch.setattr(f"tuner.execution.{place}.usable_gpus", lambda: ["3", "5", "7"])
    fine = {"do": "complete", "value": 2.0}
    file = fake(fine | {"value": 3.0}, baseline=fine)
    _, record = measured(replace(file, resources=replace(file.resources, gpus=2)))
    assert len(record.trials) == 2
    for trial in record.trials:
        facts = trial.measurements[-1].facts
        assert len(facts["process"]["cpus"]) == 1 and facts["process"]["gpus"] == ["3", "5"]
        assert facts["env"]["CUDA_VISIBLE_DEVICES"] == "3,5", "the trial itself sees these and no other"


def test_intel_neural_compressor_2261_a_goal_that_nobody_met_is_3_with_the_nearest_and_everything_kept(
    program: Tuner,
) -> None:
    written(
        says({"samples_per_s": "{x}", "accuracy": "[0.5, 0.9652, 0.91, 0.88][{x}]"}),
        "parameters: {x: {min: 0, max: 3}, y: 5}",
        "baseline: {x: 3}",
        "objectives: [samples_per_s]",
        "constraints: {accuracy: {min: 0.99}}",
        "resources: {cpus: 1}",
        "budget: {trials: 10}",
        "confirm: {finalists: 2, baseline_repeats: 1}",
    )
    assert program("run", "space.yaml").code == 3
    study = json.loads(program("show", "bench", "--json").out)
    nearest = study["nearest_miss"]["trial"]
    exported = program("export", "bench")
    assert (exported.code, exported.out) == (3, "")
    assert f"nearest: trial {nearest}, accuracy 0.9652 < 0.99" in exported.line
    assert len(study["trials"]) >= 3
    forced = program("export", "bench", "--trial", str(nearest))
    assert forced.code == 0
    assert yaml.safe_load(forced.out)["chosen"] == {"x": 1, "y": 5}
    assert "breaks the limit accuracy >= 0.99 (0.9652)" in forced.err


def seven() -> StudyRecord:
    """Seven confirmed candidates: each faster and less accurate than the one before."""
    both = ("accuracy", "samples_per_s")
    trials = [builders.baseline({both[0]: [0.98, 0.98, 0.98], both[1]: [100.0, 101.0, 99.0]})]
    for n in range(1, 8):
        row = {both[0]: 0.97 - 0.01 * n, both[1]: 100.0 + 20.0 * n}
        repeats = builders.repeats({key: [value] * 3 for key, value in row.items()})
        trials.append(builders.trial(n, builders.measurement(row), *repeats))
    return builders.study(*trials, objectives=[builders.objective(metric) for metric in both])


@pytest.mark.parametrize("rule", [[], ["--pick", "first_objective"], ["--pick", "maximize:samples_per_s"]])
def test_microsoft_olive_1439_one_of_seven_is_exported_by_a_stated_rule_and_the_same_each_time(
    tuner: Tuner, rule: list[str]
) -> None:
    store(seven())
    one, other = (tuner("export", "built", "--to", "json", *rule) for _ in range(2))
    first, second = json.loads(one.out), json.loads(other.out)
    assert first["trial"] == second["trial"] and first["chosen"] == second["chosen"]
    assert first["why"] and first["why"] in one.err
    assert first["gives_up"], "the front is a trade-off"
    assert all(line in one.err for line in first["gives_up"])
    assert json.loads(tuner("export", "built", "--to", "json", "--trial", "5").out)["chosen"] == {"x": 5}


def test_microsoft_olive_472_failed_and_dominated_trials_are_in_the_json(tuner: Tuner) -> None:
    store(two_sided_study())
    plain = json.loads(tuner("show", "built", "--json").out)
    assert [trial["outcome"] for trial in plain["trials"]] == ["complete"] * 3 + ["failed", "complete"]
    assert plain["rejected"] == {"x <= 9": 3}
    assert set(plain["front"]) < {trial["number"] for trial in plain["trials"]}
