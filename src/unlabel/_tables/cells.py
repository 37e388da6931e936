"""Cells of Arrow columns as numbers."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unlabel.errors import UnlabelError

SPREADSHEET_NUMBER = r"^\s*(\d*,\d+|\d+([.,]\d+)?\s*%)\s*$"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
SHOWN_LETTERS = 60


def plain(column: pa.Array) -> pa.Array:
    """Decode a dictionary column, and give all text columns one type."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    return pc.cast(column, pa.string()) if is_text(column.type) else column


def taken(column: pa.Array, rows: pa.Array | npt.NDArray[np.intp]) -> pa.Array:
    """Take rows of a column, of any type: Arrow cannot take those of views."""
    rows = rows if isinstance(rows, pa.Array) else pa.array(rows)
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    if column.type in views:
        return pc.cast(pc.cast(column, views[column.type]).take(rows), column.type)
    return column.take(rows)


def as_floats(column: pa.Array, name: str, per_row: int = 1) -> npt.NDArray[Any]:
    """Convert a column with `per_row` numbers in each row; empty cells become NaN."""
    column = plain(column)
    if pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if not len(column):
        return np.empty(0)
    try:
        return _cast(column)
    except pa.ArrowException as error:
        if pa.types.is_string(column.type):
            column = pc.utf8_trim_whitespace(column)
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        bad = bisect_left(
            range(len(column)), True, key=lambda last: not _is_castable(column[: last + 1])
        )
        if bad == len(column):
            return _cast(column)
        shown = str(column[bad].as_py())[:SHOWN_LETTERS]
        raise UnlabelError(
            f"It has {shown!r} in column {name!r}: give a number.", row=bad // per_row
        ) from error


def _cast(column: pa.Array) -> npt.NDArray[Any]:
    # Unsafe: integers with more digits than a float holds are rounded, as decimals are.
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _is_castable(column: pa.Array) -> bool:
    try:
        _cast(column)
    except pa.ArrowException:
        return False
    return True


def numeric_columns(batch: pa.RecordBatch) -> tuple[list[str], list[str], list[str]]:
    """Name the columns of decimal numbers, those of zeros, and those of other whole numbers.

    Texts count as numbers if most of a column can be read so. A float column of zeros or
    whole numbers is named twice: as a decimal column too.
    """
    decimals, zeros, whole = [], [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        is_float = pa.types.is_floating(kind)
        if is_float:
            values = as_floats(column.drop_null(), name)
        elif is_text(kind):
            values = _numbers_among(plain(column))
        else:
            if pa.types.is_decimal(kind):
                decimals.append(name)
            elif pa.types.is_integer(kind):
                whole.append(name)
            continue
        is_mostly_numbers = 2 * len(values) > len(column)
        is_whole = values == np.floor(values)
        if is_float or (is_mostly_numbers and not is_whole.all()):
            decimals.append(name)
        if len(values) == len(column) and not values.any():
            zeros.append(name)
        elif is_mostly_numbers and is_whole.all():
            whole.append(name)
    return decimals, zeros, whole


def spreadsheet_number_advice(batch: pa.RecordBatch) -> str:
    """Return how to rewrite the first number with a decimal comma or a percent sign, if any."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = plain(column)
        if is_text(texts.type):
            found = pc.match_substring_regex(texts, SPREADSHEET_NUMBER)
            if (row := pc.index(found, True).as_py()) >= 0:
                return (
                    f"row {row} has {column[row].as_py()!r} in column {name!r}; write such numbers "
                    "as 0.25."
                )
    return ""


def is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _numbers_among(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    numbers = texts.filter(pc.match_substring_regex(texts, NUMBER))
    return np.asarray(pc.cast(pc.utf8_trim_whitespace(numbers), pa.float64()), np.float64)
