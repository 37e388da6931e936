"""Rows of whole ids of a long table, which has one row per id and label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._tables.cells import is_text, plain, taken
from unlabel._tables.entries import Entries
from unlabel._tables.entry_cells import entries_of_cells
from unlabel._tables.labels import label_cells
from unlabel._tables.long.seen_ids import id_cells
from unlabel._typing import Columns, Floats, Label
from unlabel.errors import UnlabelError
from unlabel.labels import is_missing, listing


@dataclass(frozen=True)
class LongColumns:
    """The columns of a long table with the ids, the labels and the scores."""

    id: str
    label: str
    score: str
    classes: tuple[Label, ...] = ()
    partial: bool = False  # whether an id may name only some labels

    @property
    def names(self) -> list[str]:
        """The names of the three columns."""
        return [self.id, self.label, self.score]


@dataclass(frozen=True, eq=False)
class LongPart:
    """Some ids of a long table; each of them is a row of confidences."""

    batch: pa.RecordBatch
    columns: LongColumns
    starts: Columns  # behind the first rows of all ids, the number of rows
    first_row: int = 0

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def entries(self) -> Entries:
        """The labels of each id, with their scores."""
        columns, classes = self.columns, self.columns.classes
        labels, scores = self.batch.column(columns.label), self.batch.column(columns.score)
        names = columns.label, columns.score
        try:
            return entries_of_cells(self.starts, labels, scores, classes, names=names)
        except UnlabelError as error:
            if isinstance(error.row, int):  # one of the id's rows
                error.row = self._place_of_row(error.row)
            raise

    def confidences(self) -> Floats:
        """Read the confidences, with one column per label, NaN where an id does not name it."""
        entries, classes = self.entries, self.columns.classes
        if not self.columns.partial:
            for row in np.flatnonzero(np.diff(self.starts) < len(classes)).tolist():
                own = entries.labels[self.starts[row] : self.starts[row + 1]]
                [first, *_] = np.setdiff1d(np.arange(len(classes)), own).tolist()
                raise UnlabelError(
                    f"It does not name the label {classes[first]!r} among the {len(own):,} of its "
                    "id: give all labels, in rows that stand together, or say that rows are "
                    "partial.",
                    argument="partial",
                    row=row,
                )
        return entries.rows(classes, partial=self.columns.partial)

    def cells(self, name: str) -> pa.Array:
        """Return the cells of a column that has one value per id."""
        column = self.batch.column(name)
        if not pa.types.is_nested(column.type):  # which no option takes
            values = plain(column).dictionary_encode("encode").indices.to_numpy()
            firsts = np.repeat(values[self.starts[:-1]], np.diff(self.starts))
            for at in np.flatnonzero(values != firsts).tolist():
                row = int(np.searchsorted(self.starts, at, "right")) - 1
                raise UnlabelError(
                    f"It is the first of its id, whose rows have several values in column "
                    f"{name!r}: give all of them the same.",
                    row=row,
                )
        return self.of_first_rows(name)

    def of_first_rows(self, name: str) -> pa.Array:
        """Return the cells of a column in the first row of each id."""
        return taken(self.batch.column(name), self.starts[:-1])

    def others(self) -> dict[str, pa.Array]:
        """Return the columns beside those of the scores, but for those that share a name."""
        times, own = Counter(self.batch.schema.names), {*self.columns.names}
        names = [name for name in times if times[name] == 1 and name not in own]
        return {name: self.of_first_rows(name) for name in names}

    def elsewhere(self) -> None:
        """Labels that the model does not have are refused."""

    def place(self, row: int) -> str:
        """Return where an id is, for messages."""
        return self._place_of_row(int(self.starts[row]))

    def _place_of_row(self, at: int) -> str:
        shown = listing([shown_id(self.batch.column(self.columns.id)[at])])
        return f"row {self.first_row + at} (id {shown})"


def shown_id(cell: pa.Scalar) -> object:
    """Return an id as messages show it."""
    value = cell.as_py()
    return value if isinstance(value, str | int | float) else str(value)


def starts_of_ids(ids: pa.Array, name: str) -> Columns:
    """Find the first row of each id in a column of at least one; refuse rows without an id."""
    is_none = pc.is_null(ids, nan_is_null=True)
    if is_text(ids.type):
        is_none = pc.or_(is_none, pc.fill_null(pc.equal(ids, ""), True))
    if (row := pc.index(is_none, True).as_py()) >= 0:
        raise UnlabelError(f"It has no id in column {name!r}: give it one.", row=row)
    changes = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def labels_of_first_id(batches: Iterator[pa.RecordBatch], columns: LongColumns) -> list[Label]:
    """Read the labels of the first id, in the order of its rows.

    A label that comes twice ends the reading, so that one id for all rows is not read whole.
    """
    labels: list[Label] = []
    first: pa.Scalar | None = None
    for batch in filter(len, batches):
        ids = id_cells(batch.column(columns.id), columns.id)
        starts = starts_of_ids(ids, columns.id)
        if first is None:
            first = ids[0]
        elif ids[0] != first:
            break
        end = int(starts[1]) if len(starts) > 1 else len(batch)
        labels += _labels(batch.column(columns.label)[:end], columns.label)
        if len(starts) > 1 or len({*labels}) < len(labels):
            break
    return labels


def _labels(column: pa.Array, name: str) -> Sequence[Label]:
    cells = label_cells(plain(column), name)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if not any(is_kind(cells.type) for is_kind in kinds):
        cells = pc.cast(cells, pa.string())
    labels: list[Label] = cells.to_pylist()
    for row in (row for row, label in enumerate(labels) if is_missing(label)):
        raise UnlabelError(f"It has no label in column {name!r}: give it one.", row=row)
    return labels
