"""An exported artifact answers as the engine that was measured, in a process that has never heard of tuner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contracts.engine_suite import run_artifact
from tests.faults.processes import private_runtime
from trials.tasks.digits_classifier import DigitsClassifier
from tuner.cli.errors import CliError
from tuner.cli.export_artifact import artifact_folder, export_artifact, refuse_other_kinds

EXAMPLES = 400


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


def document(**config: Any) -> dict[str, Any]:
    """As much of an export document as building needs."""
    section = {
        "kind": "inference",
        "task": "trials.tasks.digits_classifier:DigitsClassifier",
        "evaluate_on": EXAMPLES,
    }
    given = {"batch_size": 32, "threads": 1, "task.width": 64, **config}
    return {
        "study": "digits",
        "trial": 3,
        "environment": {"cores_held": [0]},
        "verify": {"workload": section, "parameters": given, "seed": 1},
    }


@pytest.mark.parametrize("engine", ["torch", "onnxruntime", "openvino"])
def test_the_artifact_has_the_accuracy_of_the_configuration(engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    export_artifact(document(engine=engine, precision="int8_static"), "tuner_export: 1\n", folder)
    assert {path.name for path in tmp_path.iterdir()} == {"served"}
    assert (folder / "tuner.yaml").read_text() == "tuner_export: 1\n"
    task = DigitsClassifier(width=64)
    inputs = {name: array[:EXAMPLES] for name, array in task.evaluation_data().items()}
    sample = dict(np.load(folder / "sample_inputs.npz"))
    assert np.array_equal(sample["images"], inputs["images"][: len(sample["images"])])
    accuracy = task.score(run_artifact(folder, inputs))["accuracy"].mean()
    assert accuracy > 0.9


def test_what_cannot_be_built_leaves_its_log_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"unsupported: .*no layer to quantise.*; log: ") as raised:
        export_artifact(
            document(engine="torch", precision="int8_dynamic", keep_high_precision=["*"]),
            "",
            tmp_path / "served",
        )
    assert not (tmp_path / "served").exists()
    assert Path(str(raised.value).rpartition("log: ")[2]).is_file()


def test_a_folder_that_is_there_already_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(CliError, match="is there already; name a new folder"):
        artifact_folder(str(tmp_path))
    with pytest.raises(CliError, match="is of kind training; only kind inference"):
        refuse_other_kinds("mine", "training")
