"""Results in the columns of Arrow tables: in the place of the model's own confidences."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from unlabel._tables.cells import taken
from unlabel._tables.columns.layout import (
    ColumnPart,
    ListColumn,
    TableColumns,
    WideColumns,
)
from unlabel._tables.columns.nested import EntryColumn
from unlabel._tables.files.formats import SEPARATED
from unlabel._tables.predictions import Format
from unlabel._tables.result_schema import NamedColumn, batch_of, named, result_schema
from unlabel._tables.rewriting import Rewriting, Rewritten
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.labels import known_columns


@dataclass(frozen=True)
class ColumnOutput:
    """How results go into columns, wherever the batches come from."""

    rewriting: Rewriting
    source: TableColumns
    target: TableColumns

    def of(self, batch: pa.RecordBatch, rewritten: Rewritten) -> pa.RecordBatch:
        """Put a result in the place of a batch's confidences, and further columns at the end."""
        own = set(self.source.names)
        target = self.target
        if isinstance(target, EntryColumn):
            target = target.ordered_like(batch)
        confidences = target.columns(rewritten.confidences)
        waiting, columns = self.target.names, list[NamedColumn]()
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if field.name not in own:
                columns.append((field, rewritten.updated.get(field.name, column)))
                continue
            names = waiting if self._places is None else self._places.get(field.name, ())
            columns += [named(name, confidences[name]) for name in names]
            waiting = []
        columns += [named(*item) for item in rewritten.added.items()]
        if rewritten.kept is not None:
            rows = np.flatnonzero(rewritten.kept)
            columns = [(field, taken(column, rows)) for field, column in columns]
        return batch_of(columns, batch)

    @cached_property
    def _places(self) -> dict[str, list[str]] | None:
        """The target's columns in the place of each column of the source, if both are wide.

        A column stands where that of the first label that goes there stood. Otherwise all
        stand where the first of the source stood.
        """
        if not (isinstance(self.source, WideColumns) and isinstance(self.target, WideColumns)):
            return None
        names, places = self.source.names, dict[str, list[str]]()
        first = self.rewriting.first_sources.tolist()
        for column, name in zip(first, self.target.names, strict=True):
            places.setdefault(names[column], []).append(name)
        return places

    def schema(self, schema: pa.Schema, table: str) -> pa.Schema:
        """Return the schema of the result; refuse columns that do not fit the options."""
        update = self.rewriting.options.update_column
        if update in self.source.names:
            raise UnlabelError(
                f"It has confidences in column {update!r}: choose a column of labels.",
                path=table,
                argument="update_column",
            )
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        after = result_schema(
            self.rewriting,
            ColumnPart(empty, self.source),
            lambda rewritten: self.of(empty, rewritten),
            names=schema.names,
            own=self.target.names,
            table=table,
        )
        return after if set(schema.names).issuperset(after.names) else _names_are_texts(after)


def _names_are_texts(schema: pa.Schema) -> pa.Schema:
    """Keep pandas from reading the names of new columns as numbers, if it wrote the table so."""
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        pandas = json.loads(schema.metadata[b"pandas"])
        del pandas["column_indexes"]
        return schema.with_metadata(schema.metadata | {b"pandas": json.dumps(pandas)})
    return schema


def target_columns(
    fitted: OutputFilter, source: TableColumns, format: Format | None = None
) -> TableColumns:
    """Choose the layout of the output: the input's, if the output's format allows it.

    Its labels are the result's, by the names of the source's columns where it has them.
    """
    at = known_columns(fitted.classes_out, fitted.classes_in).tolist()
    classes = tuple(
        label if column < 0 else source.classes[column]
        for label, column in zip(fitted.classes_out, at, strict=True)
    )
    if format in SEPARATED:
        return WideColumns(classes)
    if format in ("npy", "npz"):
        if isinstance(source, ListColumn):
            return replace(source, classes=classes, fixed_size=True)
        return ListColumn("confidences", classes)
    return replace(source, classes=classes)
