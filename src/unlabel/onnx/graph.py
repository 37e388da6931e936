"""Finding the outputs of an ONNX graph that a filter changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.external_data_helper import uses_external_data

from unlabel.errors import UnlabelError

Names = npt.NDArray[Any] | None

FLOATS = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}
LABELS = {
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    TensorProto.STRING,
}
# Operators that change the shape or the type of a tensor, but not what it means.
PASSING = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}
CLASSIFIERS = {"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"}
# Operators whose results mix the columns of their input.
MIXING = {"Conv", "Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearConv", "QLinearMatMul"}

DROP_OUTPUT = (
    "drop the output from the model first, by deleting it from graph.output or with "
    "onnx.utils.extract_model"
)


@dataclass(frozen=True)
class Head:
    """The output with the confidences."""

    output: str
    tensor: str  # the confidences themselves, which a ZipMap turns into the output
    dtype: int
    width: int | None
    zipmap: NodeProto | None = None
    names: Names = None  # the labels that the ZipMap names


@dataclass(frozen=True)
class LabelOutput:
    """An output with the most probable label."""

    output: str
    dtype: int
    is_column: bool  # of the shape (rows, 1), not (rows,)
    names: Names  # None if it gives the label's column
    sources: list[NodeProto]  # the nodes that find the label, last one first


class GraphReader:
    """A graph, with lookups by the names of tensors."""

    def __init__(self, graph: GraphProto, inferred: GraphProto) -> None:
        self.graph = graph
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        infos = (*inferred.input, *inferred.value_info, *inferred.output)
        self._inferred = {info.name: info for info in infos}

    def find_head(self, n_labels: int, output: str | None) -> Head:
        """Find the output with the confidences in `n_labels` labels."""
        heads = [head for head in map(self._head, self.graph.output) if head]
        heads = [head for head in heads if output in (None, head.output)]
        if output is not None and not heads:
            raise UnlabelError(
                f"The model has no output {output!r} of shape (rows, labels): {self._outputs()}",
                argument="output",
            )
        heads = [head for head in heads if head.width in (n_labels, None)]
        if len(heads) > 1:
            names = " and ".join(repr(head.output) for head in heads)
            raise UnlabelError(
                f"The outputs {names} could all be the confidences of {n_labels} labels: name the "
                "one to filter",
                argument="output",
            )
        if not heads:
            raise UnlabelError(
                f"The filter is for {n_labels} labels and {self._outputs()}: give the filter of "
                "this model, or name the output to filter",
                argument="output",
            )
        if heads[0].tensor not in self.producers:
            raise UnlabelError(f"The output {heads[0].output!r} is not computed by any node.")
        return heads[0]

    def label_outputs(self, head: Head, n_labels: int) -> Iterator[LabelOutput]:
        """Find the outputs with the most probable label of a head."""
        dependent = self._computed_from(self._scores(head, n_labels))
        for info in self.graph.output:
            dtype = info.type.tensor_type.elem_type
            if trace := self._trace_label(info.name):
                scores, axis, names, sources = trace
                if dtype not in LABELS and names is not None:  # properties of the top label
                    continue
                if self._goes_over_labels(scores, axis, n_labels) and (
                    scores in self._unmixed_from(head.tensor)
                    or head.tensor in self._unmixed_from(scores)
                ):
                    is_column = len(self.dims_of(info.name)) == 2
                    yield LabelOutput(info.name, dtype, is_column, names, sources)
                    continue
                if self._goes_over_others(scores, axis, n_labels):
                    continue
            if dtype in LABELS and info.name in dependent:
                raise UnlabelError(
                    f"The output {info.name!r} is computed from the confidences, but not as their "
                    f"ArgMax, and might name removed labels: {DROP_OUTPUT}."
                )

    def _goes_over_labels(self, scores: str, axis: int, n_labels: int) -> bool:
        """Whether an axis may be that of the labels, beside a batch and axes of size 1."""
        dims = self.dims_of(scores)
        if not dims:
            return axis in (1, -1)
        is_first, size = axis % len(dims) == 0, dims.pop(axis)
        if is_first:  # the batch, unless the scores were transposed or squeezed
            return size == n_labels and n_labels not in dims
        return size in (n_labels, None) and sum(dim != 1 for dim in dims) <= 1

    def _goes_over_others(self, scores: str, axis: int, n_labels: int) -> bool:
        """Whether an axis is visibly not that of the labels."""
        dims = self.dims_of(scores)
        return bool(dims) and (dims.pop(axis) not in (n_labels, None) or n_labels in dims)

    def _scores(self, head: Head, n_labels: int) -> set[str]:
        """Return the confidences and the scores of the same labels that they are computed from."""
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
        """Return some tensors and all those that depend on their values."""
        reached = set(tensors)
        for node in self.graph.node:  # in the order of computation, as ONNX demands
            taken = {*node.input}.union(*map(used_names, bodies(node)))
            if reached & taken and node.op_type not in {"Shape", "Size"}:
                reached.update(node.output)
        return reached - {""}

    def _unmixed_from(self, tensor: str) -> set[str]:
        """Return a tensor and all those computed from it without mixing the scores of labels."""
        reached = {tensor}
        for node in self.graph.node:
            if reached & {*node.input} and not self._mixes(node):
                reached.update(node.output)
        return reached

    def _mixes(self, node: NodeProto) -> bool:
        if node.op_type in {"Gemm", "MatMul"} and node.input[1] in self.initializers:
            weights = self.initializers[node.input[1]]
            if len(weights.dims) == 2 and not uses_external_data(weights):
                matrix = numpy_helper.to_array(weights)
                return not np.array_equal(matrix, np.diag(np.diag(matrix)))  # one factor per label
        return node.op_type in MIXING

    def _trace_label(self, name: str) -> tuple[str, int, Names, list[NodeProto]] | None:
        """Trace an output back to the scores, the axis, the labels and the nodes of an ArgMax."""
        names: Names = None
        nodes: list[NodeProto] = []
        while node := self.producers.get(name):
            nodes.append(node)
            if node.op_type == "ArgMax":
                return node.input[0], attribute(node, "axis", i=0).i, names, nodes
            if node.op_type in CLASSIFIERS and name == node.output[0]:
                return node.output[1], 1, class_labels(node), nodes
            if node.op_type in {"ArrayFeatureExtractor", "Gather"}:
                table, name = self._constant(node.input[0]), node.input[1]
                if table is not None and names is not None:
                    is_index = table.dtype.kind in "iu" and set(table) <= set(range(len(names)))
                    table = names[table] if is_index else None
                if table is None:
                    return None
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
        dtype, dims = info.type.tensor_type.elem_type, self.dims_of(info.name)
        is_matrix = dtype in FLOATS and len(dims) == 2
        return Head(info.name, info.name, dtype, dims[1]) if is_matrix else None

    def dims_of(self, name: str) -> list[int | None]:
        """Return the sizes of a tensor, None for a dynamic one; none if the shape is unknown."""
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
            return f"{info.name!r} (not a tensor)"
        dtype = TensorProto.DataType.Name(info.type.tensor_type.elem_type).lower()
        sizes = ", ".join("?" if dim is None else str(dim) for dim in self.dims_of(info.name))
        return f"{info.name!r} ({dtype}, shape ({sizes}))"

    def is_constant(self, name: str) -> bool:
        """Whether a tensor does not depend on the model's inputs."""
        producer = self.producers.get(name)
        return name in self.initializers or (
            producer is not None and producer.op_type == "Constant"
        )

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
    """Return the labels that a ZipMap or a classifier names."""
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels_"):
            if attribute.strings:
                return as_texts(attribute.strings)
            if attribute.ints:
                return np.array(attribute.ints, dtype=np.int64)
    return np.empty(0, dtype=np.int64)


def attribute(node: NodeProto, name: str, **default: Any) -> AttributeProto:
    """Return an attribute of a node, or one with the default value."""
    return next((each for each in node.attribute if each.name == name), AttributeProto(**default))


def as_texts(texts: Iterable[bytes]) -> npt.NDArray[Any]:
    """Decode texts into an array of objects, as ONNX's tensors of texts need it."""
    return np.array([text.decode(errors="replace") for text in texts], dtype=object)


def used_names(graph: GraphProto) -> set[str]:
    """Return the tensors that nodes take, and the outputs."""
    used = {info.name for info in graph.output}
    for node in graph.node:
        used.update(node.input)
        for body in bodies(node):
            used |= used_names(body)
    return used


def all_names(graph: GraphProto) -> set[str]:
    """Return the names of all tensors, nodes and attributes."""
    names = {info.name for info in (*graph.input, *graph.output, *graph.value_info)}
    names |= {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        names |= {node.name, *node.input, *node.output, *(each.name for each in node.attribute)}
        for body in bodies(node):
            names |= all_names(body)
    return names


def bodies(node: NodeProto) -> Iterator[GraphProto]:
    """Return the graphs inside a node: the branches of an If, the body of a Loop."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
