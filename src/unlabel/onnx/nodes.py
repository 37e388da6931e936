"""The filter as ONNX nodes: the arithmetic of `unlabel._method`, row by row.

Standard operators of opset 9 and later are used, and of those only what ONNX Runtime runs
in double precision. That leaves out Equal, Clip and CumSum, which are younger or miss a
type at some opset, and Sigmoid, which loses all digits of a small result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from unlabel._method.chain import Chain
from unlabel._method.split import LARGEST
from unlabel._typing import Columns, Float64s
from unlabel.filter import OutputFilter

Operand = str | float | npt.NDArray[Any]  # a tensor's name, or a constant


class Nodes:
    """Nodes that are added one by one, with names that start with `prefix`.

    Constants are nodes too: initializers that are no inputs are unknown to old models.
    """

    def __init__(self, prefix: str, opset: int) -> None:
        self.prefix, self.opset = prefix, opset
        self.all: list[NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, op: str, *operands: Operand, result: str = "", **attributes: Any) -> str:
        """Add a node of one result, and give the result's name."""
        return self._add(op, operands, [result or self._name(op)], attributes)[0]

    def split(self, tensor: str, sizes: Sequence[int]) -> list[str]:
        """Cut the columns of a tensor."""
        if len(sizes) == 1:
            return [tensor]
        results = [self._name(f"Split_{part}") for part in range(len(sizes))]
        if self.opset < 13:
            return self._add("Split", [tensor], results, {"axis": 1, "split": list(sizes)})
        return self._add("Split", [tensor, np.array(sizes)], results, {"axis": 1})

    def columns(self, tensor: str, number: int) -> list[str]:
        """Cut a tensor into its columns, each of the shape (rows, 1)."""
        return self.split(tensor, [1] * number)

    def over_columns(self, op: str, tensor: str) -> str:
        """Reduce each row to one number."""
        if self.opset < {"ReduceSum": 13, "ReduceMax": 18}[op]:
            return self.add(op, tensor, axes=[1], keepdims=1)
        return self.add(op, tensor, np.array([1]), keepdims=1)

    def scaled(self, column: str, factors: npt.NDArray[np.float64]) -> str:
        """Give a column times each of some factors.

        It is a product of matrices, as ONNX Runtime drops a Mul by what is 1 in float32.
        """
        return self.add("MatMul", column, factors[None, :])

    def doubles(self, tensor: str, columns: Columns) -> str:
        """Take some columns, as doubles."""
        taken = self.add("Gather", tensor, columns.astype(np.int64), axis=1)
        return self.add("Cast", taken, to=TensorProto.DOUBLE)

    def _add(
        self, op: str, operands: Sequence[Operand], results: list[str], attributes: dict[str, Any]
    ) -> list[str]:
        names = [each if isinstance(each, str) else self._constant(each) for each in operands]
        name = self._name(op)
        self.all.append(helper.make_node(op, names, results, name=name, **attributes))
        return results

    def _constant(self, value: float | npt.NDArray[Any]) -> str:
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


class Parts(NamedTuple):
    """The names of the tensors that `unlabel._method.split.Parts` holds, with a column a step."""

    masked: str
    removed: list[str]
    rest: list[str]
    some_left: list[str]  # not gone: something is left after the step


def add_filter(nodes: Nodes, fitted: OutputFilter, confidences: str) -> str:
    """Add the nodes that turn confidences into probabilities of the retained labels."""
    if fitted.method == "mask" or not fitted.removed:
        result = _mask(nodes, fitted, confidences)
    else:
        split = _split_logits if fitted.input == "logits" else _split_probabilities
        parts = split(nodes, confidences, fitted.removed_columns, fitted.retained_columns)
        result = _redistribute(nodes, fitted.chain, parts)
    if fitted.temperature != 1:
        scaled = nodes.add("Div", nodes.add("Log", result), fitted.temperature)
        result = nodes.add("Softmax", scaled, axis=1)
    return result


def _exponentials(nodes: Nodes, logits: str) -> tuple[str, str]:
    """Exponentials of logits less the largest of their row, and the largest."""
    top = nodes.over_columns("ReduceMax", logits)
    top = nodes.add("Where", nodes.add("Greater", top, -np.inf), top, 0.0)
    return nodes.add("Exp", nodes.add("Sub", logits, top)), top


def _or_one(nodes: Nodes, value: str) -> str:
    """Something to divide by: `value`, or 1 where it is 0."""
    return nodes.add("Where", nodes.add("Greater", value, 0.0), value, 1.0)


def _mask(nodes: Nodes, fitted: OutputFilter, confidences: str) -> str:
    masked = nodes.doubles(confidences, fitted.retained_columns)
    if fitted.input == "logits":
        masked, _ = _exponentials(nodes, masked)
    total = nodes.over_columns("ReduceSum", masked)
    uniform = 1.0 / len(fitted.retained_columns)
    divided = nodes.add("Div", masked, _or_one(nodes, total))
    return nodes.add("Where", nodes.add("Greater", total, 0.0), divided, uniform)


def _split_probabilities(nodes: Nodes, rows: str, removed: Columns, retained: Columns) -> Parts:
    k = len(removed)
    masked, found = nodes.doubles(rows, retained), nodes.doubles(rows, removed)
    total = nodes.over_columns("ReduceSum", masked)
    # left[:, s] is the mass that step s finds: the sum of the entries from s on.
    each = nodes.add("Concat", found, total, axis=1)
    left = nodes.add("MatMul", each, np.tri(k + 1))
    before, last = nodes.split(_or_one(nodes, left), [k, 1])
    after = nodes.split(left, [1, k])[1]
    return Parts(
        masked=nodes.add("Div", masked, last),
        removed=nodes.columns(nodes.add("Div", found, before), k),
        rest=nodes.columns(nodes.add("Div", after, before), k),
        some_left=[nodes.add("Greater", mass, 0.0) for mass in nodes.columns(after, k)],
    )


def _split_logits(nodes: Nodes, rows: str, removed: Columns, retained: Columns) -> Parts:
    """As in `unlabel._method.split`, with the lowest double in place of minus infinity.

    The difference of two of them is a number. It is wrong, yet only met at steps after the
    one that found all the mass, where the input has no weight any more.
    """
    k = len(removed)
    masked, top = _exponentials(nodes, nodes.doubles(rows, retained))
    found = nodes.add("Sub", nodes.doubles(rows, removed), top)
    found = nodes.add("Min", nodes.add("Max", found, -LARGEST), LARGEST)
    total = nodes.over_columns("ReduceSum", masked)
    left = nodes.add("Max", nodes.add("Log", total), -LARGEST)
    leads: list[str] = []
    some_left: list[str] = []
    for logit in reversed(nodes.columns(found, k)):
        lead = nodes.add("Sub", logit, left)
        leads.insert(0, lead)
        some_left.insert(0, nodes.add("Greater", left, -LARGEST))
        smaller = nodes.add("Exp", nodes.add("Neg", nodes.add("Abs", lead)))
        over = nodes.add("Log", nodes.add("Add", smaller, 1.0))
        left = nodes.add("Add", nodes.add("Max", left, logit), over)
    odds = nodes.add("Concat", *leads, axis=1)
    against = nodes.add("Exp", odds)
    in_favour = nodes.add("Exp", nodes.add("Neg", odds))
    return Parts(
        masked=nodes.add("Div", masked, _or_one(nodes, total)),
        removed=nodes.columns(nodes.add("Div", 1.0, nodes.add("Add", in_favour, 1.0)), k),
        rest=nodes.columns(nodes.add("Div", 1.0, nodes.add("Add", against, 1.0)), k),
        some_left=some_left,
    )


def _redistribute(nodes: Nodes, chain: Chain, parts: Parts) -> str:
    """`Chain.redistribute`, one step after the other."""
    along = chain.along
    of_input = _input_parts(nodes, chain, along, parts)
    own: Operand = 1.0  # the input's weight in the mixture
    weights = ""  # the shares' weights in it
    overlaps, rests, weight = chain.overlap, chain.rest, chain.weight
    overlaps_along = _overlaps_along(chain, along)
    for step, (residual, along_mean) in enumerate(of_input):
        overlap, rest = overlaps[:step, step, None], rests[:step, step]
        rho = nodes.add("Mul", own, residual)
        along_mean = nodes.add("Mul", own, along_mean)
        left = kept = nodes.add("Mul", own, parts.rest[step])
        some = parts.some_left[step]
        if weights:
            rho = nodes.add("Add", rho, nodes.add("MatMul", weights, overlap))
            shares_along = nodes.add("MatMul", weights, overlaps_along[:step, step, None])
            along_mean = nodes.add("Add", along_mean, shares_along)
            left = nodes.add("Add", kept, nodes.add("MatMul", weights, rest[:, None]))
            some = nodes.add("And", some, nodes.add("Greater", own, 0.0))
        rho = nodes.add("Min", nodes.add("Max", rho, 0.0), 1.0)
        # 1 - rho, added up: a subtraction would lose digits.
        passed_on = nodes.add("Min", nodes.add("Add", left, along_mean), 1.0)
        # No mass is left over: the input takes it all where only underflow hides what it
        # holds, the share takes it all where there is nothing.
        held = nodes.add("Greater", left, 0.0)
        there = nodes.add("Or", held, some)
        rho = nodes.add("Where", there, rho, 1.0)
        passed_on = nodes.add("Where", there, passed_on, 0.0)
        kept = nodes.add("Where", held, kept, 1.0)
        left = nodes.add("Where", held, left, 1.0)
        to_share = nodes.scaled(rho, weight[step : step + 1])
        total = nodes.add("Add", passed_on, to_share)
        scale = nodes.add("Div", passed_on, total)
        own = nodes.add("Mul", nodes.add("Div", kept, left), scale)
        newest = nodes.add("Div", to_share, total)
        if weights:
            earlier = nodes.add("Div", nodes.add("Mul", weights, rest), left)
            earlier = nodes.add("Mul", earlier, scale)
            newest = nodes.add("Concat", earlier, newest, axis=1)
        weights = newest
    shared = nodes.add("MatMul", weights, chain.shares[:, chain.retained])
    mixed = nodes.add("Add", nodes.add("Mul", parts.masked, own), shared)
    return nodes.add("Div", mixed, nodes.over_columns("ReduceSum", mixed))


def _overlaps_along(chain: Chain, along: Float64s) -> Float64s:
    """Entry [r, s] is what goes along step s's mean of the part of share r that it finds."""
    found = chain.mixture.mass[:, :-1]
    return np.triu(chain.mixture.lifted @ along.T / np.where(found == 0, 1.0, found), 1)


def _input_parts(
    nodes: Nodes, chain: Chain, along: Float64s, parts: Parts
) -> list[tuple[str, str]]:
    """Each step's residual of what it finds of the input, and what goes along its mean."""
    diagonal = chain.residual[np.arange(len(chain.removed)), chain.removed]
    reached = nodes.add("MatMul", parts.masked, along[:, chain.retained].T)
    at_removed = along[:, chain.removed]
    found: list[tuple[str, str]] = []
    for step in range(len(chain.removed) - 1, -1, -1):
        sizes = [step, 1] if step else [1]
        others = nodes.add("Mul", reached, parts.rest[step])
        own = nodes.scaled(parts.removed[step], at_removed[: step + 1, step])
        *earlier, here = nodes.split(nodes.add("Add", others, own), sizes)
        residual = nodes.scaled(parts.removed[step], diagonal[step : step + 1])
        residual = nodes.add("Sub", residual, nodes.split(others, sizes)[-1])
        found.insert(0, (residual, here))
        reached = earlier[0] if earlier else ""
    return found
