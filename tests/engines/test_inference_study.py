"""A whole study of an integer model that is broken on purpose: it never wins under a limit on recovery."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

pytest.importorskip("onnxruntime", reason='needs ONNX Runtime: pip install "tuner[onnxruntime]"')
pytest.importorskip("onnx", reason='needs onnx: pip install "tuner[onnxruntime]"')

from tests.faults.processes import private_runtime
from tests.served_digits import WRONG, write_model
from tests.unit.cli.program import tuner
from tuner.comparison import LimitStatus
from tuner.execution.local import LocalExecutor
from tuner.launch import claimed, prepare_records, run_study
from tuner.records.repository import Records
from tuner.results import StudyResult, judge
from tuner.space import load_study_file


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


def study_in(folder: Path) -> StudyResult:
    """Run the study: float32 is today's form, the smallest model is wanted, the layer that is kept is searched."""
    write_model(folder / "broken.onnx", WRONG)
    space = {
        "study": "broken",
        "workload": {
            "kind": "inference",
            "task": f"{Path(__file__).parents[1] / 'served_digits.py'}:ServedDigits",
            "model": "broken.onnx",
            "window_s": 0.1,
        },
        "parameters": {
            "engine": "onnxruntime",
            "precision": ["fp32", "int8_dynamic"],
            "keep_high_precision": {
                "choices": {"none": None, "second": ["hidden.1"]},
                "when": "precision == 'int8_dynamic'",
            },
            "batch_size": 50,
            "threads": 1,
        },
        "objectives": ["model_size_mib"],
        "constraints": {"accuracy_recovery_pct": {"min": 99}},
        "budget": {"trials": 4},
        "confirm": {"finalists": 1, "repeats": 2, "baseline_repeats": 1},
        "search": {"sampler": "random"},
        "resources": {"cpus": 1},
        "tracking": {"mlflow": None},
    }
    (folder / "broken.yaml").write_text(yaml.safe_dump(space, sort_keys=False))
    file = load_study_file(folder / "broken.yaml")
    with Records.open(folder / "tuner.db") as records, claimed(records, file.name):
        prepare_records(file, records, new_space=False)
        assert run_study(file, records, LocalExecutor(), []).failure is None
        return judge(records.study(file.name))


def form(result: StudyResult, number: int) -> tuple[str, str | None]:
    config = result.trial(number).config
    return config["precision"], config.get("keep_high_precision")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyResult]:
    folder = tmp_path_factory.mktemp("kept")
    return folder, study_in(folder)


def test_a_broken_integer_model_breaks_the_limit_and_is_no_winner(searched: tuple[Path, StudyResult]) -> None:
    _, result = searched
    (broken,) = [trial for trial in result.trials if form(result, trial.number) == ("int8_dynamic", "none")]
    assert not broken.is_feasible and not broken.on_front
    sizes = {form(result, t.number): t.estimates["model_size_mib"].value for t in result.trials}
    assert min(sizes, key=sizes.__getitem__) == ("int8_dynamic", "none")  # it would have won
    assert broken.failure_kind is None  # it ran, and was judged by its answers


def test_with_the_layer_kept_an_integer_model_wins_and_keeps_the_limit(
    searched: tuple[Path, StudyResult],
) -> None:
    folder, result = searched
    assert result.recommended is not None
    winner = result.trial(result.recommended.trial)
    assert form(result, winner.number) == ("int8_dynamic", "second")
    assert winner.is_confirmed and [limit.status for limit in winner.limits] == [LimitStatus.MET]
    recovery = winner.estimates["accuracy_recovery_pct"]
    assert recovery.low > 99  # decided on the same examples, although 1,000 alone scatter by 1.8%
    done = tuner(folder, "export", "broken", "-o", "best.yaml")
    assert done.returncode == 0, done.stderr
    exported = (folder / "best.yaml").read_text()
    assert "hidden.1" in exported and "int8_dynamic" in exported
