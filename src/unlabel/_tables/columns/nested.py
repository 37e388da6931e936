"""Confidences in one nested column: structs, maps, or lists of a label and its score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._tables.cells import as_floats, taken
from unlabel._tables.entries import Entries
from unlabel._tables.entry_cells import entries_of_cells
from unlabel._tables.label_columns import labels_in_type
from unlabel._tables.labels import label_cells
from unlabel._typing import Booleans, Columns, Floats, Label
from unlabel.errors import UnlabelError

LABEL_NAMES = ("label", "token", "class")
LOG_NAMES = ("logprob", "logProbability")
SCORE_NAMES = ("score", "probability", "confidence", *LOG_NAMES)


@dataclass(frozen=True)
class StructColumn:
    """Confidences in a single column of structs, with one field per label."""

    name: str
    kind: pa.StructType
    classes: tuple[Label, ...] = ()
    guess: str = ""
    doubtful: str = ""

    @property
    def layout(self) -> str:
        """Where the confidences are, in words."""
        return f"structs in the column {self.name!r}"

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [self.name]

    def read(self, batch: pa.RecordBatch) -> Floats:
        """Read the confidences of a batch; a label without a field is NaN, as an empty one is."""
        column = batch.column(self.name)
        fields = dict(zip(column.type.names, column.flatten(), strict=True))
        none = pa.nulls(len(batch), pa.float32())
        return np.column_stack(
            [
                as_floats(fields.get(str(label), none), f"{self.name}.{label}")
                for label in self.classes
            ]
        )

    def columns(self, rows: Floats) -> dict[str, pa.Array]:
        """Turn an array of confidences into columns."""
        fields = [pa.array(column, from_pandas=True) for column in np.ascontiguousarray(rows.T)]
        return {self.name: pa.StructArray.from_arrays(fields, [*map(str, self.classes)])}


@dataclass(frozen=True)
class EntryColumn:
    """Confidences in a single column of maps, or of lists of a label and its score.

    In the structs of such lists, fields besides these two are not written again.
    """

    name: str
    kind: pa.DataType
    fields: tuple[pa.Field, pa.Field]  # of the labels and of the scores
    classes: tuple[Label, ...] = ()
    partial: bool = False  # whether a row may name only some labels
    descending: Booleans | None = None  # the rows that are written from the largest score on
    guess: str = ""
    doubtful: str = ""

    @property
    def layout(self) -> str:
        """Where the confidences are, in words."""
        kind = "maps" if pa.types.is_map(self.kind) else "lists of labels with scores"
        return f"{kind} in the column {self.name!r}"

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold confidences."""
        return [self.name]

    @property
    def logs(self) -> bool:
        """Whether the scores are logarithms by their name."""
        return not pa.types.is_map(self.kind) and self.fields[1].name in LOG_NAMES

    def read(self, batch: pa.RecordBatch) -> Floats:
        """Read the confidences of a batch into an array."""
        return self.entries(batch).rows(self.classes, partial=self.partial)

    def entries(self, batch: pa.RecordBatch) -> Entries:
        """Read the labels of each row of a batch, with their scores."""
        starts, labels, scores = self._cells(batch)
        try:
            return entries_of_cells(
                starts, labels, scores, self.classes, names=(self.name, self.name)
            )
        except UnlabelError as error:
            if isinstance(error.row, int):  # of an entry
                error.row = int(np.searchsorted(starts, error.row, "right")) - 1
            raise

    def labels(self, batch: pa.RecordBatch) -> pa.Array:
        """Read the labels that the rows of a batch name."""
        return label_cells(self._cells(batch)[1], self.name)

    def ordered_like(self, batch: pa.RecordBatch) -> EntryColumn:
        """Write those rows from the largest score on that a batch names so."""
        starts, _, scores = self._cells(batch)
        entries = Entries(starts, np.empty(0, np.intp), as_floats(scores, self.name))
        return replace(self, descending=entries.descending())

    def _cells(self, batch: pa.RecordBatch) -> tuple[Columns, pa.Array, pa.Array]:
        """Return the places where the entries of each row start, their labels and their scores."""
        lists, fields = batch.column(self.name), self.fields
        if pa.types.is_map(self.kind):
            lists = pc.cast(lists, pa.list_(pa.struct(fields)))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        entries = lists.flatten()
        cells = dict(zip(entries.type.names, entries.flatten(), strict=True))
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.intp)])
        return starts, cells[fields[0].name], cells[fields[1].name]

    def columns(self, rows: Floats) -> dict[str, pa.Array]:
        """Turn an array of confidences into columns."""
        is_map = pa.types.is_map(self.kind)
        in_order = np.zeros(len(rows), dtype=np.bool_)
        entries = Entries.of(rows, in_order if self.descending is None else self.descending)
        labels, scores = taken(self._labels, entries.labels), pa.array(entries.scores)
        if is_map:
            return {self.name: pa.MapArray.from_arrays(entries.starts, labels, scores)}
        of_label, of_score = (field.name for field in self.fields)
        columns = {of_label: labels, of_score: scores}
        names = [name for name in self.kind.value_type.names if name in columns]
        structs = pa.StructArray.from_arrays([columns[name] for name in names], names)
        kind = pa.LargeListArray if pa.types.is_large_list(self.kind) else pa.ListArray
        return {self.name: kind.from_arrays(entries.starts, structs)}

    @cached_property
    def _labels(self) -> pa.Array:
        return labels_in_type(self.classes, self.fields[0].type, self.name)


NestedColumn = StructColumn | EntryColumn


def nested_column(field: pa.Field, *, partial: bool) -> NestedColumn | None:
    """Return how a column of a nested type can hold confidences, if it can."""
    kind, types = field.type, pa.types
    if types.is_struct(kind):
        is_candidate = kind.num_fields > 0 and all(_is_number(each.type) for each in kind)
        return StructColumn(field.name, kind) if is_candidate else None
    fields = None
    if types.is_map(kind):
        if not types.is_nested(kind.key_type) and _is_number(kind.item_type):
            fields = kind.key_field, kind.item_field
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        fields = _entry_fields(kind.value_type)
    return None if fields is None else EntryColumn(field.name, kind, fields, partial=partial)


def _entry_fields(kind: pa.DataType) -> tuple[pa.Field, pa.Field] | None:
    """Find the field of the label and that of the score, if a struct has one of each."""
    if not pa.types.is_struct(kind):
        return None
    labels = [field for field in kind if field.name in LABEL_NAMES]
    scores = [field for field in kind if field.name in SCORE_NAMES]
    if len(labels) != 1 or len(scores) != 1 or pa.types.is_nested(labels[0].type):
        return None
    return labels[0], scores[0]


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_floating(kind) or types.is_decimal(kind) or types.is_integer(kind))
