"""Results in long tables: one row per id and label of the result."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from unlabel._tables.cells import taken
from unlabel._tables.label_columns import labels_in_type
from unlabel._tables.long.part import LongColumns, LongPart
from unlabel._tables.result_schema import NamedColumn, batch_of, named, result_schema
from unlabel._tables.rewriting import Rewriting, Rewritten
from unlabel._typing import Columns, Floats
from unlabel.errors import UnlabelError
from unlabel.labels import known_columns


@dataclass(frozen=True)
class LongOutput:
    """How results go into the rows of a long table.

    A label of the result stands in the place of its own row, if that label goes there, or else
    of the first label that does. The other columns keep the cells of that row. An id whose
    labels come with the largest score first goes out so.
    """

    rewriting: Rewriting
    columns: LongColumns

    def of(self, part: LongPart, rewritten: Rewritten) -> pa.RecordBatch:
        """Return the rows of a part's results."""
        ids, labels, rows = self._order(part, rewritten)
        no_label = labels == rewritten.confidences.shape[1]

        def scores(values: Floats) -> pa.Array:
            return pa.array(values[ids, np.where(no_label, 0, labels)], mask=no_label)

        columns = list[NamedColumn]()
        for field, column in zip(part.batch.schema, part.batch.columns, strict=True):
            name = field.name
            if name == self.columns.label:
                names = labels_in_type(self.rewriting.fitted.classes_out, column.type, name)
                columns.append(named(name, taken(names, pa.array(labels, mask=no_label))))
            elif name == self.columns.score:
                columns.append(named(name, scores(rewritten.confidences)))
            elif name in rewritten.updated:
                columns.append((field, taken(rewritten.updated[name], ids)))
            else:
                columns.append((field, taken(column, rows)))
        columns += [named(name, taken(added, ids)) for name, added in rewritten.added.items()]
        return batch_of(columns, part.batch)

    def _order(self, part: LongPart, rewritten: Rewritten) -> tuple[Columns, Columns, Columns]:
        """Find the id and the label of each row of the result, and the row that it comes from.

        An id that names removed labels only has one row, without a label: its number is that
        of the labels.
        """
        scores = rewritten.confidences
        is_written = ~np.isnan(scores)
        is_written = np.column_stack([is_written, ~is_written.any(axis=1)])
        if rewritten.kept is not None:
            is_written &= rewritten.kept[:, None]
        rows = np.column_stack([self._rows(part), part.starts[:-1]])
        descending = part.entries.descending()[:, None]
        keys = np.where(descending, np.column_stack([-scores, np.zeros(len(part))]), rows)
        order = np.argsort(keys, axis=1, kind="stable")
        ids, places = np.nonzero(np.take_along_axis(is_written, order, axis=1))
        labels = order[ids, places]
        return ids, labels, rows[ids, labels]

    def _rows(self, part: LongPart) -> Columns:
        """Find the row in whose place each of the result's labels stands, id by id.

        It is that of the first label that goes there and is named, or else the id's first row.
        """
        sources, starts = self._sources
        entries, n = part.entries, len(self.columns.classes)
        row_of = np.full((len(part), n), -1)
        row_of[entries.of_row, entries.labels] = np.arange(len(entries.labels))
        rows = np.column_stack([row_of[:, sources], part.starts[:-1]])
        none = len(sources)
        named = np.where(rows[:, :none] >= 0, np.arange(none), none)
        return np.take_along_axis(rows, np.minimum.reduceat(named, starts, axis=1), axis=1)

    @cached_property
    def _sources(self) -> tuple[Columns, Columns]:
        """The model's labels that go to each of the result's, and where those of each start."""
        fitted = self.rewriting.fitted
        merge, sources = self.rewriting.outcome.merge, self.rewriting.outcome.retained
        if merge is None:
            return sources, np.arange(len(sources))
        sources = sources[merge.sources]
        own = known_columns(fitted.classes_out, fitted.classes_in)[merge.targets]
        return sources[np.lexsort((sources, sources != own, merge.targets))], merge.starts

    def schema(self, schema: pa.Schema, table: str) -> pa.Schema:
        """Return the schema of the result; refuse columns that do not fit the options."""
        update = self.rewriting.options.update_column
        if update in self.columns.names:
            raise UnlabelError(
                f"It has ids, labels or scores in column {update!r}: choose another column of "
                "labels.",
                path=table,
                argument="update_column",
            )
        batch = pa.RecordBatch.from_pylist([], schema=schema)
        empty = LongPart(batch, self.columns, np.zeros(1, dtype=np.intp))
        return result_schema(
            self.rewriting,
            empty,
            lambda rewritten: self.of(empty, rewritten),
            names=schema.names,
            own=(),
            table=table,
        )
