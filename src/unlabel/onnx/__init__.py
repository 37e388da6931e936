"""The ONNX integration: a filter appended to a model's graph.

The model is edited as the protobuf message it is. Everything else in it stays the same, to the
byte, which reading it into other objects and writing it back could not promise.
"""

from __future__ import annotations

import copy
import json
import os
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from unlabel.errors import UnlabelError, needs_extra

with needs_extra("onnx"):
    import onnx

from google.protobuf.message import DecodeError  # type: ignore[import, unused-ignore]
from onnx import GraphProto, ModelProto, TensorProto, helper
from onnx.checker import ValidationError, check_model
from onnx.external_data_helper import load_external_data_for_model, uses_external_data
from onnx.shape_inference import InferenceError, infer_shapes

from unlabel._files import atomic
from unlabel._files.filter_file import KEY, PROTOCOL
from unlabel._plans.outcome import digest_of
from unlabel._typing import Kind
from unlabel.filter import OutputFilter, require_filter
from unlabel.onnx.edit import declare_width, drop_unused, rename, with_labels
from unlabel.onnx.graph import GraphReader, Head, all_names
from unlabel.onnx.kind import kind_of
from unlabel.onnx.labels import check_labels, result_labels
from unlabel.onnx.nodes import Nodes, add_filter

OLDEST_OPSET = 9  # the first one with Where
MAX_FILE_BYTES = 2**31 - 1  # no protobuf message is longer
WEIGHT_BYTES = 1 << 20
FACTS = ("classes_out", "kind", "method", "removed", "temperature")


def attach(
    model: str | os.PathLike[str] | ModelProto,
    filter: OutputFilter,
    kind: Kind | None = None,
    *,
    output: str | None = None,
) -> ModelProto:
    """Append a filter to an ONNX model.

    Parameters
    ----------
    model : path or onnx.ModelProto
        A classifier. It is not modified.
    filter : OutputFilter
        A fitted filter of method "osr" or "mask".
    kind : {"probabilities", "logits"}, optional
        The kind of confidences that the model gives, by default the kind the filter was fitted on.
        It is refused if the model's last operators contradict it.
    output : str, optional
        The output with the confidences, if several outputs have that width.

    Returns
    -------
    onnx.ModelProto
        The model with the same outputs and other labels: the confidences are probabilities of
        the filter's `classes_out`, and the top label is the most probable of them. Labels that the
        model has keep its names for them; new ones must be of the same type. Other outputs stay
        as they are, but integers and texts that are computed from the confidences in another
        way are refused. External data is loaded.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from unlabel.onnx import attach
    >>> model = parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ... tiny (float[N,3] logits) => (float[N,3] scores) { scores = Softmax<axis=1>(logits) }''')
    >>> mask = OutputFilter.from_plan({1: None}, classes=range(3))
    >>> attach(model, mask).graph.output[0].type.tensor_type.shape.dim[1].dim_value
    2
    """
    require_filter(filter)
    filter = filter if kind is None else replace(filter, kind=kind)
    if isinstance(model, ModelProto):
        grafted = copy.deepcopy(model)
        _attach(grafted, filter, output, "The model")
    elif isinstance(model, str | os.PathLike):
        grafted = _read(Path(model))
        _attach(grafted, filter, output, str(model))
        _load_external_data(grafted, Path(model))
    else:
        raise UnlabelError(
            f"The model is a {type(model).__name__}: give an onnx.ModelProto or a path; "
            "torch.onnx.export gives one as its model_proto, skl2onnx.to_onnx makes one."
        )
    return grafted


def attach_to_file(
    model: Path, filter: OutputFilter, out: Path, *, output: str | None = None
) -> list[str]:
    """Append a filter to a model's file, and return the names of the outputs that changed.

    External data is written to one file beside `out`.
    """
    out = atomic.behind_links(out)
    data = out.with_name(f"{out.name}.data")
    grafted = _read(model)
    external = any(map(uses_external_data, grafted.graph.initializer))
    changed = _attach(grafted, filter, output, str(model))
    _load_external_data(grafted, model)
    with ExitStack() as stack:  # the data appears before the model that refers to it
        part = stack.enter_context(atomic.whole_file(out))
        if external:
            data_part = stack.enter_context(atomic.whole_file(data))
        folder = stack.enter_context(atomic.folder_beside(out))
        options = {"save_as_external_data": external, "location": data.name}
        onnx.save_model(grafted, folder / out.name, format="protobuf", **options)
        check_model(folder / out.name)
        (folder / out.name).replace(part)
        if external:
            (folder / data.name).replace(data_part)
    return changed


def _attach(model: ModelProto, fitted: OutputFilter, output: str | None, what: str) -> list[str]:
    """Append a filter to the model itself, and return the names of the outputs that changed."""
    light = _light(model)
    try:
        check_model(light)
    except (ValidationError, ValueError, RuntimeError) as error:
        raise UnlabelError(f"{what} is not a valid ONNX model: {_first_line(error)}.") from error
    if not all(isinstance(name, str) for name in all_names(model.graph)):  # protobuf gives bytes
        raise UnlabelError(f"{what} is not a valid ONNX model: its names are not UTF-8.")
    try:
        check_model(light, full_check=True)
        passes_full_check = True
    except (ValidationError, InferenceError):  # some models that runtimes accept
        passes_full_check = False
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if opset < OLDEST_OPSET:
        raise UnlabelError(
            f"{what} has opset {opset} and a filter needs {OLDEST_OPSET} or later: convert it with "
            "onnx.version_converter.convert_version."
        )
    if any(entry.key == KEY for entry in model.metadata_props):
        raise UnlabelError(
            f"{what} has a filter already: give the original model one filter, such as "
            "first.then(second)."
        )
    reader = GraphReader(model.graph, infer_shapes(light).graph)
    head = reader.find_head(len(fitted.classes_in), output)
    found = kind_of(reader, head)
    if found not in (None, fitted.kind):
        raise UnlabelError(
            f"The output {head.output!r} holds {found} and the filter takes {fitted.kind}: declare "
            f"that the model gives {found}",
            argument="kind",
        )
    changed = _insert(model.graph, reader, head, fitted, opset)
    _describe(model, fitted, changed)
    check_model(_light(model), full_check=passes_full_check)
    return changed


def _insert(
    graph: GraphProto, reader: GraphReader, head: Head, fitted: OutputFilter, opset: int
) -> list[str]:
    """Insert the filter's nodes, and return the names of the outputs that changed."""
    n_labels = len(fitted.classes_in)
    labels = list(reader.label_outputs(head, n_labels))
    for names in (head.names, *(label.names for label in labels)):
        if names is not None:
            check_labels(names, fitted)
    prefix, taken = "unlabel/", all_names(graph)
    while any(name.startswith(prefix) for name in taken):
        prefix = prefix.replace("/", "_/")
    nodes = Nodes(prefix, opset)
    for label in labels:
        rename(graph, label.output, f"{prefix}before/{label.output}")
        drop_unused(graph, label.sources)

    confidences = head.tensor
    if head.zipmap is None:
        confidences = f"{prefix}before/{head.output}"
        rename(graph, head.output, confidences)
        declare_width(graph, head.output, len(fitted.classes_out), before=confidences)
    if head.width is None:  # fails if the model gives another number of labels
        confidences = nodes.add("Reshape", confidences, np.array([0, n_labels]))
    filtered = add_filter(nodes, fitted, confidences)
    name = head.output if head.zipmap is None else ""
    result = nodes.add("Cast", filtered, to=head.dtype, result=name)
    if head.names is not None:
        kind = TensorProto.STRING if head.names.dtype == object else TensorProto.INT64
        names = result_labels(fitted, head.names, kind, head.output)
        nodes.all.append(with_labels(head.zipmap, result, names))
    for label in labels:
        # As doubles, since ArgMax does not take every type of float.
        exact = nodes.add("Cast", result, to=TensorProto.DOUBLE)
        best = nodes.add("ArgMax", exact, axis=1, keepdims=int(label.is_column))
        names = result_labels(fitted, label.names, label.dtype, label.output)
        nodes.add("Gather", names, best, axis=0, result=label.output)
    at = len(graph.node) if head.zipmap is None else list(graph.node).index(head.zipmap)
    after = graph.node[at + 1 :]
    del graph.node[at:]
    graph.node.extend([*nodes.all, *after])
    return [head.output, *(label.output for label in labels)]


def _describe(model: ModelProto, fitted: OutputFilter, changed: list[str]) -> None:
    """Record the filter in the model's metadata."""
    plan = fitted.plan
    facts = {name: getattr(fitted, name) for name in FACTS} | {
        "plan": {"digest": digest_of(plan), "note": plan.note, "title": plan.title},
        "outputs": changed,
        "protocol": PROTOCOL,
        "version": version("unlabel"),
    }
    model.metadata_props.add(key=KEY, value=json.dumps(facts, ensure_ascii=False, sort_keys=True))


def _light(model: ModelProto) -> ModelProto:
    """Copy a model with its weights as inputs, so that no model is too large to be checked."""
    light = copy.deepcopy(model)
    inputs = {info.name for info in light.graph.input}
    for tensor in list(light.graph.initializer):
        if uses_external_data(tensor) or tensor.ByteSize() > WEIGHT_BYTES:
            if tensor.name not in inputs:
                info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                light.graph.input.append(info)
            light.graph.initializer.remove(tensor)
    return light


def _read(path: Path) -> ModelProto:
    """Read a model without its external data."""
    try:
        if atomic.require_file(path).stat().st_size > MAX_FILE_BYTES:
            raise UnlabelError("It is not an ONNX model: it is larger than 2 GiB.", path=path)
        return onnx.load_model_from_string(path.read_bytes(), format="protobuf")
    except OSError as error:
        raise atomic.cannot_read(path, error) from error
    except DecodeError as error:
        raise UnlabelError("It is not an ONNX model: it cannot be parsed.", path=path) from error


def _load_external_data(model: ModelProto, path: Path) -> None:
    try:
        load_external_data_for_model(model, str(path.parent))
    except (OSError, ValidationError, ValueError) as error:
        raise UnlabelError(
            f"The external data of {path} could not be read: {_first_line(error)}."
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
