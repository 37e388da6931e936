"""Changes of an ONNX graph."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from onnx import GraphProto, NodeProto, helper

from unlabel.onnx.graph import bodies, used_names


def with_labels(zipmap: NodeProto, confidences: str, labels: npt.NDArray[Any]) -> NodeProto:
    """Copy a ZipMap, with other confidences and labels."""
    changed = copy.deepcopy(zipmap)
    changed.input[0] = confidences
    del changed.attribute[:]
    name = "classlabels_strings" if labels.dtype == object else "classlabels_int64s"
    changed.attribute.append(helper.make_attribute(name, labels.tolist()))
    return changed


def declare_width(graph: GraphProto, output: str, width: int, *, before: str) -> None:
    """Declare an output's new number of columns; the tensor `before` keeps the old one."""
    info = next(info for info in graph.output if info.name == output)
    if before not in {known.name for known in graph.value_info}:
        graph.value_info.append(info)
        graph.value_info[-1].name = before
    info.type.tensor_type.shape.dim[1].dim_value = width


def rename(graph: GraphProto, old: str, new: str) -> None:
    """Rename a tensor everywhere, in the bodies of loops and branches too."""
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                if name == old:
                    names[i] = new
        for body in bodies(node):
            rename(body, old, new)
    for info in graph.value_info:
        if info.name == old:
            info.name = new
    for annotation in graph.quantization_annotation:
        if annotation.tensor_name == old:
            annotation.tensor_name = new


def drop_unused(graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
    """Drop nodes, last one first, up to one that is still needed."""
    for node in nodes:
        if used_names(graph) & set(node.output):
            return
        graph.node.remove(node)
        unused = set(node.input) - used_names(graph) - {info.name for info in graph.input}
        for tensor in [tensor for tensor in graph.initializer if tensor.name in unused]:
            graph.initializer.remove(tensor)
