"""``tuner run --profile-only``: two runs of the baseline, what is said of the second, nothing recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Tuner
from trials.contract import FailureKind, Measurement, MetricValue, Outcome, Purpose, TrialSpec
from tuner.execution.protocol import Slots

SPACE = """\
study: looked
workload: {kind: training, task: trials.tasks.digits:Digits, train_for: {samples: 4000}}
parameters: {micro_batch_size: [16, 32], loader_workers: 0, task.width: [8, 16]}
baseline: {micro_batch_size: 32, task.width: 16}
objectives: [samples_per_s]
resources: {cpus: 1}
"""
SHARES = {
    "compute_pct": 10.0,
    "memory_bound_pct": 20.0,
    "communication_pct": 0.0,
    "data_wait_pct": 5.0,
    "host_pct": 65.0,
}


def looked_into() -> Measurement:
    return Measurement(
        Outcome.COMPLETE,
        metrics={"step_time_p50_ms": MetricValue(12.5, "ms")},
        facts={"breakdown": SHARES, "bottleneck": "host", "knobs_to_search": ["micro_batch_size", "compile"]},
    )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[TrialSpec]]:
    """``runs(measurement, ...)`` answers the runs of the next command with these, and collects their specs."""

    def answer(*measurements: Measurement) -> list[TrialSpec]:
        given: list[TrialSpec] = []
        left = list(measurements)

        def run_aside(module: str, spec: TrialSpec, slot: Slots) -> Measurement:
            assert (module, slot.count) == ("trials", 1)
            given.append(spec)
            return left.pop(0)

        monkeypatch.setattr("tuner.profiling.run_aside", run_aside)
        return given

    return answer


def test_the_second_run_of_the_baseline_is_what_counts(
    tuner: Tuner, workplace: Path, runs: Callable[..., list[TrialSpec]]
) -> None:
    (workplace / "space.yaml").write_text(SPACE)
    cold = Measurement(Outcome.COMPLETE, facts={"breakdown": {}, "bottleneck": "x", "knobs_to_search": []})
    specs = runs(cold, looked_into())
    said = tuner("run", "space.yaml", "--profile-only")
    assert said.code == 0, said.err
    assert [spec.purpose for spec in specs] == [Purpose.BASELINE] * 2
    assert specs[0].config["task.width"] == 16
    lines = said.out.splitlines()
    assert "12.5 ms" in lines[0]
    assert lines[2].split()[:2] == ["65.0%", "host"]  # the largest first
    assert "bottleneck: host" in said.out
    assert "searched already: micro_batch_size" in said.out
    assert "worth adding: compile" in said.out
    assert not (workplace / "tuner.db").exists()


def test_a_program_reads_the_same_as_json(
    tuner: Tuner, workplace: Path, runs: Callable[..., list[TrialSpec]]
) -> None:
    (workplace / "space.yaml").write_text(SPACE)
    runs(looked_into(), looked_into())
    found = json.loads(tuner("run", "space.yaml", "--profile-only", "--json").out)
    assert found["breakdown"] == SHARES
    assert (found["bottleneck"], found["knobs_in_the_space"]) == ("host", ["micro_batch_size"])


@pytest.mark.parametrize(
    ("measurement", "words"),
    [
        (Measurement.failed(FailureKind.CRASH, "boom"), "the baseline failed: crash: boom"),
        (Measurement(Outcome.COMPLETE), "cannot be looked into"),
    ],
    ids=["failed", "another kind"],
)
def test_what_cannot_be_profiled_is_said_with_exit_code_1(
    tuner: Tuner, workplace: Path, runs: Callable[..., list[TrialSpec]], measurement: Measurement, words: str
) -> None:
    (workplace / "space.yaml").write_text(SPACE)
    specs = runs(measurement, measurement)
    said = tuner("run", "space.yaml", "--profile-only")
    assert (said.code, words in said.err) == (1, True)
    assert len(specs) == (1 if measurement.outcome is Outcome.FAILED else 2)
