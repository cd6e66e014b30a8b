"""The layer that quantising hurts most is found, and keeping it gives the outputs back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.contracts.served_model import (
    AXES,
    LINEAR_LAYERS,
    Calibration,
    batch,
    encoder,
    relative_error,
)
from trials.inference.engine import Engine, EngineSettings, ModelSource, Unsupported
from trials.inference.engines import start_engine
from trials.inference.sensitivity import rank_layers

FRAGILE = "block.up"
INPUTS = batch(16, seed=21)


def fragile_encoder() -> nn.Module:
    """One weight of each row of a layer is a thousand times the others, so that 8 bits leave these no digit."""
    module = encoder()
    with torch.no_grad():
        module.get_parameter(f"{FRAGILE}.weight")[:, 0] = 100.0
        module.get_parameter("block.norm.weight")[0] = (
            0.0  # what it multiplies is zero: float32 does not mind
        )
        module.get_parameter("block.norm.bias")[0] = 0.0
    return module


SOURCE = ModelSource(
    example=batch(3, seed=1),
    outputs=("logits",),
    axes=AXES,
    factory=fragile_encoder,
    calibration=Calibration(),
)


def error_of(engine: Engine) -> float:
    tensors = {name: torch.from_numpy(array) for name, array in INPUTS.items()}
    with torch.no_grad():
        wanted = fragile_encoder().eval()(**tensors).numpy()
    return relative_error(engine.run(INPUTS)["logits"], wanted)


def score(engine: Engine) -> tuple[float, float]:
    error = error_of(engine)
    return 1 - error, error


@pytest.mark.parametrize("precision", ["int8_weight_only", "int8_dynamic"])
def test_a_layer_with_outlier_weights_comes_first(precision: str, tmp_path: Path) -> None:
    settings = EngineSettings(precision=precision, threads=1)
    ranked = rank_layers(SOURCE, settings, score, 1.0, tmp_path)
    assert {one.layer for one in ranked} == set(LINEAR_LAYERS)
    assert ranked[0].layer == FRAGILE
    assert ranked[0].output_error > 3 * ranked[1].output_error
    assert ranked[0].quality_lost == pytest.approx(ranked[0].output_error)


def test_to_keep_that_layer_gives_the_outputs_back(tmp_path: Path) -> None:
    settings = EngineSettings(precision="int8_weight_only", threads=1)
    kept = replace(settings, keep_high_precision=(FRAGILE,))
    all_of_it, rest = (
        error_of(start_engine(SOURCE, one, tmp_path, lambda _name: nullcontext())) for one in (settings, kept)
    )
    assert all_of_it > 3 * rest


def test_a_precision_that_quantises_nothing_has_no_ranking(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="precision=bf16 quantises nothing"):
        rank_layers(SOURCE, EngineSettings(precision="bf16"), score, 1.0, tmp_path)
