"""The labels of a filter's result, as the outputs of an ONNX model name them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto
from onnx.helper import tensor_dtype_to_np_dtype

from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.labels import known_columns
from unlabel.onnx.graph import DROP_OUTPUT, Names

WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,19}")  # up to the largest integer of a tensor


def check_labels(names: npt.NDArray[Any], fitted: OutputFilter) -> None:
    """Require the filter's labels; those of a filter fitted on a table may be strings of digits."""
    if len(names) != len(fitted.classes_in):
        raise UnlabelError(
            f"The model has {len(names)} labels and the filter {len(fitted.classes_in)}: give "
            "the filter of this model."
        )
    for number, (label, name) in enumerate(zip(fitted.classes_in, names.tolist(), strict=True)):
        if str(label) != str(name):
            raise UnlabelError(
                f"Label {number} is {name!r} in the model and {label!r} in the filter: give the "
                "filter of this model, with the labels in the same order."
            )


def result_labels(fitted: OutputFilter, names: Names, dtype: int, output: str) -> npt.NDArray[Any]:
    """Return the labels of the filter's result in the type of an output.

    Labels of the model keep the model's names. An output without names gives their columns in
    the model; a new label has none, unless the filter's labels are these numbers themselves.
    """
    columns = known_columns(fitted.classes_out, fitted.classes_in)
    new = np.flatnonzero(columns < 0).tolist()
    otherwise = "export the model with strings as labels"
    if names is None:
        names, otherwise = np.arange(len(fitted.classes_in)), DROP_OUTPUT
        if new and [*map(str, fitted.classes_in)] != [*map(str, names)]:
            raise UnlabelError(
                f"The output {output!r} gives labels by their numbers in the model, and the new "
                f"label {fitted.classes_out[new[0]]!r} has none: {otherwise}."
            )
    is_text = dtype == TensorProto.STRING
    known = names.astype(str if is_text else tensor_dtype_to_np_dtype(dtype))
    labels = (known.astype(object) if is_text else known)[columns]
    for at in new:
        label = fitted.classes_out[at]
        name = str(label) if is_text else _as_number(label, known.dtype)
        if name is None:
            raise UnlabelError(
                f"The output {output!r} gives labels as whole numbers ({known.dtype}) and cannot "
                f"give the new label {label!r}: name it by such a number in the plan, or "
                f"{otherwise}."
            )
        labels[at] = name
    return labels


def _as_number(label: Label, dtype: np.dtype[Any]) -> int | None:
    """Read a new label as a whole number that a type can hold, if it is one."""
    if not WHOLE_NUMBER.fullmatch(str(label)):
        return None
    # A number that the type cannot hold becomes another one, or none at all.
    with suppress(OverflowError), np.errstate(over="ignore"):
        if int(np.array([int(label)]).astype(dtype)[0]) == int(label):
            return int(label)
    return None
