"""What a filter must know of an ONNX graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from unlabel.errors import UnlabelError

Names = npt.NDArray[Any] | None

FLOATS = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}
INTEGERS = {
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
}
LABELS = INTEGERS | {TensorProto.STRING}
# Operators that change the shape or the type of what they are given, not what it says.
PASSING = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
CLASSIFIERS = {"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"}
# Operators after which a column is no longer what it was.
MIXING = {"Conv", "Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearConv", "QLinearMatMul"}


@dataclass(frozen=True)
class Head:
    """The output with the confidences."""

    output: str
    tensor: str  # the confidences themselves: not the output, where a ZipMap names them
    dtype: int
    width: int | None
    zipmap: NodeProto | None = None
    names: Names = None  # the labels that the ZipMap names


@dataclass(frozen=True)
class LabelOutput:
    """An output that says which label is the most probable."""

    output: str
    dtype: int
    is_column: bool  # of the shape (rows, 1), not (rows,)
    names: Names  # None where it says the label's column
    sources: tuple[NodeProto, ...]  # the nodes that find the label, last one first

    def of_its_type(self, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels in the type of the output."""
        if self.dtype == TensorProto.STRING:
            return labels.astype(str).astype(object)
        return labels.astype(helper.tensor_dtype_to_np_dtype(self.dtype))


class GraphReader:
    """A graph whose tensors are looked up by name."""

    def __init__(self, graph: GraphProto, inferred: GraphProto) -> None:
        self.graph = graph
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        infos = (*inferred.input, *inferred.value_info, *inferred.output)
        self._inferred = {info.name: info for info in infos}

    def find_head(self, n_labels: int, output: str | None) -> Head:
        """Find the output with the confidences of so many labels."""
        heads = {head.output: head for head in map(self._head, self.graph.output) if head}
        if output is not None:
            if output not in heads:
                raise UnlabelError(
                    f"The model has no output {output!r} of shape (rows, labels): "
                    f"{self._outputs()}."
                )
            fitting = [heads[output]]
        else:
            fitting = [head for head in heads.values() if head.width in (n_labels, None)]
        if len(fitting) > 1:
            both = " and ".join(repr(head.output) for head in fitting)
            raise UnlabelError(
                f"The outputs {both} could all be the confidences of {n_labels} labels: name the "
                "one to filter (output=..., --output)."
            )
        if not fitting or fitting[0].width not in (n_labels, None):
            raise UnlabelError(
                f"The filter is for {n_labels} labels and {self._outputs()}: give the filter of "
                "this model, or name the output to filter (output=..., --output)."
            )
        if fitting[0].tensor not in self.producers:
            raise UnlabelError(f"The output {fitting[0].output!r} is computed by no node.")
        return fitting[0]

    def label_outputs(self, head: Head, n_labels: int) -> Iterator[LabelOutput]:
        """Find the outputs that say which of so many labels of a head is the most probable."""
        dependent = self._computed_from(self._scores(head, n_labels))
        for info in self.graph.output:
            dtype = info.type.tensor_type.elem_type
            if trace := self._trace_label(info.name):
                scores, axis, names, sources = trace
                if dtype not in LABELS and names is not None:  # properties of the top label
                    continue
                if self._goes_over_labels(scores, axis, n_labels) and (
                    self._comes_of(scores, head.tensor) or self._comes_of(head.tensor, scores)
                ):
                    is_column = len(self._dims(info)) == 2
                    yield LabelOutput(info.name, dtype, is_column, names, tuple(sources))
                    continue
                if self._goes_over_others(scores, axis, n_labels):
                    continue
            if dtype in LABELS and info.name in dependent:
                raise UnlabelError(
                    f"The output {info.name!r} is computed from the confidences and might name "
                    "removed labels, but is not a plain ArgMax of them: drop it from the model "
                    "first, by deleting it from graph.output or with onnx.utils.extract_model."
                )

    def _goes_over_labels(self, scores: str, axis: int, n_labels: int) -> bool:
        """Whether an axis may be that of the labels, beside a batch and axes of one entry."""
        dims = self.dims_of(scores)
        if not dims:  # nothing is known
            return axis in (1, -1)
        size, others = dims[axis], [dim for i, dim in enumerate(dims) if i != axis % len(dims)]
        if axis % len(dims) == 0:  # the batch's, unless the scores were turned over or squeezed
            return size == n_labels and n_labels not in others
        return size in (n_labels, None) and sum(dim != 1 for dim in others) <= 1

    def _goes_over_others(self, scores: str, axis: int, n_labels: int) -> bool:
        """Whether an axis is visibly not that of the labels."""
        dims = self.dims_of(scores)
        if not dims:
            return False
        return dims.pop(axis) not in (n_labels, None) or n_labels in dims

    def _scores(self, head: Head, n_labels: int) -> set[str]:
        """The confidences, and the scores of the same labels that they are computed from."""
        scores = {head.tensor}
        varying = self._computed_from({info.name for info in self.graph.input})
        for node in reversed(self.graph.node):
            if scores.isdisjoint(node.output) or self._mixes(node):
                continue
            if node.op_type in CLASSIFIERS:
                scores.update(node.output)
                continue
            for name in varying.intersection(node.input).difference(self.initializers):
                dims = self.dims_of(name)
                if not dims or n_labels in dims or None in dims[1:]:
                    scores.add(name)
        return scores

    def _computed_from(self, tensors: set[str]) -> set[str]:
        """All tensors that the values of some tensors have an effect on, and these."""
        reached = set(tensors)
        for node in self.graph.node:  # which are in the order of their work
            taken = {*node.input}.union(*map(used_names, bodies(node)))
            if reached & taken and node.op_type not in {"Shape", "Size"}:
                reached.update(node.output)
        return reached - {""}

    def _comes_of(self, last: str, first: str) -> bool:
        """Whether a tensor is computed from another so that every label keeps its scores."""
        reached = {first}
        for node in self.graph.node:  # which are in the order of their work
            if reached & {*node.input} and not self._mixes(node):
                reached.update(node.output)
        return last in reached

    def _mixes(self, node: NodeProto) -> bool:
        if node.op_type in {"Gemm", "MatMul"} and node.input[1] in self.initializers:
            weights = self.initializers[node.input[1]]
            if len(weights.dims) == 2 and not uses_external_data(weights):
                matrix = numpy_helper.to_array(weights)
                return not np.array_equal(matrix, np.diag(np.diag(matrix)))  # one factor a label
        return node.op_type in MIXING

    def _trace_label(self, name: str) -> tuple[str, int, Names, list[NodeProto]] | None:
        """The scores that a label is the top one of, along which axis, its name, the nodes."""
        names: Names = None
        nodes: list[NodeProto] = []
        while node := self.producers.get(name):
            nodes.append(node)
            if node.op_type == "ArgMax":
                axis = next((of.i for of in node.attribute if of.name == "axis"), 0)
                return node.input[0], axis, names, nodes
            if node.op_type in CLASSIFIERS and name == node.output[0]:
                return node.output[1], 1, class_labels(node), nodes
            if node.op_type in {"ArrayFeatureExtractor", "Gather"}:
                table, name = self._constant(node.input[0]), node.input[1]
                if table is None:
                    return None
                if names is not None:
                    if not (table.dtype.kind in "iu" and set(table) <= set(range(len(names)))):
                        return None
                    table = names[table]
                names = table
            elif node.op_type in PASSING:
                name = node.input[0]
            else:
                return None
        return None

    def _head(self, info: ValueInfoProto) -> Head | None:
        producer = self.producers.get(info.name)
        if producer and producer.op_type == "ZipMap":
            names = class_labels(producer)
            tensor = producer.input[0]
            return Head(info.name, tensor, TensorProto.FLOAT, len(names), producer, names)
        dtype, dims = info.type.tensor_type.elem_type, self._dims(info)
        if dtype not in FLOATS or len(dims) != 2:
            return None
        return Head(info.name, info.name, dtype, dims[1])

    def _dims(self, info: ValueInfoProto) -> list[int | None]:
        """The dimensions of an output, None for one that is open."""
        return self.dims_of(info.name)

    def dims_of(self, name: str) -> list[int | None]:
        """The dimensions of a tensor, none where nothing is known of them."""
        info = self._inferred.get(name, ValueInfoProto())
        dims = info.type.tensor_type.shape.dim
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]

    def _outputs(self) -> str:
        return f"the model's outputs are {', '.join(map(self._describe, self.graph.output))}"

    def _describe(self, info: ValueInfoProto) -> str:
        head = self._head(info)
        if head and head.zipmap:
            return f"{info.name!r} (a ZipMap of {head.width} labels)"
        if not info.type.HasField("tensor_type"):
            return f"{info.name!r} (no tensor)"
        dtype = TensorProto.DataType.Name(info.type.tensor_type.elem_type).lower()
        sizes = ", ".join("?" if dim is None else str(dim) for dim in self._dims(info))
        return f"{info.name!r} ({dtype}, shape ({sizes}))"

    def _constant(self, name: str) -> Names:
        tensor = self.initializers.get(name)
        producer = self.producers.get(name)
        if producer and producer.op_type == "Constant" and producer.attribute[0].name == "value":
            tensor = producer.attribute[0].t
        if tensor is None:
            return None
        if tensor.data_type == TensorProto.STRING:
            return as_texts(tensor.string_data)
        return None if uses_external_data(tensor) else numpy_helper.to_array(tensor).ravel()


def class_labels(node: NodeProto) -> npt.NDArray[Any]:
    """The labels that a ZipMap or a classifier names."""
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels_"):
            if attribute.strings:
                return as_texts(attribute.strings)
            if attribute.ints:
                return np.array(attribute.ints, dtype=np.int64)
    return np.empty(0, dtype=np.int64)


def as_texts(texts: Iterable[bytes]) -> npt.NDArray[Any]:
    """Texts as the array of objects that ONNX makes a tensor of texts from."""
    return np.array([text.decode(errors="replace") for text in texts], dtype=object)


def used_names(graph: GraphProto) -> set[str]:
    """The tensors that some node takes or that are outputs."""
    used = {info.name for info in graph.output}
    for node in graph.node:
        used.update(node.input)
        for body in bodies(node):
            used |= used_names(body)
    return used


def all_names(graph: GraphProto) -> set[str]:
    """The names of all tensors, nodes and attributes."""
    names = {info.name for info in (*graph.input, *graph.output, *graph.value_info)}
    names |= {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        names |= {node.name, *node.input, *node.output, *(each.name for each in node.attribute)}
        for body in bodies(node):
            names |= all_names(body)
    return names


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
