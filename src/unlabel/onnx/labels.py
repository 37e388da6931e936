"""The labels of a filter's result, as the outputs of an ONNX model name them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

from unlabel._labels import known_columns
from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.onnx.graph import DROP_OUTPUT, Names

WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,19}")  # up to the largest integer of a tensor


def check_labels(names: npt.NDArray[Any], fitted: OutputFilter) -> None:
    """Require the filter's labels; those of a filter fitted on a table may be texts of numbers."""
    if len(names) != len(fitted.classes_in):
        raise UnlabelError(
            f"The model has {len(names)} labels and the filter {len(fitted.classes_in)}: give "
            "the filter of this model."
        )
    for number, (label, name) in enumerate(zip(fitted.classes_in, names.tolist(), strict=True)):
        if not _is_same(label, name):
            raise UnlabelError(
                f"Label {number} is {name!r} in the model and {label!r} in the filter: give the "
                "filter of this model, with the labels in the same order."
            )


def result_labels(fitted: OutputFilter, names: Names, dtype: int, output: str) -> npt.NDArray[Any]:
    """Give the labels of the filter's result in the type of an output.

    Labels of the model keep the model's names. An output without names gives their columns in
    the model; a new label has none, unless the filter's labels are these numbers themselves.
    """
    columns = known_columns(fitted.classes, fitted.classes_in)
    new = np.flatnonzero(columns < 0).tolist()
    otherwise = "export the model with texts as labels"
    if names is None:
        names, otherwise = np.arange(len(fitted.classes_in)), DROP_OUTPUT
        if new and not all(map(_is_same, fitted.classes_in, names.tolist())):
            raise UnlabelError(
                f"The output {output!r} gives labels by their numbers in the model, and the new "
                f"label {fitted.classes[new[0]]!r} has none: {otherwise}."
            )
    is_text = dtype == TensorProto.STRING
    known = names.astype(str if is_text else tensor_dtype_to_np_dtype(dtype))
    labels = (known.astype(object) if is_text else known)[columns]
    named = {labels[at]: fitted.classes[at] for at in np.flatnonzero(columns >= 0)}
    for at in new:
        label = fitted.classes[at]
        name = str(label) if is_text else _as_number(label, known.dtype)
        if name is None:
            raise UnlabelError(
                f"The output {output!r} gives labels as whole numbers ({known.dtype}) and cannot "
                f"give the new label {label!r}: name it by such a number in the plan, or "
                f"{otherwise}."
            )
        if named.setdefault(name, label) is not label:
            raise UnlabelError(
                f"The labels {named[name]!r} and {label!r} are the same in the output {output!r}: "
                "give the new label another name in the plan."
            )
        labels[at] = name
    return labels


def _is_same(label: Label, name: Any) -> bool:
    return bool(label == name) or str(label) == str(name)


def _as_number(label: Label, dtype: np.dtype[Any]) -> int | None:
    """Read a new label as a whole number that a type can hold, if it is one."""
    is_whole = WHOLE_NUMBER.fullmatch(label) if isinstance(label, str) else label == int(label)
    # A number that the type cannot hold becomes another one, or none at all.
    with suppress(OverflowError, TypeError), np.errstate(over="ignore"):
        if is_whole and int(np.array([int(label)]).astype(dtype)[0]) == int(label):
            return int(label)
    return None
