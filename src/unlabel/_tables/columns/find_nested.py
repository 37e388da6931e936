"""Find the nested column of a table that holds its confidences, and the labels in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from unlabel._tables.cells import numeric_columns
from unlabel._tables.columns.layout import require_columns
from unlabel._tables.columns.nested import EntryColumn, NestedColumn, StructColumn, nested_column
from unlabel._tables.files.formats import Table, errors_naming
from unlabel._tables.labels import label_positions, positions_by_text
from unlabel._typing import Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import as_classes, as_labels, listing


def find_nested(
    table: Table,
    classes: Sequence[Label] | None,
    *,
    list_column: str | None = None,
    partial: bool = False,
) -> NestedColumn | None:
    """Find the nested column with the confidences, if they are in one.

    Columns named after labels and lists of numbers come before nested columns that were not
    asked for. Without `classes`, the labels are a struct's fields or those of the first row.
    """
    columns = [nested_column(field, partial=partial) for field in table.schema]
    found = [column for column in columns if column is not None]
    if list_column is not None:
        found = [column for column in found if column.name == list_column]
        require_columns(table.schema.names, [column.name for column in found], str(table.path))
    elif found and _has_other_confidences(table, classes):
        return None
    if not found:
        return None
    head = _head(table)
    if list_column is None:
        found = [column for column in found if _names_labels(column, head, classes)]
    if len(found) > 1:
        raise UnlabelError(
            f"It may have confidences in each of the columns "
            f"{listing([column.name for column in found])}: choose one.",
            path=table.path,
            argument="list_column",
        )
    with errors_naming(table.path):
        return _with_labels(found[0], head, classes, partial=partial) if found else None


def _head(table: Table) -> pa.RecordBatch:
    """Read the first rows; there may be none."""
    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    return next((batch for batch, _ in table.batches() if len(batch)), empty)


def _has_other_confidences(table: Table, classes: Sequence[Label] | None) -> bool:
    """Whether lists of numbers or plain columns of decimal numbers hold confidences."""
    numbers, types = (pa.types.is_floating, pa.types.is_integer), pa.types
    for kind in table.schema.types:
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        if is_list and any(is_number(kind.value_type) for is_number in numbers):
            return True
    if classes is None:
        return len(numeric_columns(_head(table))[0]) > 1
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    return any(types.is_floating(kinds.get(str(label), pa.null())) for label in classes)


def _names_labels(
    column: NestedColumn, head: pa.RecordBatch, classes: Sequence[Label] | None
) -> bool:
    """Whether a column names labels of the model, as far as its first rows show."""
    if isinstance(column, StructColumn):
        names = column.kind.names
        return len(names) > 1 if classes is None else not {*map(str, classes)}.isdisjoint(names)
    if classes is None:
        return True
    named = column.labels(head).unique()
    return not len(named) or any(at is not None for at in label_positions(named, classes))


def _with_labels(
    column: NestedColumn,
    head: pa.RecordBatch,
    classes: Sequence[Label] | None,
    *,
    partial: bool,
) -> NestedColumn:
    guess = ""
    if classes is None:
        classes = _first_labels(column, head)
        guess = f"The labels were taken to be {listing(classes)}: if not, name them."
    labels = as_classes(classes)
    texts = positions_by_text(labels)
    if isinstance(column, EntryColumn):
        return replace(column, classes=labels, guess=guess)
    names = column.kind.names
    for name, times in Counter(names).items():
        if times > 1:
            raise UnlabelError(
                f"The column {column.name!r} has {times} fields {name!r}: rename all but one."
            )
        if name not in texts:
            raise UnlabelError(
                f"The column {column.name!r} has a field {name!r}, which is not among the labels "
                f"{listing(labels)}: take it out of the structs."
            )
    for text in () if partial else (text for text in texts if text not in names):
        raise UnlabelError(
            f"The column {column.name!r} has no field for the label {text!r}: give the confidences "
            "of all labels, or say that rows are partial.",
            argument="partial",
        )
    return replace(column, classes=labels, guess=guess)


def _first_labels(column: NestedColumn, head: pa.RecordBatch) -> tuple[Label, ...]:
    if isinstance(column, StructColumn):
        with located(row=f"the fields of column {column.name!r}"):
            return as_labels(column.kind.names)
    if not len(head):
        raise UnlabelError("There are no rows: give a table with at least one.")
    found = column.labels(head[:1])
    if not len(found) or found.null_count:
        raise UnlabelError(
            f"Row 0 does not name the labels in column {column.name!r}: name them.",
            argument="classes",
        )
    with located(row=f"row 0 of column {column.name!r}"):
        return as_labels(found.to_pylist())
