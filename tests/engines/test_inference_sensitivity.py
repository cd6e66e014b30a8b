"""The layer that quantising hurts most is found, and keeping it gives the outputs back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
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
from trials.inference.sensitivity import LayerSensitivity, rank_layers
from trials.measurement.statistics import paired_loss

FRAGILE = "block.up"
ROWS = 64
INPUTS = batch(ROWS, seed=21)
NEAR = 0.01


def fragile_encoder() -> nn.Module:
    """One weight of each row of a layer is a thousand times the others, so that 8 bits leave these no digit."""
    module = encoder()
    with torch.no_grad():
        module.get_parameter(f"{FRAGILE}.weight")[:, 0] = 100.0
        # what it multiplies is zero: float32 does not mind
        module.get_parameter("block.norm.weight")[0] = 0.0
        module.get_parameter("block.norm.bias")[0] = 0.0
    return module


SOURCE = ModelSource(
    example=batch(3, seed=1),
    outputs=("logits",),
    axes=AXES,
    factory=fragile_encoder,
    calibration=Calibration(),
)


def answers() -> np.ndarray:
    """In float32, by PyTorch alone."""
    tensors = {name: torch.from_numpy(array) for name, array in INPUTS.items()}
    with torch.no_grad():
        return fragile_encoder().eval()(**tensors).numpy()


WANTED = answers()
RIGHT = [1.0] * ROWS


def error_of(engine: Engine) -> float:
    return relative_error(engine.run(INPUTS)["logits"], WANTED)


def score(engine: Engine) -> tuple[list[float], float]:
    """An example is right when the outputs have about the right values."""
    outputs = engine.run(INPUTS)["logits"]
    distance = np.linalg.norm(outputs - WANTED, axis=1) / np.linalg.norm(WANTED, axis=1)
    return (distance < NEAR).astype(float).tolist(), relative_error(outputs, WANTED)


@pytest.mark.parametrize("precision", ["int8_weight_only", "int8_dynamic"])
def test_a_layer_with_outlier_weights_comes_first(precision: str, tmp_path: Path) -> None:
    settings = EngineSettings(precision=precision, threads=1)
    ranked = rank_layers(SOURCE, settings, score, RIGHT, tmp_path)
    assert {one.layer for one in ranked} == set(LINEAR_LAYERS)
    assert ranked[0].layer == FRAGILE
    assert ranked[0].output_error > 3 * ranked[1].output_error
    assert ranked[0].is_decided and ranked[0].quality_lost > 0.5
    assert list(tmp_path.iterdir()) == []


def sensitivity(layer: str, lost: int, error: float) -> LayerSensitivity:
    """A layer that loses so many of a hundred right answers."""
    return LayerSensitivity(layer, *paired_loss([0.0] * lost + [1.0] * (100 - lost), [1.0] * 100), error)


def test_what_the_examples_cannot_decide_is_ranked_by_the_error_of_the_outputs() -> None:
    lucky, unlucky = sensitivity("lucky", 0, 0.2), sensitivity("unlucky", 1, 0.1)
    much, more = sensitivity("much", 20, 0.3), sensitivity("more", 30, 0.1)
    ranked = sorted([unlucky, much, lucky, more], key=lambda one: one.rank)
    assert [one.layer for one in ranked] == ["more", "much", "lucky", "unlucky"]
    assert [one.is_decided for one in ranked] == [True, True, False, False]


def test_to_keep_that_layer_gives_the_outputs_back(tmp_path: Path) -> None:
    settings = EngineSettings(precision="int8_weight_only", threads=1)
    kept = replace(settings, keep_high_precision=(FRAGILE,))
    all_of_it, rest = (
        error_of(start_engine(SOURCE, one, tmp_path, lambda _name: nullcontext())) for one in (settings, kept)
    )
    assert all_of_it > 3 * rest


def test_a_precision_that_quantises_nothing_has_no_ranking(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="precision=bf16 quantises nothing"):
        rank_layers(SOURCE, EngineSettings(precision="bf16"), score, RIGHT, tmp_path)
