"""What the PyTorch engines share: the module cast and quantised as asked, its calls, and what ran inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import register_flop_formula

from trials.inference.engine import Batch, EngineSettings, EngineStartError, ModelSource, Phase
from trials.training.proof import MatmulWatch

_DTYPES = {"fp32": torch.float32, "bf16_params": torch.bfloat16, "fp16": torch.float16}
_HIGH = {"fp32": torch.float32, "bf16": torch.bfloat16}


class TorchModel:
    """The module on its device, in the precision asked for."""

    def __init__(self, source: ModelSource, settings: EngineSettings, phase: Phase) -> None:
        self.source, self.settings = source, settings
        self.device = torch.device(settings.provider or "cpu")
        self.dtype = parameter_dtype(settings)
        torch.set_float32_matmul_precision(
            "highest"
        )  # otherwise a CPU may compute float32 products in bfloat16
        if settings.threads:
            torch.set_num_threads(settings.threads)
        with phase("load_s"):
            self.module = source.module().to(self.device, self.dtype)
        self.quantised: tuple[str, ...] = ()
        self.kept: tuple[str, ...] = ()
        if settings.is_quantised:
            from trials.inference.engines.torch_quantise import quantise

            self.quantised, self.kept = quantise(self, phase)
        if settings.precision == "bf16":
            cast_forward(self.module, self.device, torch.bfloat16)

    def tensors(self, batch: Batch) -> dict[str, Tensor]:
        """A batch on the device; floating-point inputs in the parameters' format."""
        tensors = {name: torch.from_numpy(np.asarray(array)).to(self.device) for name, array in batch.items()}
        return {
            name: tensor.to(self.dtype) if tensor.is_floating_point() else tensor
            for name, tensor in tensors.items()
        }

    def arrays(self, outputs: Any) -> dict[str, np.ndarray]:
        """What ``forward`` returned, on the host by output name; floats as float32."""
        found = as_tensors(outputs, self.source.outputs)
        return {
            name: (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()
            for name, tensor in found.items()
        }

    def products(self, call: Any, batch: Batch) -> Counter[str]:
        """Matrix products of one call by number format, counted operation by operation."""
        watch = MatmulWatch()
        with torch.no_grad(), watch:
            call(**self.tensors(batch))
        return watch.products


def parameter_dtype(settings: EngineSettings) -> torch.dtype:
    """The format of the parameters that are not quantised."""
    if settings.is_quantised:
        return _HIGH[settings.high_precision]
    return _DTYPES.get(settings.precision, torch.float32)


def cast_forward(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Run the module's ``forward`` under autocast; the signature stays, so that it can be exported."""
    forward = module.forward
    module.forward = torch.autocast(device.type, dtype)(forward)


def as_tensors(outputs: Any, names: tuple[str, ...]) -> dict[str, Tensor]:
    """A tensor, a sequence or a mapping of tensors as tensors by output name."""
    if isinstance(outputs, Tensor):
        outputs = (outputs,)
    if isinstance(outputs, Mapping):
        missing = [name for name in names if name not in outputs]
        if missing:
            raise EngineStartError(f"forward returned {', '.join(outputs)}, and no {', '.join(missing)}")
        return {name: outputs[name] for name in names}
    if not isinstance(outputs, tuple | list) or len(outputs) < len(names):
        raise EngineStartError(f"forward returned {type(outputs).__name__}, outputs names {', '.join(names)}")
    return dict(zip(names, outputs, strict=False))


def dynamic_shapes(source: ModelSource) -> dict[str, dict[int, Any]]:
    """The named axes as dimensions that vary, for ``torch.export``."""
    dynamic = torch.export.Dim.DYNAMIC
    return {name: dict.fromkeys(source.axes.get(name, {}), dynamic) for name in source.example}


def count_integer_products() -> None:
    """Let PyTorch's FLOP counter know the products of quantised layers, once in a process."""
    global _is_counting  # noqa: PLW0603 - PyTorch's registry is global, and takes an operation once
    if _is_counting:
        return
    _is_counting = True
    aten = torch.ops.aten
    for packet in (aten._int_mm, aten._weight_int4pack_mm_for_cpu, aten._weight_int4pack_mm):
        register_flop_formula(packet, get_raw=True)(_no_flops)
    for name in ("_linear_pointwise", "_convolution_pointwise"):
        if hasattr(torch.ops.mkldnn, name):
            register_flop_formula(getattr(torch.ops.mkldnn, name), get_raw=True)(_no_flops)
    for name in ("qlinear_pointwise", "qconv_pointwise"):
        if hasattr(torch.ops.onednn, name):
            register_flop_formula(getattr(torch.ops.onednn, name), get_raw=True)(_no_flops)


def _no_flops(*args: Any, **kwargs: Any) -> int:
    """Only the number of products is of interest."""
    return 0


_is_counting = False
