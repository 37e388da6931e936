"""Where a table keeps its confidences: one column per label, or a single list column."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._tables.cells import as_floats, numeric_columns, spreadsheet_number_advice
from unlabel._tables.columns.nested import NestedColumn
from unlabel._tables.files.array_files import list_column
from unlabel._tables.files.formats import Table
from unlabel._tables.labels import label_cells, label_positions, positions_by_text
from unlabel._tables.predictions import Part
from unlabel._typing import Floats, Label
from unlabel.errors import UnlabelError
from unlabel.labels import COMPARED_LETTERS, MAX_COMPARED, as_classes, listing


@dataclass(frozen=True)
class WideColumns:
    """Confidences in one column per label, named after it."""

    classes: tuple[Label, ...]
    guess: str = ""  # added to messages about rows if the columns were guessed
    doubtful: str = ""  # a column that the guess left out and that may belong to a label

    def __post_init__(self) -> None:
        positions_by_text(self.classes)

    @property
    def layout(self) -> str:
        """Where the confidences are, in words."""
        return "one column per label"

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [str(label) for label in self.classes]

    def read(self, batch: pa.RecordBatch) -> Floats:
        """Read the confidences of a batch into an array."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return np.column_stack([as_floats(columns[name], name) for name in self.names])

    def columns(self, rows: Floats) -> dict[str, pa.Array]:
        """Turn an array of confidences into columns, with empty cells for NaN."""
        by_label = np.ascontiguousarray(rows.T)
        return {name: pa.array(by_label[i], from_pandas=True) for i, name in enumerate(self.names)}


@dataclass(frozen=True)
class ListColumn:
    """Confidences in a single list column, with one entry per label."""

    name: str
    classes: tuple[Label, ...]
    fixed_size: bool = True
    guess: str = ""
    doubtful: str = ""
    order: tuple[int, ...] | None = None  # the labels' places in the lists, unless in order

    @property
    def layout(self) -> str:
        """Where the confidences are, in words."""
        return f"lists in the column {self.name!r}"

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [self.name]

    def read(self, batch: pa.RecordBatch) -> Floats:
        """Read the confidences of a batch into an array."""
        lists = batch.column(self.name)
        lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy(zero_copy_only=False)
        labels = len(self.classes)
        wrong = lengths != labels
        if wrong.any():
            at = int(np.argmax(wrong))
            found = f"{lengths[at]} entries" if lengths[at] >= 0 else "no list"
            raise UnlabelError(
                f"It has {found} in column {self.name!r} and there are {labels} labels: give one "
                "entry per label.",
                row=at,
            )
        rows = as_floats(lists.flatten(), self.name, labels).reshape(-1, labels)
        return rows if self.order is None else rows[:, self.order]

    def columns(self, rows: Floats) -> dict[str, pa.Array]:
        """Turn an array of confidences into columns."""
        lists = list_column(rows)
        return {
            self.name: lists if self.fixed_size else lists.cast(pa.list_(lists.type.value_type))
        }


TableColumns = WideColumns | ListColumn | NestedColumn


@dataclass(frozen=True)
class ColumnPart:
    """The rows of a batch, as a part of a table."""

    batch: pa.RecordBatch
    columns: TableColumns
    first_row: int = 0

    def __len__(self) -> int:
        return len(self.batch)

    def confidences(self) -> Floats:
        """Read the confidences, with one column per label."""
        return self.columns.read(self.batch)

    def cells(self, name: str) -> pa.Array:
        """Return the cells of a column."""
        return self.batch.column(name)

    def others(self) -> dict[str, pa.Array]:
        """Return the columns beside the confidences, but for those that share a name."""
        times, own = Counter(self.batch.schema.names), {*self.columns.names}
        return {name: self.cells(name) for name in times if times[name] == 1 and name not in own}

    def elsewhere(self) -> None:
        """Columns that are not named after labels hold no confidences."""

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        return f"row {self.first_row + row}"


def find_columns(
    schema: pa.Schema,
    classes: Sequence[Label] | None,
    list_column: str | None,
    *,
    table: str,
    argument: str = "list_column",
) -> WideColumns | ListColumn | None:
    """Find the confidences in the columns named after the labels, or else in the only list column.

    Without `classes` a list column has no labels yet, and other columns are not looked at.
    `table` and `argument` are for messages: the names of the table and of the argument that
    chooses a list column.
    """
    lists = [field.name for field in schema if _is_list(field.type)]
    decimals = {field.name for field in schema if pa.types.is_floating(field.type)}
    if len(decimals) > 1 if classes is None else decimals.issuperset(map(str, classes)):
        # Beside columns of decimals, lists of texts are tags or the like.
        lists = [name for name in lists if not _is_text(schema.field(name).type.value_type)]
    if list_column is None:
        if classes is not None and _is_wide(schema, classes, lists, table, argument):
            wide = WideColumns(as_classes(classes))
            require_columns(schema.names, wide.names, table)
            return wide
        if len(lists) > 1:
            raise UnlabelError(
                f"It has several list columns, {listing(lists)}: choose the one with the "
                "confidences.",
                argument=argument,
                path=table,
            )
        if not lists:
            return None
        [list_column] = lists
    require_columns(schema.names, [list_column], table)
    kind = schema.field(list_column).type
    if not _is_list(kind) or pa.types.is_nested(kind.value_type):
        raise UnlabelError(
            f"It has {kind} in column {list_column!r}: give lists of numbers.", path=table
        )
    known = () if classes is None else as_classes(classes)
    return ListColumn(list_column, known, pa.types.is_fixed_size_list(kind))


def require_columns(names: Sequence[str], wanted: Iterable[str], table: str) -> None:
    """Refuse a table that lacks a wanted column, or has two of that name."""
    times = Counter(names)
    for name in wanted:
        if times[name] > 1:
            raise UnlabelError(
                f"It has {times[name]} columns {name!r}: rename all but one.", path=table
            )
        if not times[name]:
            raise UnlabelError(
                f"It has no column {name!r}{nearest_column(names, name)}.", path=table
            )


def nearest_column(names: Sequence[str], name: str) -> str:
    """Return the part of a message that names the nearest column, if there is any."""
    by_start = {known[:COMPARED_LETTERS]: known for known in names[:MAX_COMPARED]}
    near = difflib.get_close_matches(name[:COMPARED_LETTERS], by_start, n=1, cutoff=0.0)
    return f"; the nearest is {listing([by_start[near[0]]])}" if near else ""


def _is_wide(
    schema: pa.Schema, classes: Sequence[Label], lists: list[str], table: str, argument: str
) -> bool:
    """Whether the labels' columns hold the confidences; refuse a table with some of them."""
    if not lists:
        return True
    kinds = dict(zip(schema.names, schema.types, strict=True))
    found = [kinds.get(str(label)) for label in classes]
    are_floats = [kind is not None and pa.types.is_floating(kind) for kind in found]
    if all(are_floats) or (None in found and not any(are_floats)):
        return all(are_floats)
    at = are_floats.index(False)
    raise UnlabelError(
        f"It has {f'{found[at]} values' if found[at] else 'no column'} for the label "
        f"{classes[at]!r}, and lists in column {lists[0]!r}: if those hold "
        "the confidences, say so.",
        argument=argument,
        path=table,
    )


def table_columns(
    table: Table,
    classes: Sequence[Label] | None,
    *,
    list_column: str | None = None,
    label_column: str | None = None,
) -> TableColumns:
    """Find the confidences of a table, guessing which columns they are if nothing names them."""
    classes = table.classes if classes is None else classes
    columns = find_columns(table.schema, classes, list_column, table=str(table.path))
    if columns is None:
        return guess_wide(table, label_column)
    if isinstance(columns, WideColumns):
        return columns
    if classes is None:
        lengths = pc.list_value_length(table.head().column(columns.name))
        columns = replace(columns, classes=tuple(range(lengths[0].as_py() or 0)))
        if list_column is None:
            _refuse_doubtful_lists(table, columns, label_column)
        return columns
    return replace(columns, order=_order(table, columns.classes))


def _refuse_doubtful_lists(table: Table, columns: ListColumn, label_column: str | None) -> None:
    """Refuse lists that may be embeddings, beside columns that may be the labels'."""
    decimals = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    others = [name for name in decimals if name != label_column]
    is_doubtful = False
    with suppress(UnlabelError):  # of lists that cannot be read, which is said later
        is_doubtful = len(others) > 1 and bool(columns.read(table.head()).min() < 0)
    if is_doubtful:
        raise UnlabelError(
            f"It has lists in column {columns.name!r}, and decimal numbers in the "
            f"columns {listing(others)}: name the labels of the latter, or choose the lists.",
            argument="list_column",
            path=table.path,
        )


def _order(table: Table, classes: tuple[Label, ...]) -> tuple[int, ...] | None:
    """Find the places of the `classes` in the lists of a table that names its own labels."""
    if table.classes is None:
        return None
    own, wanted = positions_by_text(table.classes), positions_by_text(classes)
    for label in classes:
        if str(label) not in own:
            raise UnlabelError(
                f"It names the labels of its columns in 'classes', and {label!r} is not "
                f"among them: they are {listing(table.classes)}.",
                path=table.path,
            )
    for label in table.classes:
        if str(label) not in wanted:
            raise UnlabelError(
                f"It has a label {label!r} in 'classes' that is not among the "
                f"{len(classes)} labels {listing(classes)}: give a table of these labels.",
                path=table.path,
            )
    order = tuple(own[text] for text in wanted)
    return None if order == tuple(range(len(order))) else order


def guess_wide(table: Table, label_column: str | None) -> WideColumns:
    """Take the columns of decimal numbers for the labels'; refuse to guess in case of doubt."""
    head = table.head()
    decimals, zeros, whole = (
        [name for name in names if name != label_column] for names in numeric_columns(head)
    )
    if zeros:
        raise UnlabelError(
            f"It has 0 in every row of column {zeros[0]!r}, which may or may not be a "
            "label: name the labels.",
            path=table.path,
            argument="classes",
        )
    if len(decimals) < 2:
        numbers = spreadsheet_number_advice(head)
        raise UnlabelError(
            "It has no columns of decimal numbers that could be confidences: "
            f"{numbers or 'name the labels, or the list column.'}",
            argument=None if numbers else "classes",
            path=table.path,
        )
    guess = f"The labels were taken to be {listing(decimals)}: if not, name them."
    require_columns(table.schema.names, decimals, str(table.path))
    doubtful = next((name for name in whole if name not in decimals), "")
    return WideColumns(as_classes(decimals), guess, doubtful)


def no_label_column(table: Table, name: str, head: Part, classes: Sequence[Label]) -> UnlabelError:
    """Describe a missing column of true labels, and name the column that may be meant."""
    hint = nearest_column(table.schema.names, name)
    found = [other for other, cells in head.others().items() if _holds_labels(cells, classes)]
    if len(found) == 1:
        hint = f"; the one that holds labels is {found[0]!r}"
    return UnlabelError(
        f"It has no column {name!r}: name the true labels' column{hint}.",
        path=table.path,
        argument="label_column",
    )


def _holds_labels(column: pa.Array, classes: Sequence[Label]) -> bool:
    with suppress(UnlabelError):
        values = label_cells(column, "").unique().drop_null()
        return len(values) > 0 and None not in label_positions(values, classes)
    return False


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
