"""Telling logits from probabilities by a model's last operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import NodeProto

from unlabel._typing import InputKind
from unlabel.errors import UnlabelError
from unlabel.onnx.graph import CLASSIFIERS, MIXING, PASSING, GraphReader, Head, attribute, bodies

# Operators that leave logits logits and probabilities probabilities.
POOLING = {"AveragePool", "GlobalAveragePool", "ReduceMean"}
QUANTIZING = {"DequantizeLinear", "QuantizeLinear"}
KEEPING = PASSING | POOLING | QUANTIZING | {"Clip", "Dropout", "Relu", "Transpose"}
DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}
GIVING = {"LogSoftmax": "logits", "Sigmoid": "not exclusive", "Softmax": "probabilities"}
CONSTANT = "a constant"
NEITHER = {
    "not exclusive": "comes from a Sigmoid: only labels that exclude each other can be changed.",
    "other axis": "comes from a Softmax that does not go over the labels: correct its axis.",
    "shifted": "holds probabilities plus or times a constant: give the probabilities themselves.",
}


def input_kind(reader: GraphReader, head: Head, n_labels: int, opset: int) -> InputKind | None:
    """Tell logits from probabilities, or give None if the last operators leave it open."""
    # An optional input that is left out has the name "".
    kinds: dict[str, str | None] = dict.fromkeys([*reader.initializers, ""], CONSTANT)
    for node in reader.graph.node:  # in the order of computation, as ONNX demands
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
    """Give the kind of a node's results, from the kinds of its inputs."""
    if node.domain not in DOMAINS or any(True for _ in bodies(node)):
        return None
    if all(kind == CONSTANT for kind in given):
        return CONSTANT
    match node.op_type:
        case op if op in GIVING:
            return GIVING[op]
        case "Log":
            return given[0] if given[0] in {"not exclusive", "other axis"} else "logits"
        case "Normalizer":
            return "probabilities" if attribute(node, "norm").s == b"L1" else None
        case "Einsum" | "MatMul" if {"probabilities", "other axis"} & {*given}:
            return None  # a mean of several models' probabilities, or sums over labels
        case "Add" | "Div" | "Mul" | "Sub":
            return _arithmetic_kind(node.op_type, given[0], given[1])
        case op if op in KEEPING:
            return given[0]
        case op if op in MIXING:
            return "logits"
        case op if op in CLASSIFIERS:
            after = attribute(node, "post_transform").s
            if op == "LinearClassifier" and after in (b"", b"NONE"):
                return "logits"
            return "probabilities" if after == b"SOFTMAX" else None
    return None


def _arithmetic_kind(op: str, first: str | None, second: str | None) -> str | None:
    """Give the kind of a sum, a difference, a product or a quotient."""
    if CONSTANT not in (first, second):
        # A quotient of two tensors may be a normalisation.
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
    axis: int = attribute(node, "axis", i=-1 if opset >= 13 else 1).i
    if not dims:
        return axis != 0
    axis %= len(dims)
    over = dims[axis : axis + 1] if opset >= 13 else dims[axis:]  # flattened, in old models
    size = None if None in over else math.prod(dim or 0 for dim in over)
    if axis == 0:  # the batch, unless the scores were transposed
        return size == n_labels and n_labels not in dims[1:]
    return size in (n_labels, None)
