"""Quantisation of OpenVINO models with NNCF, by layer name."""

from __future__ import annotations

import logging
from typing import Any

import nncf
from nncf.quantization.range_estimator import RangeEstimatorParametersSet

from trials.inference.engine import EngineSettings, ModelSource, Phase, Unsupported
from trials.inference.engines.openvino_layers import layers_of
from trials.inference.outputs import calibration_batches

nncf.set_log_level(logging.WARNING)
INT4_GROUP_SIZE = 32  # weights that share a scale
_TRANSFORMER_MARKS = {"ScaledDotProductAttention", "Softmax", "MVN"}
_RANGES = {
    "minmax": RangeEstimatorParametersSet.MINMAX,
    "mean_minmax": RangeEstimatorParametersSet.MEAN_MINMAX,
}


def quantise(model: Any, source: ModelSource, settings: EngineSettings, phase: Phase) -> Any:
    """The quantised model. Unsupported where every layer is kept in high precision."""
    layers = layers_of(model)
    kept = [operation for operation, layer in layers.items() if settings.keeps(layer)]
    if len(kept) == len(layers):
        raise Unsupported(
            f"precision={settings.precision} finds no layer to quantise: {len(set(layers.values()))} layers, all "
            "of them kept in high precision"
        )
    scope = nncf.IgnoredScope(names=kept, validate=False)
    if settings.precision == "int8_static":
        with phase("calibration_s"):
            return _static(model, source, settings, scope)
    with phase("quantize_s"):
        return _weight_only(model, settings.precision, scope)


def _static(model: Any, source: ModelSource, settings: EngineSettings, scope: Any) -> Any:
    batches = list(calibration_batches(source, settings.calibration_samples))
    is_transformer = any(operation.get_type_name() in _TRANSFORMER_MARKS for operation in model.get_ops())
    chosen = _RANGES.get(settings.calibration_method or "")
    return nncf.quantize(
        model,
        nncf.Dataset(batches),
        model_type=nncf.ModelType.TRANSFORMER if is_transformer else None,
        subset_size=len(batches),
        ignored_scope=scope,
        advanced_parameters=nncf.AdvancedQuantizationParameters(activations_range_estimator_params=chosen)
        if chosen
        else None,
    )


def _weight_only(model: Any, precision: str, scope: Any) -> Any:
    if precision == "int8_weight_only":
        return nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM, ignored_scope=scope)
    return nncf.compress_weights(
        model,
        mode=nncf.CompressWeightsMode.INT4_SYM,
        group_size=INT4_GROUP_SIZE,
        ignored_scope=scope,
        advanced_parameters=nncf.AdvancedCompressionParameters(
            group_size_fallback_mode=nncf.GroupSizeFallbackMode.IGNORE
        ),
    )
