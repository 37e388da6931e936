"""True labels as Spark's columns hold them, matched with the labels of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel.validation import Label, UnlabelError

# How many texts of one column can be one label: '2' and '2.0', or -0.0 and 0.0.
MOST_SPELLINGS = 2


def label_positions(values: pa.Array, classes: Sequence[Label]) -> list[int | None]:
    """Give the position of each true label among the labels of the model, None where it has none.

    A text is a label that is written so, and ``2.0`` the label 2, as in the tables of the
    command line; other texts are not read as numbers, since ``1e3`` may be a name. A number is
    the label of that value, whether the label is an int, a float or a text.

    Examples
    --------
    >>> label_positions(pa.array([1.0, 0.5, 7.0]), [0, 1, 0.5])
    [1, 2, None]
    >>> label_positions(pa.array(["1", "2.0", "1e3"]), ["1", "2", "1000"])
    [0, 1, None]
    """
    position_of = {str(label): position for position, label in enumerate(classes)}
    if len(position_of) < len(classes):
        raise _written_alike(classes)
    for position, label in enumerate(classes):
        if isinstance(label, bool):  # Spark and Arrow write it so
            position_of.setdefault(str(label).lower(), position)
    whole_below = _whole_below(values.type)
    texts = pc.cast(values, pa.string()).to_pylist()
    positions: list[int | None] = []
    for value, text in zip(values.to_pylist(), texts, strict=True):
        is_exact = isinstance(value, str) and text in position_of
        spellings = {text} if is_exact else _spellings(value, text, whole_below)
        found = {position_of[spelling] for spelling in spellings if spelling in position_of}
        if len(found) > 1:
            known = " and ".join(repr(classes[position]) for position in sorted(found))
            raise UnlabelError(
                f"The true label {text} may be each of the labels {known}: give the true labels "
                "as texts."
            )
        positions.append(found.pop() if found else None)
    return positions


def is_missing(value: Any) -> bool:
    """Whether a cell holds no true label."""
    return value is None or value == "" or value != value


def _whole_below(kind: pa.DataType) -> float:
    """The size from which on whole numbers are rounded, and one may stand for another."""
    return 2.0 / np.finfo(kind.to_pandas_dtype()).eps if pa.types.is_floating(kind) else math.inf


def _spellings(value: Any, text: str, whole_below: float) -> set[str]:
    """The texts of labels that a value may stand for."""
    if is_missing(value):
        return set()
    if isinstance(value, str):
        whole = text.removesuffix(".0")  # what pandas makes of 2 beside an empty cell
        return {whole} if whole.isdecimal() else set()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return {text, str(value)}
    exact_float = {str(float(value))} if float(value) == value else set()
    if value != value // 1:
        return {text} | exact_float
    return {str(int(value))} | exact_float if abs(float(value)) < whole_below else exact_float


def _written_alike(classes: Sequence[Label]) -> UnlabelError:
    by_text: dict[str, Label] = {}
    for label in classes:
        if (first := by_text.setdefault(str(label), label)) is not label:
            break
    return UnlabelError(
        f"The labels {first!r} and {label!r} are written alike, and true labels are told apart by "
        "their texts: give one of them another name."
    )
