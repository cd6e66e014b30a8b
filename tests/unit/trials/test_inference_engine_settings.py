"""Settings, the registry of engines and its static checks: nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from trials.inference import engines
from trials.inference.engine import (
    Description,
    EngineSettings,
    Unsupported,
    check_description,
)
from trials.inference.engines import engine_entry, engine_knobs, engine_names, missing_package, rejection

CPU: dict[str, Any] = {"cpus": 2, "gpus": 0}
GPU: dict[str, Any] = {"cpus": 2, "gpus": 1}


def test_the_registry_and_its_checks_import_no_engine() -> None:
    script = (
        "import sys; from trials.inference.engines import engine_knobs, rejection\n"
        "engine_knobs(), rejection({'engine': 'onnxruntime'}, {'gpus': 0}, 'module')\n"
        "print([m for m in ('torch', 'numpy', 'onnxruntime', 'openvino', 'torchao') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


def test_a_value_that_an_engine_lacks_is_refused_with_those_it_has() -> None:
    problem = rejection({"engine": "onnxruntime", "precision": "bf16"}, CPU, "module")
    assert problem is not None
    assert problem.message == "engine=onnxruntime has no precision=bf16"
    assert problem.way_out.startswith("use fp32, fp16, int8_dynamic")


def test_a_knob_that_an_engine_does_not_know_is_to_be_left_out() -> None:
    problem = rejection({"engine": "torch", "graph_optimization": "all"}, CPU, "module")
    assert problem is not None
    assert problem.way_out == "leave it out (null)"


def test_a_calibration_method_matters_only_where_something_is_calibrated() -> None:
    config = {"engine": "torch", "calibration_method": "entropy"}
    assert rejection({**config, "precision": "fp32"}, CPU, "module") is None
    assert rejection({**config, "precision": "int8_static"}, CPU, "module") is not None


def test_what_needs_a_gpu_is_refused_without_one() -> None:
    problem = rejection({"engine": "onnxruntime", "provider": "tensorrt"}, CPU, "module")
    assert problem is not None
    assert problem.way_out == "use cpu"


def test_a_precision_depends_on_where_the_engine_runs() -> None:
    fp8 = {"engine": "torch", "precision": "fp8"}
    problem = rejection(fp8, CPU, "module")
    assert problem is not None
    assert "no precision=fp8 on cpu" in problem.message
    if missing_package(fp8) is None:
        assert rejection(fp8, GPU, "module") is None  # a trial with a GPU runs on it unless told otherwise
    assert rejection({**fp8, "provider": "cpu"}, GPU, "module") is not None


def test_an_onnx_file_is_not_for_pytorch() -> None:
    problem = rejection({"engine": "torch_compile"}, CPU, "onnx")
    assert problem is not None
    assert problem.way_out == "use onnxruntime, openvino"


@pytest.mark.parametrize(
    ("config", "command"),
    [
        ({"engine": "onnxruntime"}, 'pip install "tuner[onnxruntime]"'),
        ({"engine": "openvino"}, 'pip install "tuner[openvino]"'),
        ({"engine": "torch", "precision": "int8_dynamic"}, 'pip install "tuner[torchao]"'),
    ],
)
def test_a_missing_package_names_the_install_command(
    config: dict[str, Any], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _name: None)
    problem = missing_package(config)
    assert problem is not None
    assert problem.way_out == command
    assert rejection(config, CPU, "module") == problem


def test_plain_pytorch_needs_no_optional_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _name: None)
    assert missing_package({"engine": "torch", "precision": "bf16"}) is None


def test_every_entry_names_only_values_that_the_knobs_take() -> None:
    knobs = {knob.name: knob for knob in engine_knobs()}
    for name in engine_names():
        for knob, values in engine_entry(name).choices.items():
            assert all(knobs[knob].problem(value) is None for value in values), (name, knob)
        for precisions in engine_entry(name).lacks.values():
            assert set(precisions) <= set(engine_entry(name).choices["precision"])


def test_settings_come_from_a_configuration_with_other_names_in_it() -> None:
    settings = EngineSettings.of(
        {"engine": "torch", "instances": 2, "task.width": 8, "provider": None, "keep_high_precision": "head"}
    )
    assert settings == EngineSettings(engine="torch", keep_high_precision=("head",))


def test_buckets_are_sorted_and_distinct() -> None:
    assert EngineSettings.of({"sequence_buckets": [64, 32, 64]}).sequence_buckets == (32, 64)


@pytest.mark.parametrize(
    ("pattern", "layer", "is_kept"),
    [
        ("head", "head", True),
        ("head", "head2", False),
        ("encoder.layer.0", "encoder.layer.0.attention.query", True),
        ("encoder.layer.0", "encoder.layer.01", False),
        ("*.query", "encoder.layer.3.query", True),
        ("encoder.*.output", "encoder.layer.3.output.dense", True),
        ("*", "anything.at.all", True),
    ],
)
def test_a_pattern_keeps_a_layer_and_what_lies_inside(pattern: str, layer: str, is_kept: bool) -> None:
    assert EngineSettings(keep_high_precision=(pattern,)).keeps(layer) is is_kept


def _ran(quantised: tuple[str, ...] = (), **dtypes: int) -> Description:
    return Description("some", "1", "cpu", 1, dtypes, quantised)


def test_an_int8_form_that_quantised_nothing_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"quantised no layer \(matrix products: 5 in float32\)"):
        check_description(_ran(float32=5), EngineSettings(precision="int8_dynamic"))


def test_quantised_weights_under_float_products_are_no_int8_static() -> None:
    with pytest.raises(Unsupported, match="means matrix products in int8"):
        check_description(_ran(("head",), float32=5), EngineSettings(precision="int8_static"))


def test_a_float_format_that_the_engine_replaced_is_refused() -> None:
    with pytest.raises(Unsupported, match="means matrix products in bfloat16, but some ran 5 in float32"):
        check_description(_ran(float32=5), EngineSettings(precision="bf16"))


def test_weight_only_forms_may_compute_in_any_float_format() -> None:
    for dtype in ("float32", "bfloat16"):
        check_description(_ran(("head",), **{dtype: 5}), EngineSettings(precision="int8_weight_only"))
