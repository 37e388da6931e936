"""The ONNX integration: a filter appended to a model's graph.

The model is edited as the protobuf message it is. What is not touched stays as it was, to
the byte, which no reading into other objects and writing back could promise.
"""

from __future__ import annotations

import itertools
import json
import os
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import onnx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "unlabel.onnx needs onnx: pip install 'unlabel[onnx]'.", name=error.name
    ) from None
from google.protobuf.message import DecodeError  # type: ignore[import, unused-ignore]
from onnx import GraphProto, ModelProto, TensorProto, helper
from onnx.checker import ValidationError, check_model
from onnx.external_data_helper import load_external_data_for_model, uses_external_data
from onnx.shape_inference import InferenceError, infer_shapes

from unlabel._files.atomic import (
    behind_links,
    cannot_read,
    folder_beside,
    refuse_existing,
    require_file,
    whole_file,
)
from unlabel._files.filter_file import KEY, PROTOCOL
from unlabel._typing import InputKind
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, require_filter
from unlabel.onnx.edit import declare_width, drop_unused, insert_nodes, rename, with_labels
from unlabel.onnx.graph import GraphReader, Head, all_names
from unlabel.onnx.kind import input_kind
from unlabel.onnx.nodes import Nodes, add_filter

OLDEST_OPSET = 9  # the first one with Where
MAX_FILE_BYTES = 2**31 - 1  # no protobuf message is longer
WEIGHT_BYTES = 1 << 20


def graft(
    model: str | os.PathLike[str] | ModelProto,
    filter: OutputFilter,
    input: InputKind | None = None,
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
    input : {"probabilities", "logits"}, optional
        What the model gives; if not given, what the filter was fitted on. Where the model's last
        operators say something else, it is refused.
    output : str, optional
        The output with the confidences, where the model has several of that width.

    Returns
    -------
    onnx.ModelProto
        The model with the same outputs, less the removed labels: the confidences are
        probabilities of the labels that remain, and the output with the top label is found
        from them. Other outputs are as they were; integers and texts that are computed from the
        confidences in another way are refused. External data is loaded.

    Examples
    --------
    >>> from onnx.parser import parse_model
    >>> from unlabel import LabelRemover
    >>> from unlabel.onnx import graft
    >>> model = parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ... tiny (float[N,3] logits) => (float[N,3] scores) { scores = Softmax<axis=1>(logits) }''')
    >>> mask = LabelRemover(remove=[1], method="mask").fit([[.5, .3, .2]]).filter_
    >>> graft(model, mask).graph.output[0].type.tensor_type.shape.dim[1].dim_value
    2
    """
    require_filter(filter)
    filter = filter.taking(input)
    if not isinstance(model, ModelProto | str | os.PathLike):
        raise UnlabelError(
            f"The model is a {type(model).__name__}: give an onnx.ModelProto or a path; "
            "torch.onnx.export gives one as its model_proto, skl2onnx.to_onnx makes one."
        )
    if isinstance(model, ModelProto):
        grafted = ModelProto()
        grafted.CopyFrom(model)
        return _graft(grafted, filter, output, "The model")
    grafted = _graft(_read(Path(model)), filter, output, str(model))
    _load_external_data(grafted, Path(model))
    return grafted


def graft_file(
    model: Path,
    filter: OutputFilter,
    out: Path,
    *,
    output: str | None = None,
    overwrite: bool,
) -> list[str]:
    """Append a filter to a model's file, and give the names of the outputs that changed.

    Of a model with external data the result has its own, in one file beside `out`.
    """
    refuse_existing(out, overwrite=overwrite)
    out = behind_links(out)
    grafted = _read(model)
    external = any(map(uses_external_data, grafted.graph.initializer))
    _graft(grafted, filter, output, str(model))
    _load_external_data(grafted, model)
    data = out.with_name(f"{out.name}.data")
    with ExitStack() as stack:  # the data appears before the model that refers to it
        part = stack.enter_context(whole_file(out, overwrite=overwrite))
        data_part = stack.enter_context(whole_file(data, overwrite=overwrite)) if external else None
        folder = stack.enter_context(folder_beside(out))
        onnx.save_model(
            grafted,
            folder / out.name,
            format="protobuf",
            save_as_external_data=external,
            location=data.name,
        )
        check_model(folder / out.name)
        (folder / out.name).replace(part)
        if data_part:
            (folder / data.name).replace(data_part)
    description = next(entry.value for entry in grafted.metadata_props if entry.key == KEY)
    changed: list[str] = json.loads(description)["outputs"]
    return changed


def _graft(model: ModelProto, fitted: OutputFilter, output: str | None, what: str) -> ModelProto:
    """Append a filter to the model itself."""
    if fitted.method == "literal":
        raise UnlabelError(
            "method='literal' is for audit only and is not put into a model: use method='osr'."
        )
    light = _light(model)
    try:
        check_model(light)
    except (ValidationError, ValueError, RuntimeError) as error:
        raise UnlabelError(f"{what} is not a valid ONNX model: {_first_line(error)}.") from error
    if not all(isinstance(name, str) for name in all_names(model.graph)):  # protobuf gives bytes
        raise UnlabelError(f"{what} is not a valid ONNX model: its names are not UTF-8.")
    full_check = _passes_full_check(light)
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if opset < OLDEST_OPSET:
        raise UnlabelError(
            f"{what} has opset {opset} and a filter needs {OLDEST_OPSET} or later: convert it "
            "with onnx.version_converter.convert_version."
        )
    if any(entry.key == KEY for entry in model.metadata_props):
        raise UnlabelError(
            f"{what} has a filter already: graft the model without it, with a filter of all the "
            "labels to remove."
        )
    reader = GraphReader(model.graph, infer_shapes(light).graph)
    head = reader.find_head(len(fitted.classes_in), output)
    _check_input_kind(reader, head, fitted, opset)
    changed = _insert(model.graph, reader, head, fitted, opset)
    _describe(model, fitted, changed)
    check_model(_light(model), full_check=full_check)
    return model


def _insert(
    graph: GraphProto, reader: GraphReader, head: Head, fitted: OutputFilter, opset: int
) -> list[str]:
    """Insert the filter's nodes, and give the names of the outputs that changed."""
    n_labels, retained = len(fitted.classes_in), fitted.retained_columns
    labels = list(reader.label_outputs(head, n_labels))
    for names in (head.names, *(label.names for label in labels)):
        if names is not None:
            _check_labels(names, fitted)
    nodes = Nodes(_free_prefix(graph), opset)
    for label in labels:
        rename(graph, label.output, f"{nodes.prefix}before/{label.output}")
        drop_unused(graph, label.sources)

    confidences = head.tensor
    if head.zipmap is None:
        confidences = f"{nodes.prefix}before/{head.output}"
        rename(graph, head.output, confidences)
        declare_width(graph, head.output, len(retained), before=confidences)
    if head.width is None:  # stops a model that gives another number of labels
        confidences = nodes.add("Reshape", confidences, np.array([0, n_labels]))
    filtered = add_filter(nodes, fitted, confidences)
    if head.zipmap is None or head.names is None:
        result = nodes.add("Cast", filtered, to=head.dtype, result=head.output)
    else:
        result = nodes.add("Cast", filtered, to=head.dtype)
        nodes.all.append(with_labels(head.zipmap, result, head.names[retained]))
    for label in labels:
        names = np.arange(n_labels) if label.names is None else label.names
        # As doubles, which changes nothing: not every type of float has an ArgMax.
        exact = nodes.add("Cast", result, to=TensorProto.DOUBLE)
        best = nodes.add("ArgMax", exact, axis=1, keepdims=int(label.is_column))
        nodes.add("Gather", label.of_its_type(names[retained]), best, axis=0, result=label.output)
    insert_nodes(graph, nodes.all, in_place_of=head.zipmap)
    return [head.output, *(label.output for label in labels)]


def _check_labels(names: npt.NDArray[Any], fitted: OutputFilter) -> None:
    """Compare the model's labels with the filter's; a table's labels may be texts of numbers."""
    if len(names) != len(fitted.classes_in):
        raise UnlabelError(
            f"The model has {len(names)} labels and the filter {len(fitted.classes_in)}: give "
            "the filter of this model."
        )
    for column, (ours, theirs) in enumerate(zip(fitted.classes_in, names.tolist(), strict=True)):
        if ours != theirs and str(ours) != str(theirs):
            raise UnlabelError(
                f"Label {column} of the model is {theirs!r} and label {column} of the filter is "
                f"{ours!r}: give the filter of this model, with the labels in the model's order."
            )


def _check_input_kind(reader: GraphReader, head: Head, fitted: OutputFilter, opset: int) -> None:
    found = input_kind(reader, head, len(fitted.classes_in), opset)
    if found and found != fitted.input:
        raise UnlabelError(
            f"The output {head.output!r} holds {found} and the filter takes {fitted.input}: give "
            f"input={found!r} (--input {found})."
        )


def _describe(model: ModelProto, fitted: OutputFilter, changed: list[str]) -> None:
    """Record the filter in the model's metadata."""
    description = {
        "classes": fitted.classes,
        "input": fitted.input,
        "method": fitted.method,
        "outputs": changed,
        "protocol": PROTOCOL,
        "removed": fitted.removed,
        "temperature": fitted.temperature,
        "version": version("unlabel"),
    }
    model.metadata_props.add(key=KEY, value=json.dumps(description, ensure_ascii=False))


def _free_prefix(graph: GraphProto) -> str:
    """A prefix that no name in the graph starts with."""
    names = all_names(graph)
    prefixes = (f"unlabel{'_' * number}/" for number in itertools.count())
    return next(p for p in prefixes if not any(name.startswith(p) for name in names))


def _light(model: ModelProto) -> ModelProto:
    """The model with its weights as inputs: it is checked as well, and is never too large."""
    light = ModelProto()
    light.CopyFrom(model)
    inputs = {info.name for info in light.graph.input}
    for tensor in list(light.graph.initializer):
        if uses_external_data(tensor) or tensor.ByteSize() > WEIGHT_BYTES:
            if tensor.name not in inputs:
                info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                light.graph.input.append(info)
            light.graph.initializer.remove(tensor)
    return light


def _passes_full_check(model: ModelProto) -> bool:
    try:
        check_model(model, full_check=True)
    except (ValidationError, InferenceError):
        return False  # runtimes are more lenient, and the filter is not to blame
    return True


def _read(path: Path) -> ModelProto:
    """Read a model without its external data."""
    try:
        if require_file(path).stat().st_size > MAX_FILE_BYTES:
            raise UnlabelError(f"{path} is not an ONNX model: it is larger than 2 GiB.")
        return onnx.load_model_from_string(path.read_bytes(), format="protobuf")
    except OSError as error:
        raise cannot_read(path, error) from error
    except DecodeError as error:
        raise UnlabelError(f"{path} is not an ONNX model: it cannot be parsed.") from error


def _load_external_data(model: ModelProto, path: Path) -> None:
    try:
        load_external_data_for_model(model, str(path.parent))
    except (OSError, ValidationError, ValueError) as error:
        raise UnlabelError(
            f"The external data of {path} could not be read: {_first_line(error)}."
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
