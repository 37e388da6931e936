"""Where a table keeps its confidences: one column a label, or one column of lists."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from unlabel.parts import Floats
from unlabel.tables import Table, list_column
from unlabel.validation import Label, UnlabelError, as_labels, listing, no_such_label

OTHER_NUMBER = r"^\s*(\d*,\d+|\d+([.,]\d+)?\s*%)\s*$"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


@dataclass(frozen=True)
class WideColumns:
    """Confidences in one column a label, named after it."""

    classes: tuple[Label, ...]
    guess: str = ""  # what to say of rows that look wrong where the columns were guessed

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [str(label) for label in self.classes]

    def read(self, batch: pa.RecordBatch, first_row: int) -> Floats:
        """The confidences of a batch as an array."""
        return np.column_stack(
            [_floats(batch.column(name), name, first_row) for name in self.names]
        )

    def columns(self, rows: Floats, classes: Sequence[Label]) -> dict[str, pa.Array]:
        """Columns for an array of confidences over some of the labels."""
        return {str(label): pa.array(rows[:, i]) for i, label in enumerate(classes)}


@dataclass(frozen=True)
class ListColumn:
    """Confidences in one column of lists, an entry a label."""

    name: str
    classes: tuple[Label, ...]
    fixed_size: bool = True
    guess: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [self.name]

    def read(self, batch: pa.RecordBatch, first_row: int) -> Floats:
        """The confidences of a batch as an array."""
        lists = batch.column(self.name)
        lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False)
        wrong = lengths != len(self.classes)
        if wrong.any():
            at = int(np.argmax(wrong))
            found = f"{lengths[at]} entries" if lengths[at] >= 0 else "no list"
            raise UnlabelError(
                f"Row {first_row + at} has {found} in column {self.name!r} and there are "
                f"{len(self.classes)} labels: give one entry a label."
            )
        return _floats(lists.flatten(), self.name, first_row).reshape(-1, len(self.classes))

    def columns(self, rows: Floats, classes: Sequence[Label]) -> dict[str, pa.Array]:
        """Columns for an array of confidences over some of the labels."""
        lists = list_column(rows)
        return {
            self.name: lists if self.fixed_size else lists.cast(pa.list_(lists.type.value_type))
        }


TableColumns = WideColumns | ListColumn


def find_columns(
    table: Table,
    classes: Sequence[Label] | None = None,
    *,
    list_column: str | None = None,
    label_column: str | None = None,
) -> TableColumns:
    """Find the confidences of a table, by the names of the labels where these are known.

    Otherwise they are the one column of lists, or every column of decimal numbers but the
    one with the true labels.
    """
    if classes is None:
        classes = table.classes
    named = classes is not None and all(str(label) in table.schema.names for label in classes)
    lists = [field.name for field in table.schema if _is_list(field.type)]
    if list_column is None and (named or not lists):
        return _find_wide(table, classes, label_column)
    if list_column is None and len(lists) > 1:
        raise UnlabelError(
            f"{table.path} has several columns of lists, {listing(lists)}: say which one holds "
            "the confidences with --list-column."
        )
    name = lists[0] if list_column is None else list_column
    if name not in lists:
        raise UnlabelError(
            f"{table.path} has no column of lists {name!r}: its columns are "
            f"{listing(table.schema.names)}."
        )
    if classes is None:
        lengths = pc.list_value_length(table.head().column(name))
        classes = range(lengths[0].as_py() or 0)
    fixed_size = pa.types.is_fixed_size_list(table.schema.field(name).type)
    return ListColumn(name, as_labels(classes, "classes"), fixed_size)


def _find_wide(
    table: Table, classes: Sequence[Label] | None, label_column: str | None
) -> WideColumns:
    names, guess = table.schema.names, ""
    if classes is None:
        head = table.head()
        classes = [name for name in _decimal_columns(head) if name != label_column]
        if zeros := [name for name in _zero_columns(head) if name != label_column]:
            raise UnlabelError(
                f"{table.path} has 0 in every row of column {zeros[0]!r}, which may be a label or "
                "not: name the labels with --classes."
            )
        if len(classes) < 2:
            raise UnlabelError(
                f"{table.path} has no columns of decimal numbers that could be confidences: "
                + (
                    _numbers_of_another_kind(head)
                    or "name the labels with --classes, or the column of lists with --list-column."
                )
            )
        guess = (
            f"The labels were taken to be {listing(classes)}: if not, name them with --classes."
        )
    wide = WideColumns(as_labels(classes, "classes"), guess)
    for name in wide.names:
        if names.count(name) != 1:
            raise UnlabelError(
                f"{table.path} has {names.count(name)} columns {name!r} and needs one for the "
                f"label of that name: its columns are {listing(names)}."
            )
    return wide


def true_labels(
    batch: pa.RecordBatch, name: str, classes: Sequence[Label], first_row: int
) -> npt.NDArray[np.intp]:
    """The positions of the true labels of a batch among the labels of the model."""
    of_text = {str(label): position for position, label in enumerate(classes)}
    encoded = pc.dictionary_encode(pc.cast(batch.column(name), pa.string()))
    positions = []
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        whole = text.removesuffix(".0")  # what pandas makes of 2 beside an empty cell
        position = of_text.get(text, of_text.get(whole) if whole.isdecimal() else None)
        if position is None:
            row = first_row + pc.index(encoded.indices, code).as_py()
            if not text:
                raise _no_true_label(row, name)
            raise no_such_label(text, classes, f", and row {row} has it as its true label")
        positions.append(position)
    if encoded.null_count:
        row = first_row + pc.index(pc.is_null(encoded.indices), True).as_py()
        raise _no_true_label(row, name)
    return np.asarray(np.array(positions, dtype=np.intp)[encoded.indices.to_numpy()])


def _no_true_label(row: int, name: str) -> UnlabelError:
    return UnlabelError(f"Row {row} has no true label in column {name!r}: give it one.")


def replaced(
    batch: pa.RecordBatch,
    source: TableColumns,
    confidences: dict[str, pa.Array],
    added: dict[str, pa.Array],
) -> pa.RecordBatch:
    """Put new confidences in the place of a batch's own, and further columns at its end."""
    same_layout = set(confidences) <= set(source.names)
    first = next(name for name in batch.schema.names if name in source.names)
    named: list[tuple[pa.Field, pa.Array]] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name not in source.names:
            named.append((field, column))
        elif same_layout and field.name in confidences:
            named.append(_named(field.name, confidences[field.name]))
        elif not same_layout and field.name == first:
            named += [_named(*item) for item in confidences.items()]
    named += [_named(*item) for item in added.items()]
    fields, columns = zip(*named, strict=True)
    schema = pa.schema(fields, batch.schema.metadata)
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)


def _named(name: str, column: pa.Array) -> tuple[pa.Field, pa.Array]:
    return pa.field(name, column.type), column


def require_column(table: Table, name: str, option: str) -> None:
    """Refuse a table without a column that an option names."""
    if table.schema.names.count(name) != 1:
        near = difflib.get_close_matches(name, table.schema.names, n=1, cutoff=0.0)
        raise UnlabelError(
            f"{table.path} has {table.schema.names.count(name)} columns {name!r} and needs one: "
            f"choose it with {option}; the nearest is {near[0]!r}."
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _decimal_columns(batch: pa.RecordBatch) -> list[str]:
    return [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if pa.types.is_floating(column.type)
        or (pa.types.is_string(column.type) and _holds_decimals(column))
    ]


def _zero_columns(batch: pa.RecordBatch) -> list[str]:
    return [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if pa.types.is_string(column.type)
        and len(numbers := _numbers(column)) == len(column)
        and not numbers.any()
    ]


def _numbers_of_another_kind(batch: pa.RecordBatch) -> str:
    """What to do about numbers that are written as some spreadsheets write them."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_string(column.type):
            found = pc.match_substring_regex(column, OTHER_NUMBER)
            if (row := pc.index(found, True).as_py()) >= 0:
                return (
                    f"row {row} has {column[row].as_py()!r} in column {name!r}; write such numbers "
                    "as 0.25."
                )
    return ""


def _holds_decimals(texts: pa.StringArray) -> bool:
    """Whether most texts are numbers, and not all of them whole: those would be ids."""
    numbers = _numbers(texts)
    return 2 * len(numbers) > len(texts) and bool((numbers != np.floor(numbers)).any())


def _numbers(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    """The numbers among texts."""
    of_number = texts.filter(pc.match_substring_regex(texts, NUMBER))
    return np.asarray(pc.cast(pc.utf8_trim_whitespace(of_number), pa.float64()), np.float64)


def _floats(column: pa.Array, name: str, first_row: int) -> npt.NDArray[Any]:
    """Numbers of a column, NaN where a cell is empty."""
    kind = column.type if pa.types.is_floating(column.type) else pa.float64()
    if pa.types.is_string(column.type):
        column = pc.replace_with_mask(column, pc.equal(column, ""), pa.scalar(None, pa.string()))
    try:
        return np.asarray(pc.cast(column, kind).to_numpy(zero_copy_only=False))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        for row, value in enumerate(column.to_pylist()):
            if not _is_number(value):
                raise UnlabelError(
                    f"Row {first_row + row} has {value!r} in column {name!r}: give a number."
                ) from error
        raise


def _is_number(value: object) -> bool:
    try:
        float(value or "nan")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True

