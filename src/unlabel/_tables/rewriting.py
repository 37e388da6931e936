"""Rewrite the batches of a table with a filter's result, wherever they come from."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from unlabel._labels import as_labels, known_columns
from unlabel._tables.allowing import Allowing
from unlabel._tables.label_columns import update_labels
from unlabel._tables.layout import (
    ListColumn,
    TableColumns,
    WideColumns,
    replace_confidences,
    require_columns,
)
from unlabel._tables.writing import plain_labels
from unlabel._typing import Columns, Floats, Label
from unlabel.allow import Allowed
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

OLD_LABEL, TOP_LABEL = "old_label", "top_label"
REMOVED_MASS, NOT_ALLOWED = "removed_mass", "not_allowed"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class ApplyOptions:
    """The options of `apply`, whichever engine reads and writes the table."""

    top_label: bool = False
    removed_mass: bool = False
    only_changed: bool = False
    list_column: str | None = None
    normalize: bool = False  # divide each row by its sum first
    overwrite: bool = False
    allow: Allowing | None = None
    unknown_above: float | None = None
    unknown: Label | None = None  # the answer above it, by default UNKNOWN
    update_column: str | None = None


@dataclass(frozen=True)
class Rewriting:
    """How a filter rewrites the batches of a table, wherever they come from."""

    fitted: OutputFilter
    source: TableColumns
    target: TableColumns
    options: ApplyOptions

    def __post_init__(self) -> None:
        _check_unknown(self.options, self.fitted)

    def allowed(self, batch: pa.RecordBatch, first_row: int) -> Allowed | None:
        """Find the labels that each row of a batch may have, if not all."""
        allow = self.options.allow
        return None if allow is None else allow.of_rows(batch, first_row)

    def of(
        self, batch: pa.RecordBatch, rows: Floats, allowed: Allowed | None = None
    ) -> tuple[pa.RecordBatch, int]:
        """Rewrite a batch with its validated `rows`, and count those whose top label changed."""
        options, allow = self.options, self.options.allow
        filtered = self.fitted.filter_checked(
            rows,
            with_mass=options.removed_mass or options.unknown_above is not None,
            allowed=allowed,
            absolute=allow is not None and allow.scores == "absolute",
        )
        before, answers = rows.argmax(axis=1), _top(filtered.rows, allowed)
        changed = self.fitted.has_changed(before, answers)
        if options.unknown_above is not None and filtered.removed_mass is not None:
            is_unknown = filtered.removed_mass > options.unknown_above
            answers[is_unknown] = len(self.fitted.classes)
            changed |= is_unknown
        if options.update_column is not None:
            batch = update_labels(
                batch, options.update_column, self.fitted, before, answers, self._answers, allowed
            )
        added = {}
        if options.only_changed:
            added[OLD_LABEL] = self._old_labels.take(pa.array(before))
        if options.top_label or options.only_changed:
            added[TOP_LABEL] = self._labels.take(pa.array(answers))
        if options.removed_mass:
            added[REMOVED_MASS] = pa.array(filtered.removed_mass)
        if allow is not None and allow.not_allowed:
            added[NOT_ALLOWED] = pa.array(filtered.not_allowed)
        confidences = self.target.columns(filtered.rows)
        after = replace_confidences(batch, self.source, confidences, added, self._places)
        if options.only_changed:
            after = after.filter(pa.array(changed))
        return after, int(changed.sum())

    @property
    def _answers(self) -> tuple[Label, ...]:
        """The result's labels and, behind them, unknown if it may be the answer."""
        if self.options.unknown_above is None:
            return self.fitted.classes
        return *self.fitted.classes, _unknown(self.options)

    @cached_property
    def _labels(self) -> pa.Array:
        return pa.array(plain_labels(self._answers))

    @cached_property
    def _old_labels(self) -> pa.Array:
        return pa.array(plain_labels(self.fitted.classes_in))

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
        """Give the schema of the result; refuse a table without a column that is needed.

        A table that has an added column already is refused, too.
        """
        allow, update = self.options.allow, self.options.update_column
        needed = (None if allow is None else allow.by, update)
        require_columns(schema.names, [name for name in needed if name is not None], table)
        if update in self.source.names:
            raise UnlabelError(
                f"{table} has confidences in column {update!r}: choose a column of labels with "
                "update_column (--update-column)."
            )
        # An empty batch goes the way of all others, so that the schemas cannot differ.
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        after = self.of(empty, self.source.read(empty, 0), self.allowed(empty, 0))[0].schema
        times = Counter(after.names)
        for name in (OLD_LABEL, TOP_LABEL, REMOVED_MASS, NOT_ALLOWED, *self.target.names):
            if times[name] > 1:
                raise UnlabelError(f"{table} has a column {name!r} already: rename it first.")
        return after if set(schema.names).issuperset(after.names) else _names_are_texts(after)


def _top(rows: Floats, allowed: Allowed | None) -> Columns:
    """Find the top label of each row; it is an allowed one even if all of them have nothing."""
    top: Columns = rows.argmax(axis=1)
    if allowed is not None:
        nothing = np.flatnonzero(rows.max(axis=1, initial=0.0) == 0)
        top[nothing] = allowed.lists[allowed.of_row[nothing]].argmax(axis=1)
    return top


def _unknown(options: ApplyOptions) -> Label:
    return UNKNOWN if options.unknown is None else options.unknown


def _check_unknown(options: ApplyOptions, fitted: OutputFilter) -> None:
    """Refuse a threshold or a name for unknown that cannot be meant."""
    above = options.unknown_above
    if above is None:
        if options.unknown is not None:
            raise UnlabelError(
                "unknown (--unknown) is the answer above a removed mass: give that with "
                "unknown_above (--unknown-above)."
            )
        return
    if not 0 <= above <= 1:
        raise UnlabelError(
            f"unknown_above (--unknown-above) is {above}: give a probability, from 0 to 1."
        )
    if not (options.top_label or options.only_changed or options.update_column):
        raise UnlabelError(
            "unknown_above (--unknown-above) changes answers and none is written: add top_label "
            "(--top-label)."
        )
    [unknown] = as_labels([_unknown(options)], "unknown")
    if not str(unknown) or str(unknown) in map(str, fitted.classes):
        which = f"{unknown!r} is a label of the result" if str(unknown) else "Unknown has no name"
        raise UnlabelError(f"{which}: give another name with unknown (--unknown).")


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
