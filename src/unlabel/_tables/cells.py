"""Cells of Arrow columns as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unlabel.errors import UnlabelError

OTHER_NUMBER = r"^\s*(\d*,\d+|\d+([.,]\d+)?\s*%)\s*$"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
SHOWN_LETTERS = 60


def plain(column: pa.Array) -> pa.Array:
    """A column without Arrow's ways to store it: no dictionary, and texts of one type."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = pc.cast(column, pa.string())
    return column


def as_floats(column: pa.Array, name: str, first_row: int, per_row: int = 1) -> npt.NDArray[Any]:
    """Numbers of a column, `per_row` of them in each row, and NaN where a cell is empty."""
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
        bad = _first_bad(column)
        if bad is None:
            return _cast(column)
        shown = str(column[bad].as_py())[:SHOWN_LETTERS]
        raise UnlabelError(
            f"Row {first_row + bad // per_row} has {shown!r} in column {name!r}: give a number."
        ) from error


def _cast(column: pa.Array) -> npt.NDArray[Any]:
    # Whole numbers of more digits than a float has are rounded, as decimal ones are.
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _first_bad(column: pa.Array) -> int | None:
    """The first cell that is not a number."""
    if _is_castable(column):
        return None
    start, end = 0, len(column)
    while end - start > 1:
        middle = (start + end) // 2
        if _is_castable(column[start:middle]):
            start = middle
        else:
            end = middle
    return start


def _is_castable(column: pa.Array) -> bool:
    try:
        _cast(column)
    except pa.ArrowException:
        return False
    return True


def decimal_columns(batch: pa.RecordBatch) -> list[str]:
    """The names of the columns of decimal numbers, as texts or not."""
    return [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if pa.types.is_floating(_kind(column))
        or pa.types.is_decimal(_kind(column))
        or (_is_text(column) and _holds_decimals(plain(column)))
    ]


def doubtful_columns(batch: pa.RecordBatch) -> tuple[list[str], list[str]]:
    """The names of the columns of zeros, and of the columns of other whole numbers."""
    zeros, whole = [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _is_text(column):
            numbers = _numbers(plain(column))
        elif pa.types.is_floating(_kind(column)):
            numbers = as_floats(column.drop_null(), name, 0)
        else:
            if pa.types.is_integer(_kind(column)):
                whole.append(name)
            continue
        if len(numbers) == len(column) and not numbers.any():
            zeros.append(name)
        elif 2 * len(numbers) > len(column) and (numbers == np.floor(numbers)).all():
            whole.append(name)
    return zeros, whole


def numbers_of_another_kind(batch: pa.RecordBatch) -> str:
    """What to do about numbers that are written as some spreadsheets write them."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _is_text(column):
            found = pc.match_substring_regex(plain(column), OTHER_NUMBER)
            if (row := pc.index(found, True).as_py()) >= 0:
                return (
                    f"row {row} has {column[row].as_py()!r} in column {name!r}; write such numbers "
                    "as 0.25."
                )
    return ""


def _kind(column: pa.Array) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _is_text(column: pa.Array) -> bool:
    kind, of = _kind(column), pa.types
    return bool(of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind))


def _holds_decimals(texts: pa.StringArray) -> bool:
    """Whether most texts are numbers, and not all of them whole: those would be ids."""
    numbers = _numbers(texts)
    return 2 * len(numbers) > len(texts) and bool((numbers != np.floor(numbers)).any())


def _numbers(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    """The numbers among texts."""
    of_number = texts.filter(pc.match_substring_regex(texts, NUMBER))
    return np.asarray(pc.cast(pc.utf8_trim_whitespace(of_number), pa.float64()), np.float64)
