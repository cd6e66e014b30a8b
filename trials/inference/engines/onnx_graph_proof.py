"""What an optimised ONNX graph really computes in: its matrix products by number format, its quantised layers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import GraphProto, NodeProto, TensorProto

from trials.inference.engines.onnx_model import layer_of

INTEGER_PRODUCTS = frozenset(
    {
        *("MatMulInteger", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QLinearMatMul", "QGemm"),
        *("ConvInteger", "QLinearConv", "QLinearConvTranspose", "QAttention"),
    }
)
WEIGHT_ONLY_PRODUCTS = frozenset({"MatMulNBits"})
FLOAT_PRODUCTS = frozenset(
    {
        *("MatMul", "Gemm", "FusedMatMul", "FusedGemm", "FusedMatMulActivation", "TransposeMatMul"),
        *("Conv", "FusedConv", "ConvTranspose", "Attention", "MultiHeadAttention"),
    }
)
_FLOATS = {TensorProto.FLOAT: "float32", TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}


@dataclass(frozen=True)
class GraphProof:
    """Products by number format, quantised layers, and how often each operation of a product occurs."""

    products: dict[str, int]
    quantised: frozenset[str]
    operations: dict[str, int]


def read_proof(path: Path) -> GraphProof:
    """Read a graph as the engine saved it."""
    graph = onnx.load(path).graph
    formats = _formats(graph)
    products: Counter[str] = Counter()
    operations: Counter[str] = Counter()
    quantised: set[str] = set()
    for node in graph.node:
        is_narrow = node.op_type in INTEGER_PRODUCTS | WEIGHT_ONLY_PRODUCTS
        if not is_narrow and node.op_type not in FLOAT_PRODUCTS:
            continue
        operations[node.op_type] += 1
        products["int8" if node.op_type in INTEGER_PRODUCTS else _format(node, formats)] += 1
        if is_narrow:
            quantised.update(layer for name in node.input if (layer := layer_of(name)))
    return GraphProof(dict(products), frozenset(quantised), dict(operations))


def _format(node: NodeProto, formats: dict[str, str]) -> str:
    """The first float format among the inputs; float32 where the graph does not tell."""
    return next((formats[name] for name in (*node.input, *node.output) if name in formats), "float32")


def _formats(graph: GraphProto) -> dict[str, str]:
    typed = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        typed[value.name] = value.type.tensor_type.elem_type
    return {name: _FLOATS[kind] for name, kind in typed.items() if kind in _FLOATS}
