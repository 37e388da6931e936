"""What a filter must know of an ONNX graph, and the changes it makes to one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.external_data_helper import uses_external_data

from unlabel.validation import InputKind, UnlabelError

Names = npt.NDArray[Any] | None

FLOATS = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}
LABELS = {TensorProto.INT32, TensorProto.INT64, TensorProto.STRING}
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
        return labels.astype(helper.tensor_dtype_to_np_dtype(self.dtype))


class GraphReader:
    """A graph whose tensors are looked up by name."""

    def __init__(self, graph: GraphProto, inferred: GraphProto) -> None:
        self.graph = graph
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self._inferred = {info.name: info for info in (*inferred.value_info, *inferred.output)}

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
        for info in self.graph.output:
            dtype = info.type.tensor_type.elem_type
            if dtype in LABELS and (trace := self._trace_label(info.name)):
                scores, axis, names, sources = trace
                if not self._goes_over_labels(scores, axis, n_labels):
                    continue
                if self._comes_of(scores, head.tensor) or self._comes_of(head.tensor, scores):
                    is_column = len(self._dims(info)) == 2
                    yield LabelOutput(info.name, dtype, is_column, names, tuple(sources))

    def _goes_over_labels(self, scores: str, axis: int, n_labels: int) -> bool:
        """Whether an axis may be that of the labels, beside a batch and axes of one entry."""
        dims = self._dims_of(scores)
        if not dims:  # nothing is known
            return axis in (1, -1)
        size, others = dims[axis], [dim for i, dim in enumerate(dims) if i != axis % len(dims)]
        if axis % len(dims) == 0:  # the batch's, unless the scores were turned over or squeezed
            return size == n_labels and n_labels not in others
        return size in (n_labels, None) and sum(dim != 1 for dim in others) <= 1

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
                names, name = self._constant(node.input[0]), node.input[1]
                if names is None:
                    return None
            elif node.op_type in PASSING:
                name = node.input[0]
            else:
                return None
        return None

    def input_kind(self, head: Head) -> InputKind | None:
        """Tell logits from probabilities, where the last operator leaves no doubt."""
        node = self.producers[head.tensor]
        while node.op_type in PASSING and node.input[0] in self.producers:
            node = self.producers[node.input[0]]
        if node.op_type == "Softmax":
            return "probabilities"
        if node.op_type == "Sigmoid":
            raise UnlabelError(
                f"The output {head.output!r} comes from a Sigmoid: only labels that exclude each "
                "other can be removed."
            )
        biased = node.op_type == "Add" and any(name in self.initializers for name in node.input)
        if biased or node.op_type in {"Gemm", "LogSoftmax"} or _gives_raw_scores(node):
            return "logits"
        return "probabilities" if head.zipmap else None

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
        return self._dims_of(info.name)

    def _dims_of(self, name: str) -> list[int | None]:
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


def _gives_raw_scores(node: NodeProto) -> bool:
    """Whether a linear classifier leaves its scores as they are, which is the default."""
    after = [of.s for of in node.attribute if of.name == "post_transform"]
    return node.op_type == "LinearClassifier" and after in ([], [b"NONE"])


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


def with_labels(zipmap: NodeProto, confidences: str, labels: npt.NDArray[Any]) -> NodeProto:
    """Make a ZipMap like another one, of other confidences and labels."""
    changed = NodeProto()
    changed.CopyFrom(zipmap)
    changed.input[0] = confidences
    del changed.attribute[:]
    name = "classlabels_strings" if labels.dtype == object else "classlabels_int64s"
    changed.attribute.append(helper.make_attribute(name, labels.tolist()))
    return changed


def declare_width(graph: GraphProto, output: str, width: int, *, before: str) -> None:
    """Give an output another number of columns; the tensor `before` has the old one."""
    info = next(info for info in graph.output if info.name == output)
    if before not in {known.name for known in graph.value_info}:
        graph.value_info.append(info)
        graph.value_info[-1].name = before
    info.type.tensor_type.shape.dim[1].dim_value = width


def insert_nodes(
    graph: GraphProto, nodes: Sequence[NodeProto], *, in_place_of: NodeProto | None
) -> None:
    """Insert nodes in place of one of the graph's, or at the end."""
    at = len(graph.node) if in_place_of is None else list(graph.node).index(in_place_of)
    after = list(graph.node)[at:][in_place_of is not None :]
    del graph.node[at:]
    graph.node.extend([*nodes, *after])


def rename(graph: GraphProto, old: str, new: str) -> None:
    """Rename a tensor wherever it stands, in the bodies of loops and branches too."""
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
    """Drop nodes that nothing needs any more, each before those it takes its inputs from."""
    for node in nodes:
        if used_names(graph) & set(node.output):
            return
        graph.node.remove(node)
        unused = set(node.input) - used_names(graph) - {info.name for info in graph.input}
        for tensor in [tensor for tensor in graph.initializer if tensor.name in unused]:
            graph.initializer.remove(tensor)


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
