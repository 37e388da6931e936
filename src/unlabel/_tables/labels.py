"""Match cells of Arrow columns to labels, by one rule for tables and for Spark."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._skipped import SkippedRows
from unlabel._tables.cells import plain
from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.labels import is_missing, no_such_label

# As Arrow and JSON, Python, and spreadsheets write them.
TRUTH_VALUES = {"true", "false", "True", "False", "TRUE", "FALSE"}
WHOLE = re.compile(r"(-?[0-9]+)(\.0)?")


def positions_by_text(classes: Sequence[Label]) -> dict[str, int]:
    """Map the text of each label to its position; no two labels may have the same text."""
    found: dict[str, int] = {}
    for position, label in enumerate(classes):
        other = found.setdefault(str(label), position)
        if other != position:
            raise UnlabelError(
                f"The labels {classes[other]!r} and {label!r} are the same text, and tables tell "
                "labels apart by their texts: rename one of them."
            )
    return found


def label_positions(values: pa.Array, classes: Sequence[Label]) -> list[int | None]:
    """Find the position of each cell's label among the labels of the model, None if it has none.

    A text matches the label with that text, and ``2.0`` the label 2; other texts are not read
    as numbers, since ``1e3`` may be a name. A number matches the label of that value, whether
    the label is an int or a text. A boolean matches the label 'True' or 'true'.

    Examples
    --------
    >>> label_positions(pa.array([1.0, 0.5, 7.0]), [0, 1])
    [1, None, None]
    >>> label_positions(pa.array(["1", "2.0", "1e3"]), ["1", "2", "1000"])
    [0, 1, None]
    """
    position_of = positions_by_text(classes)
    # Floats from this size on skip whole numbers, so that one may stand for another.
    is_float = pa.types.is_floating(values.type)
    whole_below = 2.0 / np.finfo(values.type.to_pandas_dtype()).eps if is_float else math.inf
    texts = pc.cast(values, pa.string()).to_pylist()
    positions: list[int | None] = []
    for value, text in zip(values.to_pylist(), texts, strict=True):
        is_exact = isinstance(value, str) and text in position_of
        spellings = {text} if is_exact else _spellings(value, text, whole_below)
        found = {position_of[spelling] for spelling in spellings if spelling in position_of}
        if len(found) > 1:
            known = " and ".join(repr(classes[position]) for position in sorted(found))
            raise UnlabelError(
                f"The value {text} may mean any of the labels {known}: write the label itself, as "
                "a text."
            )
        positions.append(found.pop() if found else None)
    return positions


def true_labels(
    column: pa.Array,
    name: str,
    classes: Sequence[Label],
    skipped: SkippedRows | None = None,
) -> npt.NDArray[np.intp]:
    """Find the positions of a column's true labels among the labels of the model.

    The position is -1 if the row is skipped. Without `skipped`, where they are counted, no row is.
    """
    cells = label_cells(column, name)
    encoded = pc.dictionary_encode(cells, null_encoding="encode")
    positions = label_positions(encoded.dictionary, classes)
    indices = encoded.indices.to_numpy()
    counts = np.bincount(indices, minlength=len(positions))
    for code, position in enumerate(positions):
        if position is not None:
            continue
        value = encoded.dictionary[code]
        label = None if is_missing(value.as_py()) else value.cast(pa.string()).as_py()
        if skipped is not None:
            skipped.add(label, int(counts[code]))
            continue
        row = int(np.argmax(indices == code))
        if label is None:
            raise UnlabelError(f"It has no true label in column {name!r}: give it one.", row=row)
        raise no_such_label(label, classes, row=row)
    found = np.array([-1 if each is None else each for each in positions], dtype=np.intp)
    return np.asarray(found[indices])


def label_cells(column: pa.Array, name: str) -> pa.Array:
    """Decode a column of labels; refuse a column of another type."""
    column = plain(column)
    if pa.types.is_float16(column.type):
        return pc.cast(column, pa.float32())
    try:
        texts = pc.cast(column, pa.string())
    except pa.ArrowException as error:
        raise UnlabelError(
            f"The column {name!r} has the type {column.type} and true labels are texts or numbers: "
            "choose another column.",
            argument="label_column",
        ) from error
    return texts if pa.types.is_binary(column.type) or pa.types.is_null(column.type) else column


def _spellings(value: Any, text: str, whole_below: float) -> set[str]:
    """List the texts of the labels that a value may stand for."""
    if is_missing(value):
        return set()
    if isinstance(value, str):
        if text in TRUTH_VALUES:
            return {text.lower(), text.capitalize()}
        whole = WHOLE.fullmatch(text)  # pandas writes 2 as 2.0 beside an empty cell
        return {whole[1], f"{whole[1]}.0"} if whole else set()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return {text, str(value)}
    exact_float = {str(float(value))} if float(value) == value else set()
    if not math.isfinite(value) or int(value) != value:
        return {text} | exact_float
    return {str(int(value))} | exact_float if abs(float(value)) < whole_below else exact_float
