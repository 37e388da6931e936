"""The filter as ONNX nodes: the recipe, executed step by step.

Standard operators of opset 9 and later are used, and of those only what ONNX Runtime runs
in double precision. That leaves out Equal, Clip and CumSum, which are younger or miss a
type at some opset, and Sigmoid, which loses all digits of a small result. ONNX Runtime
drops a Mul or Div by a single constant that is 1 in float32: it gets matrices and vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from unlabel._method.chain import Recipe
from unlabel._method.merge import Merge
from unlabel._method.split import LARGEST_LEAD, NOTHING
from unlabel._typing import Float64s, InputKind
from unlabel.filter import OutputFilter

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
        """Add a node of one result, and give the result's name."""
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


def add_filter(nodes: Nodes, fitted: OutputFilter, confidences: str) -> str:
    """Add the nodes that turn confidences into probabilities of the result's labels."""
    recipe, weights = _by_destination(fitted.recipe)
    masses = _masses(nodes, recipe, confidences, fitted.input)
    if (weights != 1).any():
        retired = np.ones(len(recipe.pulls))
        masses = nodes.add("Mul", masses, np.concatenate([retired, weights]))
    result = _redistribute(nodes, recipe, masses, weights / weights.sum())
    if recipe.merge is not None:
        result = _add_up(nodes, recipe.merge, result)
    if fitted.temperature == 1:
        return result
    # What counts as nothing stays nothing at any temperature.
    counts = nodes.add("Greater", result, NOTHING)
    logs = nodes.add("Log", nodes.add("Where", counts, result, 0.0))
    temperatures = np.full(len(fitted.classes), fitted.temperature)
    return nodes.add("Softmax", nodes.add("Div", logs, temperatures), axis=1)


def _by_destination(recipe: Recipe) -> tuple[Recipe, Float64s]:
    """Put the retained labels in the order of their destinations, split ones once per part.

    The second result is the part of its label that each of them is. A step only takes sums over
    the labels that it leaves, multiplies them all by one number and adds its share. So it makes
    no difference that they are split before it, and columns to add up then lie side by side
    without another Gather, which takes as long as all the rest of a mask.
    """
    merge, k = recipe.merge, len(recipe.removed)
    if merge is None:
        return recipe, np.ones(len(recipe.retained))
    at = np.concatenate([np.arange(k), k + merge.sources])
    shares = recipe.shares[:, at]
    shares[:, k:] *= merge.weights
    changed = {"order": recipe.order[at], "pulls": recipe.pulls[:, at], "shares": shares}
    return replace(recipe, **changed, retained=recipe.retained[merge.sources]), merge.weights


def _masses(nodes: Nodes, recipe: Recipe, confidences: str, input: InputKind) -> str:
    """Give rows as positive masses in the recipe's order, as `unlabel._method.split` does."""
    steps, retained = len(recipe.pulls), len(recipe.retained)
    # A recipe without steps needs only the retained labels.
    order = recipe.order[len(recipe.order) - retained - steps :]
    ordered = nodes.add("Gather", confidences, order.astype(np.int64), axis=1)
    rows = nodes.add("Cast", ordered, to=TensorProto.DOUBLE)
    if input == "probabilities":
        return rows
    gone, kept = nodes.split(rows, [steps, retained]) if steps else ("", rows)
    # Finite even if all retained logits are -inf: a difference of infinities is not a number.
    low = nodes.add("Max", nodes.over_columns("ReduceMax", kept), np.finfo(np.float64).min)
    kept = nodes.add("Sub", kept, low)
    if not steps:
        return nodes.add("Exp", kept)
    top = nodes.add("Max", nodes.over_columns("ReduceMax", gone), low)
    below = nodes.add("Max", nodes.add("Sub", low, top), -LARGEST_LEAD)
    parts = nodes.add("Sub", gone, top), nodes.add("Add", kept, below)
    return nodes.add("Exp", nodes.add("Concat", *parts, axis=1))


def _redistribute(nodes: Nodes, recipe: Recipe, rows: str, uniform: Float64s) -> str:
    """Give the vectors over the retained labels, as `unlabel._method.chain` does."""
    if not len(recipe.pulls):
        total = nodes.over_columns("ReduceSum", rows)
        counts, divided = nodes.add("Greater", total, NOTHING), nodes.add("Div", rows, total)
        return nodes.add("Where", counts, divided, uniform)
    for step in range(len(recipe.pulls)):
        diagonal, complement, _, weight = recipe.numbers[:, step, None, None]
        pull, share = recipe.pulls[step, step + 1 :, None], recipe.shares[None, step, step + 1 :]
        label, others = nodes.split(rows, [1, len(pull)])
        rest = nodes.over_columns("ReduceSum", others)
        along = nodes.add("MatMul", others, pull)
        # `mixing`, with rho and 1 - rho times the row's mass. The latter is added up.
        residual = nodes.add("Gemm", label, diagonal, along, beta=-1.0)
        remainder = nodes.add("Gemm", label, complement, nodes.add("Add", rest, along))
        shared = nodes.add("MatMul", nodes.add("Max", residual, 0.0), weight)
        total = nodes.add("Add", remainder, shared)
        own = nodes.add("Div", nodes.add("Div", remainder, total), rest)
        given = nodes.add("Div", shared, total)
        # Where nothing is left, the share takes all.
        counts = nodes.add("Greater", rest, NOTHING)
        own, given = nodes.add("Where", counts, own, 0.0), nodes.add("Where", counts, given, 1.0)
        rows = nodes.add("Gemm", given, share, nodes.add("Mul", others, own))
    return rows


def _add_up(nodes: Nodes, merge: Merge, rows: str) -> str:
    """Add up columns that lie side by side, as `unlabel._method.merge` does."""
    sizes = np.diff(merge.starts, append=len(merge.sources))
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
