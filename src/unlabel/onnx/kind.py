"""Whether a model gives logits or probabilities, as far as its last operators tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import NodeProto, helper

from unlabel._typing import InputKind
from unlabel.errors import UnlabelError
from unlabel.onnx.graph import CLASSIFIERS, MIXING, PASSING, GraphReader, Head, bodies

# Operators that leave logits logits and probabilities probabilities.
KEEPING = PASSING | {
    "AveragePool",
    "Clip",
    "DequantizeLinear",
    "Dropout",
    "GlobalAveragePool",
    "QuantizeLinear",
    "ReduceMean",
    "Relu",
    "Transpose",
}
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
CONSTANT = "a constant"
NEITHER = {
    "not exclusive": "comes from a Sigmoid: only labels that exclude each other can be removed.",
    "other axis": (
        "comes from a Softmax that does not go over the labels: correct the axis of the Softmax."
    ),
    "shifted": (
        "holds probabilities that a constant is added to or multiplied with: let the model give "
        "the probabilities themselves."
    ),
}


def input_kind(reader: GraphReader, head: Head, n_labels: int, opset: int) -> InputKind | None:
    """Tell logits from probabilities, where the last operators leave no doubt."""
    # An optional input that is left out has the name "".
    kinds: dict[str, str | None] = dict.fromkeys([*reader.initializers, ""], CONSTANT)
    for node in reader.graph.node:  # which are in the order of their work
        kind = _kind(node, [kinds.get(name) for name in node.input])
        if node.op_type in {"LogSoftmax", "Softmax"} and kind in {"logits", "probabilities"}:
            dims = reader.dims_of(node.output[0])
            kind = kind if _goes_over_labels(node, dims, n_labels, opset) else "other axis"
        kinds.update(dict.fromkeys(filter(None, node.output), kind))
    found = kinds[head.tensor]
    if found in NEITHER:
        raise UnlabelError(f"The output {head.output!r} {NEITHER[found]}")
    if found == "logits":
        return "logits"
    return "probabilities" if found == "probabilities" or head.zipmap else None


def _kind(node: NodeProto, given: Sequence[str | None]) -> str | None:
    """Give what a node's results hold, from what it is given."""
    if node.domain not in DOMAINS or any(True for _ in bodies(node)):
        return None
    if all(kind == CONSTANT for kind in given):
        return CONSTANT
    match node.op_type:
        case "Softmax":
            return "probabilities"
        case "LogSoftmax":
            return "logits"
        case "Sigmoid":
            return "not exclusive"
        case "Log":
            return given[0] if given[0] in {"not exclusive", "other axis"} else "logits"
        case "Normalizer":
            return "probabilities" if _text(node, "norm") == "L1" else None
        case "Einsum" | "MatMul" if {"probabilities", "other axis"} & {*given}:
            return None  # a mean of what other models say, or labels that are added up
        case "Add" | "Div" | "Mul" | "Sub":
            return _of_two(node.op_type, given[0], given[1])
        case op if op in KEEPING:
            return given[0]
        case op if op in MIXING:
            return "logits"
        case op if op in CLASSIFIERS:
            after = {"SOFTMAX": "probabilities"}
            if op == "LinearClassifier":
                after |= {"": "logits", "NONE": "logits"}
            return after.get(_text(node, "post_transform"))
    return None


def _of_two(op: str, first: str | None, second: str | None) -> str | None:
    """Give what a sum, a difference, a product or a quotient holds."""
    if CONSTANT not in (first, second):
        # A quotient of two tensors may be what makes rows add up to 1.
        return "logits" if "logits" in (first, second) and op != "Div" else None
    if first == CONSTANT:
        if op in {"Div", "Sub"}:
            return None
        first = second
    if first == "probabilities":
        return "shifted"
    return "logits" if first is None and op == "Add" else first  # the Add of a bias


def _goes_over_labels(node: NodeProto, dims: list[int | None], n_labels: int, opset: int) -> bool:
    """Whether a Softmax may go over the labels."""
    default = -1 if opset >= 13 else 1
    axis = next((of.i for of in node.attribute if of.name == "axis"), default)
    if not dims:  # nothing is known
        return axis != 0
    axis %= len(dims)
    over = dims[axis : axis + 1] if opset >= 13 else dims[axis:]  # flattened, in old models
    size = None if None in over else math.prod(dim or 0 for dim in over)
    if axis == 0:  # the batch's, unless the scores were turned over
        return size == n_labels and n_labels not in dims[1:]
    return size in (n_labels, None)


def _text(node: NodeProto, name: str) -> str:
    values = (helper.get_attribute_value(of) for of in node.attribute if of.name == name)
    return next(values, b"").decode(errors="replace")
