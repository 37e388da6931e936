"""Where a table keeps its confidences: one column per label, or one column of lists."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._labels import as_classes, listing
from unlabel._tables.cells import (
    as_floats,
    decimal_columns,
    doubtful_columns,
    numbers_of_another_kind,
)
from unlabel._tables.formats import Table, list_column
from unlabel._tables.labels import label_cells, label_positions, positions_by_text
from unlabel._typing import Floats, Label
from unlabel.errors import UnlabelError


@dataclass(frozen=True)
class WideColumns:
    """Confidences in one column per label, named after it."""

    classes: tuple[Label, ...]
    guess: str = ""  # what to say of rows that look wrong where the columns were guessed
    doubtful: str = ""  # a column that may be a label's too, where they were guessed

    def __post_init__(self) -> None:
        positions_by_text(self.classes)

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [str(label) for label in self.classes]

    def read(self, batch: pa.RecordBatch, first_row: int) -> Floats:
        """The confidences of a batch as an array."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return np.column_stack([as_floats(columns[name], name, first_row) for name in self.names])

    def columns(self, rows: Floats, classes: Sequence[Label]) -> dict[str, pa.Array]:
        """Columns for an array of confidences over some of the labels."""
        by_label = np.ascontiguousarray(rows.T)
        return {str(label): pa.array(by_label[i]) for i, label in enumerate(classes)}


@dataclass(frozen=True)
class ListColumn:
    """Confidences in one column of lists, with an entry per label."""

    name: str
    classes: tuple[Label, ...]
    fixed_size: bool = True
    guess: str = ""
    doubtful: str = ""
    order: tuple[int, ...] | None = None  # where each label stands in the lists, if not in order

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [self.name]

    def read(self, batch: pa.RecordBatch, first_row: int) -> Floats:
        """The confidences of a batch as an array."""
        lists = batch.column(self.name)
        lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False)
        labels = len(self.classes)
        wrong = lengths != labels
        if wrong.any():
            at = int(np.argmax(wrong))
            found = f"{lengths[at]} entries" if lengths[at] >= 0 else "no list"
            raise UnlabelError(
                f"Row {first_row + at} has {found} in column {self.name!r} and there are "
                f"{labels} labels: give one entry per label."
            )
        rows = as_floats(lists.flatten(), self.name, first_row, labels).reshape(-1, labels)
        return rows if self.order is None else rows[:, self.order]

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
    lists = [field.name for field in table.schema if _is_list(field.type)]
    if list_column is None and (not lists or _is_wide(table, classes, lists)):
        return _find_wide(table, classes, label_column)
    if list_column is None and len(lists) > 1:
        raise UnlabelError(
            f"{table.path} has several columns of lists, {listing(lists)}: say which one holds "
            "the confidences with --list-column."
        )
    name = lists[0] if list_column is None else list_column
    if lists.count(name) != 1 or table.schema.names.count(name) != 1:
        raise UnlabelError(
            f"{table.path} has {lists.count(name)} columns of lists {name!r} and needs one: its "
            f"columns are {listing(table.schema.names)}."
        )
    kind = table.schema.field(name).type
    if pa.types.is_nested(kind.value_type):
        raise UnlabelError(
            f"{table.path} has lists of {kind.value_type} in column {name!r}: give lists of "
            "numbers."
        )
    if classes is None:
        lengths = pc.list_value_length(table.head().column(name))
        classes = range(lengths[0].as_py() or 0)
    known = as_classes(classes)
    fixed_size = pa.types.is_fixed_size_list(kind)
    return ListColumn(name, known, fixed_size, order=_order(table, known))


def _is_wide(table: Table, classes: Sequence[Label] | None, lists: list[str]) -> bool:
    """Whether columns are named after the labels; some of the labels alone tell nothing."""
    if classes is None:
        return False
    kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
    missing = [label for label in classes if str(label) not in kinds]
    named = [label for label in classes if pa.types.is_floating(kinds.get(str(label), pa.null()))]
    if not missing and len(named) < len(classes):
        other = next(label for label in classes if not pa.types.is_floating(kinds[str(label)]))
        raise UnlabelError(
            f"{table.path} has {kinds[str(other)]} in the column of the label {other!r}, and lists "
            f"in column {lists[0]!r}: if those hold the confidences, say so with --list-column."
        )
    if missing and named:
        raise UnlabelError(
            f"{table.path} has a column of numbers for the label {named[0]!r}, none for "
            f"{missing[0]!r}, and lists in column {lists[0]!r}: if those hold the confidences, say "
            "so with --list-column."
        )
    return not missing


def _order(table: Table, classes: tuple[Label, ...]) -> tuple[int, ...] | None:
    """Where the lists of a table that names its labels have each of the `classes`."""
    if table.classes is None:
        return None
    own, wanted = positions_by_text(table.classes), positions_by_text(classes)
    for label in classes:
        if str(label) not in own:
            raise UnlabelError(
                f"{table.path} names the labels of its columns in 'classes', and {label!r} is not "
                f"among them: they are {listing(table.classes)}."
            )
    for label in table.classes:
        if str(label) not in wanted:
            raise UnlabelError(
                f"{table.path} has a label {label!r} in 'classes' that is not among the "
                f"{len(classes)} labels {listing(classes)}: give a table of these labels."
            )
    order = tuple(own[text] for text in wanted)
    return None if order == tuple(range(len(order))) else order


def _find_wide(
    table: Table, classes: Sequence[Label] | None, label_column: str | None
) -> WideColumns:
    names, guess, doubtful = table.schema.names, "", ""
    if classes is None:
        head = table.head()
        classes = [name for name in decimal_columns(head) if name != label_column]
        zeros, whole = (
            [name for name in names if name != label_column] for names in doubtful_columns(head)
        )
        if zeros:
            raise UnlabelError(
                f"{table.path} has 0 in every row of column {zeros[0]!r}, which may be a label or "
                "not: name the labels with --classes."
            )
        if len(classes) < 2:
            raise UnlabelError(
                f"{table.path} has no columns of decimal numbers that could be confidences: "
                + (
                    numbers_of_another_kind(head)
                    or "name the labels with --classes, or the column of lists with --list-column."
                )
            )
        guess = f"The labels were taken to be {listing(classes)}: if not, name them with --classes."
        doubtful = next((name for name in whole if name not in classes), "")
    wide = WideColumns(as_classes(classes), guess, doubtful)
    times = Counter(names)
    for name in wide.names:
        if times[name] != 1:
            raise UnlabelError(
                f"{table.path} has {times[name]} columns {name!r} and needs one for the "
                f"label of that name: its columns are {listing(names)}."
            )
    return wide


def no_label_column(
    table: Table, name: str, classes: Sequence[Label] | None, list_column: str | None
) -> UnlabelError:
    """Say that no one column of true labels is there, and which may be meant."""
    names = table.schema.names
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    hint = f"the nearest is {near[0]!r}"
    with suppress(UnlabelError):
        found = _label_columns(table.head(), find_columns(table, classes, list_column=list_column))
        if len(found) == 1:
            hint = f"the one that holds labels is {found[0]!r}"
    return UnlabelError(
        f"{table.path} has {names.count(name)} columns {name!r} and needs one: choose it with "
        f"--label-column; {hint}."
    )


def _label_columns(batch: pa.RecordBatch, columns: TableColumns) -> list[str]:
    """The names of the columns that hold labels and nothing else."""
    confidences, found = set(columns.names), []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in confidences:
            continue
        with suppress(UnlabelError):
            values = label_cells(column, name).unique().drop_null()
            if len(values) and None not in label_positions(values, columns.classes):
                found.append(name)
    return found


def replaced(
    batch: pa.RecordBatch,
    source: TableColumns,
    confidences: dict[str, pa.Array],
    added: dict[str, pa.Array],
) -> pa.RecordBatch:
    """Put new confidences in the place of a batch's own, and further columns at its end."""
    own = set(source.names)
    same_layout = own.issuperset(confidences)
    first = next(name for name in batch.schema.names if name in own)
    named: list[tuple[pa.Field, pa.Array]] = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        name = field.name
        if name not in own:
            named.append((field, column))
        elif same_layout and name in confidences:
            named.append(_named(name, confidences[name]))
        elif not same_layout and name == first:
            named += [_named(*item) for item in confidences.items()]
    named += [_named(*item) for item in added.items()]
    fields, columns = zip(*named, strict=True)
    schema = pa.schema(fields, batch.schema.metadata)
    return pa.RecordBatch.from_arrays(list(columns), schema=schema)


def _named(name: str, column: pa.Array) -> tuple[pa.Field, pa.Array]:
    return pa.field(name, column.type), column


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
