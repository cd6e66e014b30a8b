"""Measuring an exported configuration again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.study.bench import (
    FAST,
    HERE,
    LOSS,
    Clock,
    FakeExecutor,
    Measure,
    contaminated,
    failed,
    gave,
)
from trials.contract import Measurement, TrialSpec
from tuner.execution.protocol import ExecutionError
from tuner.export.reading import ExportError
from tuner.verification import Verification, VerifyError, verify_document

RUNS = {FAST: [100.0, 101.0, 99.0], LOSS: [2.0, 2.01, 1.99]}
AS_EXPECTED = gave(**{FAST: 100.5, LOSS: 2.0})
SLOWER = gave(**{FAST: 60.0, LOSS: 2.0})


def document(**changed: Any) -> dict[str, Any]:
    verify = {
        "workload": {"kind": "bench"},
        "parameters": {"x": 3},
        "seed": 9,
        "judged_by": [FAST, LOSS],
        "spread": {},
        "within": {},
        "runs": RUNS,
    }
    return {
        "study": "bench",
        "trial": 4,
        "is_confirmed": True,
        "environment": HERE,
        **changed,
        "verify": {**verify, **changed.get("verify", {})},
    }


def verified(folder: Path, measure: Measure, **changed: Any) -> tuple[Verification, FakeExecutor, list[str]]:
    said: list[str] = []
    executor = FakeExecutor(measure, Clock())
    return verify_document(document(**changed), folder, 60.0, said.append, executor), executor, said


def in_turn(*runs: Measurement) -> Callable[..., Measurement]:
    return lambda spec, nth: runs[nth - 1]


def test_a_cold_run_is_thrown_away_and_the_next_is_compared(tmp_path: Path) -> None:
    result, executor, said = verified(tmp_path, in_turn(SLOWER, AS_EXPECTED))
    assert result.agrees
    assert said == []
    assert [spec.seed for spec in executor.taken] == [9, 9]
    assert executor.taken[0].trial_dir != executor.taken[1].trial_dir
    assert [c.metric for c in result.comparisons] == [FAST, LOSS]


def test_a_value_outside_its_interval_does_not_agree(tmp_path: Path) -> None:
    result, _, _ = verified(tmp_path, in_turn(AS_EXPECTED, SLOWER))
    assert not result.agrees
    assert [c.verdict for c in result.comparisons] == ["outside", "inside"]


def test_a_metric_that_is_not_there_any_more_does_not_agree(tmp_path: Path) -> None:
    result, _, _ = verified(tmp_path, in_turn(AS_EXPECTED, gave(**{FAST: 100.0})))
    assert [c.verdict for c in result.comparisons] == ["inside", "missing"]
    assert not result.agrees


NOISY = {FAST: [50.0, 100.0, 150.0], LOSS: [2.0, 2.01, 1.99]}


def test_a_value_inside_an_interval_that_nearly_anything_is_inside_of_says_little(tmp_path: Path) -> None:
    result, _, _ = verified(tmp_path, in_turn(AS_EXPECTED, SLOWER), verify={"runs": NOISY})
    assert [c.verdict for c in result.comparisons] == ["wide", "inside"]
    assert result.agrees
    assert result.conclusion.startswith("agrees with the export, but the noise of ")
    assert result.as_json()["metrics"][0]["verdict"] == "wide"
    assert result.comparisons[0].low > 0


def test_a_value_outside_of_another_interval_weighs_more_than_one_that_says_little(tmp_path: Path) -> None:
    far = gave(**{FAST: 60.0, LOSS: 3.0})
    result, _, _ = verified(tmp_path, in_turn(AS_EXPECTED, far), verify={"runs": NOISY})
    assert [c.verdict for c in result.comparisons] == ["wide", "outside"]
    assert result.conclusion == "does NOT agree with the export"


@pytest.mark.parametrize("spoiled", [failed("killed"), contaminated(SLOWER)])
def test_a_spoiled_run_is_taken_again_once(tmp_path: Path, spoiled: Measurement) -> None:
    result, executor, said = verified(tmp_path, in_turn(AS_EXPECTED, spoiled, AS_EXPECTED))
    assert result.agrees
    assert len(executor.taken) == 3
    assert said == []


def test_a_run_that_is_disturbed_twice_says_so(tmp_path: Path) -> None:
    _, executor, said = verified(tmp_path, in_turn(AS_EXPECTED, *[contaminated(AS_EXPECTED)] * 2))
    assert len(executor.taken) == 3
    assert said == ["warning: disturbed both times, so this says little: foreign load"]


@pytest.mark.parametrize("runs", [(failed("crash"),), (AS_EXPECTED, failed("crash"))])
def test_a_run_that_fails_is_an_error_that_names_its_folder(
    tmp_path: Path, runs: tuple[Measurement, ...]
) -> None:
    with pytest.raises(VerifyError, match=rf"the run failed: crash: it broke; log: {tmp_path}"):
        verified(tmp_path, in_turn(*runs))


def test_another_machine_is_warned_of(tmp_path: Path) -> None:
    elsewhere = replace(AS_EXPECTED, environment={**HERE, "torch": "2.14.0"})
    _, _, said = verified(tmp_path, in_turn(AS_EXPECTED, elsewhere))
    assert said == ["warning: not the machine that was measured: torch: was 2.13.0, now 2.14.0"]


def test_a_file_without_earlier_values_agrees_with_nothing(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="holds no earlier value of tokens_per_s, val_loss_nats"):
        verified(tmp_path, _never, verify={"runs": {}})


def test_one_earlier_value_alone_asks_for_a_confirmed_trial_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    with pytest.raises(ExportError, match="export a confirmed trial"):
        verified(tmp_path, _never, verify={"runs": {FAST: [100.0], LOSS: [2.0]}})


def _never(spec: TrialSpec, nth: int) -> Measurement:
    raise AssertionError("nothing should be measured")


def test_the_slot_is_as_large_as_the_one_that_was_measured_in(tmp_path: Path) -> None:
    class Asked(FakeExecutor):
        def run(self, source, slots):
            self.slots = slots
            super().run(source, slots)

    executor = Asked(in_turn(AS_EXPECTED, AS_EXPECTED), Clock())
    one_core = document(verify={"cpus": 1})
    verify_document(one_core, tmp_path, 60.0, print, executor)
    assert executor.slots.cpus == 1


def test_a_place_that_cannot_run_it_is_an_error_in_one_line(tmp_path: Path) -> None:
    class Nowhere(FakeExecutor):
        def run(self, source, slots):
            raise ExecutionError("no GPU here; take another machine")

    with pytest.raises(VerifyError, match="no GPU here"):
        verify_document(document(), tmp_path, 60.0, print, Nowhere(in_turn(), Clock()))
