"""Quantisation of linear layers with torchao, layer by layer, so that some can be kept in high precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torchao.quantization import (
    Float8DynamicActivationFloat8WeightConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    MappingType,
    PerRow,
    PerTensor,
    quantize_,
)
from torchao.quantization.observer import AffineQuantizedMinMaxObserver
from torchao.utils import should_reduce_range

from trials.inference.engine import Phase, Unsupported
from trials.inference.outputs import calibration_batches

if TYPE_CHECKING:
    from trials.inference.engines.torch_model import TorchModel

INT4_GROUP_SIZE = 32  # weights that share a scale
INT4_ROWS = 16  # the packed kernels take multiples of this many output features
FP8_CAPABILITY = (8, 9)


def quantise(model: TorchModel, phase: Phase) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Quantise the module's linear layers in place; the names of those that are, and of those kept."""
    precision, settings = model.settings.precision, model.settings
    layers = {name: layer for name, layer in model.module.named_modules() if isinstance(layer, nn.Linear)}
    chosen = [n for n, layer in layers.items() if not settings.keeps(n) and _fits(precision, layer)]
    if not chosen:
        raise Unsupported(
            f"precision={precision} finds no layer to quantise: {len(layers)} linear layers, all of them kept in "
            "high precision or of sizes that it cannot take"
        )
    observers: Mapping[str, AffineQuantizedMinMaxObserver] = {}
    if precision == "int8_static":
        with phase("calibration_s"):
            observers = _observe(model, {name: layers[name] for name in chosen})
    with phase("quantize_s"):
        for name in chosen:
            config = _config(precision, model.device, observers.get(name))
            quantize_(model.module, config, filter_fn=_only(layers[name]))
    quantised = tuple(name for name in layers if type(layers[name].weight.data) is not torch.Tensor)
    return quantised, tuple(name for name in layers if name not in quantised)


def _fits(precision: str, layer: nn.Linear) -> bool:
    if precision != "int4_weight_only":
        return True
    return layer.in_features % INT4_GROUP_SIZE == 0 and layer.out_features % INT4_ROWS == 0


def _only(layer: nn.Module) -> Callable[[nn.Module, str], bool]:
    return lambda module, _name: module is layer


def _config(precision: str, device: torch.device, observer: AffineQuantizedMinMaxObserver | None) -> Any:
    """torchao's recipe; the settings of its compiler stay as they are, since they slow compiling down a lot."""
    short: dict[str, Any] = {"set_inductor_config": False}
    reduced = should_reduce_range(device)
    if precision == "int8_dynamic":
        return Int8DynamicActivationInt8WeightConfig(reduce_range=reduced, **short)
    if precision == "int8_weight_only":
        return Int8WeightOnlyConfig(**short)
    if precision == "int8_static" and observer is not None:
        scale, _ = observer.calculate_qparams()
        return Int8StaticActivationInt8WeightConfig(
            act_quant_scale=scale, granularity=[PerTensor(), PerRow()], reduce_range=reduced, **short
        )
    if precision == "int4_weight_only":
        return _int4(device)
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < FP8_CAPABILITY:
        raise Unsupported(
            f"precision=fp8 needs an NVIDIA GPU from Ada or Hopper on, the engine runs on {device}"
        )
    return Float8DynamicActivationFloat8WeightConfig(granularity=PerRow(), **short)


def _int4(device: torch.device) -> Any:
    if device.type == "cuda":
        from torchao.quantization.quantize_.workflows import Int4PackingFormat

        return Int4WeightOnlyConfig(
            group_size=INT4_GROUP_SIZE,
            int4_packing_format=Int4PackingFormat.TILE_PACKED_TO_4D,
            set_inductor_config=False,
        )
    from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig

    return PrototypeInt4WeightOnlyConfig(group_size=INT4_GROUP_SIZE, set_inductor_config=False)


def _observe(model: TorchModel, layers: Mapping[str, nn.Linear]) -> dict[str, AffineQuantizedMinMaxObserver]:
    """The range of every layer's input over the calibration samples."""
    observers = {name: _observer(should_reduce_range(model.device)) for name in layers}
    hooks = [layer.register_forward_pre_hook(_feeding(observers[name])) for name, layer in layers.items()]
    try:
        with torch.no_grad():
            for batch in calibration_batches(model.source, model.settings.calibration_samples):
                model.module(**model.tensors(batch))
    finally:
        for hook in hooks:
            hook.remove()
    unused = [name for name, observer in observers.items() if not hasattr(observer, "min_val")]
    if unused:
        raise Unsupported(
            f"calibration never reached {', '.join(unused)}; keep such layers with keep_high_precision"
        )
    return observers


def _observer(is_reduced: bool) -> AffineQuantizedMinMaxObserver:
    low, high = (-64, 63) if is_reduced else (-128, 127)
    return AffineQuantizedMinMaxObserver(
        MappingType.SYMMETRIC,
        torch.int8,
        granularity=PerTensor(),
        quant_min=low,
        quant_max=high,
        eps=torch.finfo(torch.float32).eps,
        scale_dtype=torch.float32,
        zero_point_dtype=torch.int8,
        keepdim=True,
    )


def _feeding(observer: AffineQuantizedMinMaxObserver) -> Callable[[nn.Module, tuple[Any, ...]], None]:
    def feed(_layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        observer(inputs[0].contiguous())

    return feed
