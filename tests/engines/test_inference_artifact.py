"""An exported artifact answers as the engine that was measured, in a process that has never heard of tuner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason='needs ONNX Runtime: pip install "tuner[onnxruntime]"')
pytest.importorskip("onnx", reason='needs onnx: pip install "tuner[onnxruntime]"')

from tests.contracts.engine_suite import run_artifact
from tests.faults.processes import private_runtime
from tests.served_digits import ServedDigits, write_model
from tuner.cli.errors import CliError
from tuner.cli.export_artifact import artifact_folder, export_artifact, refuse_other_kinds


@pytest.fixture(scope="module", autouse=True)
def runtime() -> Iterator[Path]:
    with private_runtime() as folder:
        yield folder


def document(folder: Path, **config: Any) -> dict[str, Any]:
    """As much of an export document as building needs."""
    write_model(folder / "digits.onnx")
    section = {
        "kind": "inference",
        "task": f"{Path(__file__).parents[1] / 'served_digits.py'}:ServedDigits",
        "model": str(folder / "digits.onnx"),
    }
    given = {"engine": "onnxruntime", "batch_size": 32, "threads": 1, **config}
    return {
        "study": "digits",
        "trial": 3,
        "environment": {"cores_held": [0]},
        "verify": {"workload": section, "parameters": given, "seed": 1},
    }


def test_the_artifact_has_the_accuracy_of_the_configuration(tmp_path: Path) -> None:
    import onnxruntime

    folder = tmp_path / "served"
    export_artifact(
        document(tmp_path, precision="int8_static", calibration_samples=64), "tuner_export: 1\n", folder
    )
    assert {path.name for path in tmp_path.iterdir()} == {"served", "digits.onnx"}
    assert (folder / "tuner.yaml").read_text() == "tuner_export: 1\n"
    task = ServedDigits()
    inputs = task.evaluation_data()
    sample = dict(np.load(folder / "sample_inputs.npz"))
    assert np.array_equal(sample["images"], inputs["images"][: len(sample["images"])])
    whole = onnxruntime.InferenceSession(tmp_path / "digits.onnx", providers=["CPUExecutionProvider"])
    found, wanted = run_artifact(folder, inputs)["logits"], whole.run(["logits"], inputs)[0]
    assert not np.allclose(found, wanted, atol=1e-4)  # it is the integer model
    accuracy, reference = (task.score({"logits": logits})["accuracy"].mean() for logits in (found, wanted))
    assert accuracy == pytest.approx(reference, abs=0.02)


def test_what_cannot_be_built_leaves_its_log_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"unsupported: .*no layer to quantise.*; log: ") as raised:
        export_artifact(
            document(tmp_path, precision="int8_dynamic", keep_high_precision=["*"]), "", tmp_path / "served"
        )
    assert not (tmp_path / "served").exists()
    assert Path(str(raised.value).rpartition("log: ")[2]).is_file()


def test_a_folder_that_is_there_already_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(CliError, match="is there already; name a new folder"):
        artifact_folder(str(tmp_path))
    with pytest.raises(CliError, match="is of kind training; only kind inference"):
        refuse_other_kinds("mine", "training")
