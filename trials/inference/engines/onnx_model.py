"""A model as an ONNX graph whose layers have the names of the PyTorch modules they come from."""

from __future__ import annotations

import ast
import logging
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from trials.inference.engine import ModelSource, Unsupported, axis_sizes
from trials.inference.engines import first_line

LAYER_TYPES = ("MatMul", "Gemm", "Conv", "ConvTranspose")
_SCOPES = "pkg.torch.onnx.name_scopes"
_WEIGHT = ".weight"


@dataclass(frozen=True)
class OnnxGraph:
    """The graph, and the axis that each of its variable dimensions stands for: ``{"s31": "batch"}``."""

    model: ModelProto
    dimensions: dict[str, str]

    @property
    def layers(self) -> dict[str, NodeProto]:
        """The nodes with a constant weight of two or more axes, by layer name."""
        weights = {tensor.name for tensor in self.model.graph.initializer if len(tensor.dims) > 1}
        return {
            node.name: node
            for node in self.model.graph.node
            if node.op_type in LAYER_TYPES and len(node.input) > 1 and node.input[1] in weights
        }


def load_graph(source: ModelSource) -> OnnxGraph:
    """The source's ONNX file, or its module exported; every layer and its weight named after the module.

    Raises Unsupported where the module cannot be exported, or the file fixes an axis that must vary.
    """
    model = onnx.load(source.onnx) if source.onnx else _exported(source)
    _name_layers(model.graph)
    return OnnxGraph(model, _dimensions(model.graph, source))


def save_graph(graph: OnnxGraph, path: Path) -> None:
    """Write the graph; more than 2 GB of weights go into a file beside it, as the format demands."""
    is_large = graph.model.ByteSize() >= onnx.checker.MAXIMUM_PROTOBUF
    onnx.save(graph.model, path, save_as_external_data=is_large, location=f"{path.name}.data")


def split_gemms(graph: OnnxGraph) -> None:
    """Replace Gemm by MatMul and Add, which the quantisers know; layer names stay."""
    from onnxruntime.quantization.onnx_model import ONNXModel

    names = [name for name, node in graph.layers.items() if node.op_type == "Gemm"]
    ONNXModel(graph.model).replace_gemm_with_matmul()
    for node in graph.model.graph.node:
        if node.op_type == "MatMul" and node.name.removesuffix("_MatMul") in names:
            node.name = node.name.removesuffix("_MatMul")
    _name_weights(graph.model.graph)
    ONNXModel(graph.model).clean_initializers()


def layer_of(weight: str) -> str:
    """The layer that a weight's name belongs to, quantised or not: ``block.up.weight_quantized``."""
    return weight.rpartition(_WEIGHT)[0]


def _exported(source: ModelSource) -> ModelProto:
    import torch

    from trials.inference.engines.torch_model import dynamic_shapes

    inputs = {name: torch.from_numpy(array) for name, array in source.example.items()}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    module = source.module()  # with gradients: a factory may train it
    try:
        with torch.no_grad():
            program: Any = torch.onnx.export(
                module,
                (),
                kwargs=inputs,
                dynamo=True,
                dynamic_shapes=dynamic_shapes(source),
                input_names=list(inputs),
                output_names=list(source.outputs),
                verbose=False,
            )
    except Exception as error:
        traceback.print_exc()
        raise Unsupported(f"the ONNX exporter refuses the model: {first_line(error)}") from error
    model: ModelProto = program.model_proto
    return model


def _name_layers(graph: GraphProto) -> None:
    taken: set[str] = set()
    weights = {tensor.name for tensor in graph.initializer}
    for number, node in enumerate(graph.node):
        own = node.name or f"{node.op_type}_{number}"
        has_weight = len(node.input) > 1 and node.input[1] in weights
        name = (_module_path(node) or own) if node.op_type in LAYER_TYPES and has_weight else own
        while name in taken:  # a module called twice
            name += "_again"
        taken.add(name)
        node.name = name
    _name_weights(graph)


def _name_weights(graph: GraphProto) -> None:
    """Name a layer's weight after it; a weight that several nodes read keeps the name of the first."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    renamed: dict[str, str] = {}
    for node in graph.node:
        if node.op_type in LAYER_TYPES and len(node.input) > 1 and node.input[1] in weights:
            renamed.setdefault(node.input[1], f"{node.name}{_WEIGHT}")
    for old, new in list(renamed.items()):
        if new in weights and new != old:
            del renamed[old]
    for node in graph.node:
        for position, name in enumerate(node.input):
            node.input[position] = renamed.get(name, name)
    for old, new in renamed.items():
        weights[old].name = new


def _module_path(node: NodeProto) -> str | None:
    """The module that PyTorch's exporter wrote the node for: the last but one of ``['', 'block', 'block.up', ...]``."""
    scopes = next((entry.value for entry in node.metadata_props if entry.key == _SCOPES), None)
    if scopes is None:
        return None
    path: list[str] = ast.literal_eval(scopes)
    return path[-2] if len(path) > 1 and path[-2] else None


def _dimensions(graph: GraphProto, source: ModelSource) -> dict[str, str]:
    found = dict(_named_dimensions(graph, source))
    missing = set(axis_sizes(source, source.example)) - set(found.values())
    if missing:
        raise Unsupported(f"the graph has no variable dimension for {', '.join(sorted(missing))}")
    return found


def _named_dimensions(graph: GraphProto, source: ModelSource) -> Iterator[tuple[str, str]]:
    inputs = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    unknown = set(source.example) - set(inputs)
    if unknown:
        raise Unsupported(f"the graph has no input {', '.join(sorted(unknown))}; it has {', '.join(inputs)}")
    for name, axes in source.axes.items():
        for position, axis in axes.items():
            dimension = inputs[name][position]
            if dimension.dim_value:
                raise Unsupported(
                    f"input {name} is {dimension.dim_value} long in axis {position}, which must vary ({axis})"
                )
            yield dimension.dim_param, axis
