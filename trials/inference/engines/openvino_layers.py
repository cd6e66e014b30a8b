"""The layers of an OpenVINO model by module name, and what a compiled model really computes in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

_WEIGHT_INPUT = {"MatMul": 1, "Convolution": 1, "GroupConvolution": 1, "Gather": 0}
_ON_THE_WAY = {"Convert", "Multiply", "Subtract", "Reshape", "Transpose", "FakeQuantize"}
_MODULE = re.compile(r"__module\.(?P<path>.+?)/")
_PRODUCTS = {"FullyConnected", "MatMul", "Convolution", "Deconvolution", "GroupConvolution"}
_FORMATS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i8": "int8", "u8": "int8"}
_NARROW = {"i8", "u8", "i4", "u4", "nf4"}


def layers_of(model: Any) -> dict[str, str]:
    """The layers with a constant weight: name of the operation in the model -> layer name.

    The addition of a bias, which the plugin merges with the product, leads to the same layer.
    """
    found = {}
    for operation in model.get_ops():
        place = _WEIGHT_INPUT.get(operation.get_type_name())
        if place is None or not _is_weight(operation.input_value(place).get_node()):
            continue
        name = operation.get_friendly_name()
        layer = layer_name(name)
        found[name] = layer
        consumers = list(operation.output(0).get_target_inputs())
        if len(consumers) == 1 and consumers[0].get_node().get_type_name() == "Add":
            found[consumers[0].get_node().get_friendly_name()] = layer
    return found


def quantisable(layers: Mapping[str, str], precision: str) -> tuple[str, ...]:
    """The layers that a precision can quantise; only weight-only ones do so with tables of embeddings."""
    is_table = "/aten::embedding/", "Gather"
    names = [
        layer
        for operation, layer in layers.items()
        if precision != "int8_static" or not any(mark in operation for mark in is_table)
    ]
    return tuple(dict.fromkeys(names))


def layer_name(operation: str) -> str:
    """``block.up`` for ``__module.block.up/aten::linear/MatMul``; a node of an ONNX file keeps its name."""
    match = _MODULE.match(operation)
    return match["path"] if match else operation.removesuffix("/WithoutBiases")


def products_of(compiled: Any, layers: Mapping[str, str]) -> tuple[dict[str, int], set[str]]:
    """Products of the compiled model by number format, and the layers whose weights it holds in fewer bits."""
    products: Counter[str] = Counter()
    quantised: set[str] = set()
    for node in compiled.get_runtime_model().get_ops():
        info = node.get_rt_info()
        kind = _said(info, "layerType")
        names = [layers[name] for name in _said(info, "originalLayersNames").split(",") if name in layers]
        if kind in _PRODUCTS:
            suffix = _said(info, "primitiveType").rpartition("_")[2].lower()
            products[_FORMATS.get(suffix, suffix)] += 1
        if kind in {*_PRODUCTS, "Gather"} and _said(info, "runtimePrecision") in _NARROW:
            quantised.update(names)
    return dict(products), quantised


def _said(info: Any, key: str) -> str:
    return str(info[key].astype(str)) if key in info else ""


def _is_weight(node: Any) -> bool:
    while node.get_type_name() in _ON_THE_WAY:
        node = node.input_value(0).get_node()
    return bool(node.get_type_name() == "Constant" and len(node.get_output_shape(0)) > 1)
