"""The filter as ONNX nodes: the recipe, executed step by step.

Standard operators of opset 9 and later are used, and of those only what ONNX Runtime runs
in double precision. That leaves out Equal, Clip and CumSum, which are younger or miss a
type at some opset, and Sigmoid, which loses all digits of a small result. ONNX Runtime
drops a Mul or Div by a single constant that is 1 in float32: it gets matrices and vectors.
Comparisons ask for what is nothing, so that NaN stays NaN: rows are not checked in a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from unlabel._method.masses import LARGEST_LEAD, NOTHING
from unlabel._typing import Columns, Float64s, Kind
from unlabel.filter import OutputFilter, recipe_of

Operand = str | float | npt.NDArray[Any]  # a tensor's name, or a constant
# Results that are added up by one matrix: with more of them it is mostly zeros, with fewer there
# are more nodes to run.
BLOCK = 16


class Nodes:
    """Nodes that are added one by one, with names that start with `prefix`."""

    def __init__(self, prefix: str, opset: int) -> None:
        self.prefix, self.opset = prefix, opset
        self.all: list[NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, op: str, *operands: Operand, result: str = "", **attributes: Any) -> str:
        """Add a node of one result, and return the result's name."""
        return self._add(op, operands, [result or self._name(op)], attributes)[0]

    def split(self, tensor: str, sizes: Sequence[int]) -> list[str]:
        """Cut the columns of a tensor."""
        results = [self._name(f"Split_{part}") for part in range(len(sizes))]
        if self.opset < 13:
            return self._add("Split", [tensor], results, {"axis": 1, "split": list(sizes)})
        return self._add("Split", [tensor, np.array(sizes)], results, {"axis": 1})

    def over_columns(self, op: str, tensor: str) -> str:
        """Reduce each row to one number."""
        if self.opset < {"ReduceSum": 13, "ReduceMax": 18}[op]:
            return self.add(op, tensor, axes=[1], keepdims=1)
        return self.add(op, tensor, np.array([1]), keepdims=1)

    def _add(
        self, op: str, operands: Sequence[Operand], results: list[str], attributes: dict[str, Any]
    ) -> list[str]:
        names = [each if isinstance(each, str) else self._constant(each) for each in operands]
        self.all.append(helper.make_node(op, names, results, name=self._name(op), **attributes))
        return results

    def _constant(self, value: float | npt.NDArray[Any]) -> str:
        # A node, since initializers that are no inputs are unknown to old models.
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes())
        if array.dtype == object:  # texts, of which the bytes say nothing
            key = ("text", array.shape, repr(array.tolist()).encode())
        if key not in self._constants:
            name = self._constants[key] = self._name("Constant")
            tensor = numpy_helper.from_array(array, name)
            self.all.append(helper.make_node("Constant", [], [name], name=name, value=tensor))
        return self._constants[key]

    def _name(self, op: str) -> str:
        return f"{self.prefix}{op}_{len(self.all)}"


class Arrays(NamedTuple):
    """A filter's recipe, with the retained labels in the order of their destinations.

    Labels that are split stand there once per part. A step only takes sums over the labels that it
    leaves, multiplies them all by one number and adds its share. So it makes no difference that
    they are split before it, and columns to add up then lie side by side without another Gather,
    which takes as long as all the rest of a mask.
    """

    order: Columns  # the model's columns, those of labels that steps remove first
    residual_weights: Float64s  # (k, n)
    shares: Float64s  # (k, n)
    diagonal: Float64s  # (k,)
    complement: Float64s  # (k,)
    share_sums: Float64s  # (k,)
    parts: Float64s  # the part of its label that each retained column is
    sizes: Columns | None  # the numbers of columns to add up, if any
    temperature: float


def arrays_of(fitted: OutputFilter) -> Arrays:
    """Return the arrays of a filter."""
    recipe = recipe_of(fitted)
    merge, steps, removed = recipe.merge, len(recipe.diagonal), len(recipe.removed)
    # A filter without steps needs only the retained labels.
    at, parts, sizes = np.arange(removed - steps, len(recipe.order)), np.ones(1), None
    if merge is not None:
        at = np.concatenate([at[:steps], removed + merge.sources])
        parts, sizes = merge.weights, np.diff(merge.starts, append=len(merge.sources))
    shares = recipe.shares[:, at]
    shares[:, steps:] *= parts
    return Arrays(
        recipe.order[at].astype(np.int64),
        recipe.residual_weights[:, at],
        shares,
        recipe.diagonal,
        recipe.complement,
        recipe.share_sums,
        np.broadcast_to(parts, len(at) - steps),
        sizes,
        recipe.temperature,
    )


def add_filter(nodes: Nodes, fitted: OutputFilter, confidences: str) -> str:
    """Add the nodes that turn confidences into probabilities of the result's labels."""
    arrays = arrays_of(fitted)
    ordered = nodes.add("Gather", confidences, arrays.order, axis=1)
    rows, kind = nodes.add("Cast", ordered, to=TensorProto.DOUBLE), fitted.kind
    if arrays.temperature != 1:
        rows, kind = _calibrated(nodes, rows, kind, arrays), "logits"
    masses = _masses(nodes, rows, arrays) if kind == "logits" else rows
    if (arrays.parts != 1).any():
        removed = np.ones(len(arrays.diagonal))
        masses = nodes.add("Mul", masses, np.concatenate([removed, arrays.parts]))
    result = _redistribute(nodes, arrays, masses)
    return result if arrays.sizes is None else _add_up(nodes, arrays.sizes, result)


def _calibrated(nodes: Nodes, rows: str, kind: Kind, arrays: Arrays) -> str:
    """Return logits at the filter's temperature."""
    if kind == "probabilities":
        # What counts as nothing stays nothing at any temperature.
        nothing = nodes.add("Greater", NOTHING, rows)
        rows = nodes.add("Log", nodes.add("Where", nothing, 0.0, rows))
    return nodes.add("Div", rows, np.full(len(arrays.order), arrays.temperature))


def _masses(nodes: Nodes, logits: str, arrays: Arrays) -> str:
    """Return positive masses, those of the retained labels on a scale of their own."""
    steps, retained = len(arrays.diagonal), len(arrays.parts)
    gone, kept = nodes.split(logits, [steps, retained]) if steps else ("", logits)
    # Finite even if all retained logits are -inf: a difference of infinities is not a number.
    low = nodes.add("Max", nodes.over_columns("ReduceMax", kept), np.finfo(np.float64).min)
    kept = nodes.add("Sub", kept, low)
    if not steps:
        return nodes.add("Exp", kept)
    top = nodes.add("Max", nodes.over_columns("ReduceMax", gone), low)
    below = nodes.add("Max", nodes.add("Sub", low, top), -LARGEST_LEAD)
    parts = nodes.add("Sub", gone, top), nodes.add("Add", kept, below)
    return nodes.add("Exp", nodes.add("Concat", *parts, axis=1))


def _redistribute(nodes: Nodes, arrays: Arrays, rows: str) -> str:
    """Return the vectors over the retained labels, as the core does."""
    steps = len(arrays.diagonal)
    if not steps:
        total = nodes.over_columns("ReduceSum", rows)
        nothing, divided = nodes.add("Greater", NOTHING, total), nodes.add("Div", rows, total)
        return nodes.add("Where", nothing, arrays.parts / arrays.parts.sum(), divided)
    for step in range(steps):
        diagonal, complement, share_sum = (
            each[step, None, None]
            for each in (arrays.diagonal, arrays.complement, arrays.share_sums)
        )
        weights = arrays.residual_weights[step, step + 1 :, None]
        share = arrays.shares[None, step, step + 1 :]
        label, others = nodes.split(rows, [1, len(weights)])
        rest = nodes.over_columns("ReduceSum", others)
        along = nodes.add("MatMul", others, weights)
        # rho and 1 - rho, times the row's mass. The latter is added up.
        residual = nodes.add("Gemm", label, diagonal, along, beta=-1.0)
        remainder = nodes.add("Gemm", label, complement, nodes.add("Add", rest, along))
        shared = nodes.add("MatMul", nodes.add("Max", residual, 0.0), share_sum)
        total = nodes.add("Add", remainder, shared)
        own = nodes.add("Div", nodes.add("Div", remainder, total), rest)
        given = nodes.add("Div", shared, total)
        # Where nothing is left, the share takes all.
        nothing = nodes.add("Greater", NOTHING, rest)
        own = nodes.add("Where", nothing, 0.0, own)
        given = nodes.add("Where", nothing, 1.0, given)
        rows = nodes.add("Gemm", given, share, nodes.add("Mul", others, own))
    return rows


def _add_up(nodes: Nodes, sizes: Columns, rows: str) -> str:
    """Add up columns that lie side by side."""
    blocks = [sizes[start : start + BLOCK] for start in range(0, len(sizes), BLOCK)]
    pieces: list[npt.NDArray[Any]] = []
    for is_merged, several in groupby(blocks, _is_merged):
        same = [*several]
        pieces += same if is_merged else [np.concatenate(same)]
    widths = [int(piece.sum()) for piece in pieces]
    parts = nodes.split(rows, widths) if len(widths) > 1 else [rows]
    for i, piece in enumerate(pieces):
        if _is_merged(piece):
            parts[i] = nodes.add("MatMul", parts[i], np.eye(len(piece)).repeat(piece, axis=0))
    return nodes.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _is_merged(sizes: npt.NDArray[Any]) -> bool:
    return bool((sizes > 1).any())
