"""Rewrite the batches of a table with a filter's result, wherever they come from."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from unlabel._labels import known_columns
from unlabel._tables.layout import ListColumn, TableColumns, WideColumns, replace_confidences
from unlabel._tables.writing import plain_labels
from unlabel._typing import Floats
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

TOP_LABEL, REMOVED_MASS = "top_label", "removed_mass"


@dataclass(frozen=True)
class ApplyOptions:
    """The options of `apply`, whichever engine reads and writes the table."""

    top_label: bool = False
    removed_mass: bool = False
    only_changed: bool = False
    list_column: str | None = None
    normalize: bool = False  # divide each row by its sum first
    overwrite: bool = False


@dataclass(frozen=True)
class Rewriting:
    """How a filter rewrites the batches of a table, wherever they come from."""

    fitted: OutputFilter
    source: TableColumns
    target: TableColumns
    options: ApplyOptions

    def of(self, batch: pa.RecordBatch, rows: Floats) -> tuple[pa.RecordBatch, int]:
        """Rewrite a batch with its validated `rows`, and count those whose top label changed."""
        result, mass, *_ = self.fitted.filter_checked(rows, with_mass=self.options.removed_mass)
        top = result.argmax(axis=1)
        added = {}
        if self.options.top_label:
            added[TOP_LABEL] = self._labels.take(pa.array(top))
        if mass is not None:
            added[REMOVED_MASS] = pa.array(mass)
        confidences = self.target.columns(result)
        after = replace_confidences(batch, self.source, confidences, added, self._places)
        changed = self.fitted.has_changed(rows.argmax(axis=1), top)
        if self.options.only_changed:
            after = after.filter(pa.array(changed))
        return after, int(changed.sum())

    @cached_property
    def _labels(self) -> pa.Array:
        return pa.array(plain_labels(self.fitted.classes))

    @cached_property
    def _places(self) -> dict[str, list[str]] | None:
        """The target's columns in the place of each column of the source, if both are wide.

        A column stands where that of the first label that goes there stood.
        """
        if isinstance(self.source, ListColumn) or isinstance(self.target, ListColumn):
            return None
        outcome, places = self.fitted.outcome, dict[str, list[str]]()
        merge, first = outcome.merge, outcome.retained
        if merge is not None:
            first = first[merge.sources[merge.starts]]
        for column, name in zip(first.tolist(), self.target.names, strict=True):
            places.setdefault(self.source.names[column], []).append(name)
        return places

    def schema(self, schema: pa.Schema, table: str) -> pa.Schema:
        """Give the schema of the result, and refuse a table that has an added column already."""
        # An empty batch goes the way of all others, so that the schemas cannot differ.
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        after = self.of(empty, self.source.read(empty, 0))[0].schema
        times = Counter(after.names)
        for name in (TOP_LABEL, REMOVED_MASS, *self.target.names):
            if times[name] > 1:
                raise UnlabelError(f"{table} has a column {name!r} already: rename it first.")
        return after if set(schema.names).issuperset(after.names) else _names_are_texts(after)


def _names_are_texts(schema: pa.Schema) -> pa.Schema:
    """Keep pandas from reading the names of new columns as numbers, if it wrote the table so."""
    with suppress(KeyError, TypeError, ValueError, RecursionError):
        pandas = json.loads(schema.metadata[b"pandas"])
        del pandas["column_indexes"]
        return schema.with_metadata(schema.metadata | {b"pandas": json.dumps(pandas)})
    return schema


def target_columns(
    fitted: OutputFilter, source: TableColumns, out: Path | None = None
) -> TableColumns:
    """Choose the layout of the output: the input's, if the output's format allows it.

    Its labels are the result's, by the names of the source's columns where it has them.
    """
    at = known_columns(fitted.classes, fitted.classes_in).tolist()
    classes = tuple(
        label if column < 0 else source.classes[column]
        for label, column in zip(fitted.classes, at, strict=True)
    )
    ending = "" if out is None else out.suffix
    if ending == ".csv":
        return WideColumns(classes)
    if ending in (".npy", ".npz"):
        if isinstance(source, ListColumn):
            return replace(source, classes=classes, fixed_size=True)
        return ListColumn("confidences", classes)
    return replace(source, classes=classes)
