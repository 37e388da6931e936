"""A model's metadata with the shape and the labels of a filter's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unlabel.serve.labels import LabelNames
from unlabel.serve.protocol import FLOATS, INTEGERS

LABELS = "labels"


def new_metadata(
    metadata: Mapping[str, Any], names: LabelNames, output: str | None
) -> dict[str, Any]:
    """Describe a filtered model; `output` is the name of the output with the confidences, if known.

    Metadata that do not describe this output only have their lists of labels changed.
    """
    outputs = metadata.get("outputs") or []
    fitting = [each for each in outputs if _may_be_confidences(each, names, output)]
    new = [
        _with_labels(each, names) if fitting == [each] else _with_new_names(each, names)
        for each in outputs
    ]
    return {**_renamed(metadata, names), **({"outputs": new} if outputs else {})}


def _may_be_confidences(
    described: Mapping[str, Any], names: LabelNames, output: str | None
) -> bool:
    if output is not None:
        return described.get("name") == output
    sizes = described.get("shape") or [0]
    return described.get("datatype") in FLOATS and sizes[-1] == len(names.old_texts)


def _with_labels(described: Mapping[str, Any], names: LabelNames) -> dict[str, Any]:
    new = _renamed(described, names)
    parameters = new.get("parameters") or {}
    if parameters == (described.get("parameters") or {}):  # it did not list its labels
        parameters = {**parameters, LABELS: names.new_texts}
    shape = [*(described.get("shape") or [-1])]
    return {**new, "shape": [*shape[:-1], len(names.new_texts)], "parameters": parameters}


def _with_new_names(described: Mapping[str, Any], names: LabelNames) -> Mapping[str, Any]:
    new = _renamed(described, names)
    return described if described.get("datatype") in INTEGERS else new  # the model's numbers stay


def _renamed(described: Mapping[str, Any], names: LabelNames) -> dict[str, Any]:
    parameters = described.get("parameters")
    renamed = names.renamed(parameters) if isinstance(parameters, Mapping) else None
    return {**described, **({} if renamed is None else {"parameters": renamed})}
