"""Filters fitted on tables and applied to tables, batch by batch."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unlabel._labels import known_columns, label_array, labels_to_remove
from unlabel._tables.formats import Table, open_table
from unlabel._tables.labels import positions_by_text, true_labels
from unlabel._tables.layout import (
    ListColumn,
    TableColumns,
    WideColumns,
    find_columns,
    no_label_column,
    replaced,
)
from unlabel._tables.writing import plain_labels, write_table
from unlabel._typing import Floats, InputKind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.validation import as_confidences, refuse_probabilities

Progress = Callable[[float], None]
TOP_LABEL, REMOVED_MASS = "top_label", "removed_mass"


def fit_table(
    path: str | os.PathLike[str],
    *,
    remove: Sequence[str] | None,
    keep: Sequence[str] | None,
    method: Method,
    input: InputKind,
    calibrate: bool,
    classes: Sequence[str] | None,
    list_column: str | None,
    label_column: str,
    progress: Progress,
) -> tuple[OutputFilter, str]:
    """Fit a filter on a table of reference rows; a sentence tells where labels were guessed."""
    needs_truth = calibrate or method != "mask"
    table = open_table(path)
    columns = confidence_columns(
        table, classes, list_column=list_column, label_column=label_column, needed=needs_truth
    )
    removed = labels_to_remove(
        columns.classes, labels_of(columns.classes, remove), labels_of(columns.classes, keep)
    )
    rows, labels = read_confidences(
        table,
        columns,
        input=input,
        label_column=label_column if needs_truth else None,
        only=None if calibrate or not needs_truth else removed,
        progress=progress,
    )
    fitted = fit_filter(
        rows,
        labels,
        classes=columns.classes,
        remove=removed,
        method=method,
        input=input,
        calibrate=calibrate,
    )
    return fitted, columns.guess


def labels_of(classes: Sequence[Label], texts: Sequence[str] | None) -> list[Label] | None:
    """The labels that texts of the command line mean; what is not a label stays as it is."""
    if texts is None:
        return None
    positions = positions_by_text(classes)
    return [classes[positions[text]] if text in positions else text for text in texts]


def open_confidences(
    path: str | os.PathLike[str],
    classes: Sequence[Label] | None = None,
    *,
    list_column: str | None = None,
    label_column: str | None = None,
) -> tuple[Table, TableColumns]:
    """Open a table and find its confidences, and its column of true labels if it needs one."""
    table = open_table(path)
    return table, confidence_columns(
        table, classes, list_column=list_column, label_column=label_column
    )


def confidence_columns(
    table: Table,
    classes: Sequence[Label] | None,
    *,
    list_column: str | None,
    label_column: str | None,
    needed: bool = True,
) -> TableColumns:
    """Find a table's confidences, beside its column of true labels where that is needed."""
    if needed and label_column is not None and table.schema.names.count(label_column) != 1:
        raise no_label_column(table, label_column, classes, list_column)
    columns = find_columns(table, classes, list_column=list_column, label_column=label_column)
    if needed and label_column in columns.names:
        raise UnlabelError(
            f"{table.path} has confidences in the column {label_column!r}, which would hold the "
            "true labels too: choose another one with --label-column."
        )
    return columns


def read_confidences(
    table: Table,
    columns: TableColumns,
    *,
    input: InputKind,
    label_column: str | None,
    progress: Progress,
    only: Sequence[Label] | None = None,
    label_classes: Sequence[Label] | None = None,
) -> tuple[Floats, npt.NDArray[Any] | None]:
    """Read a table's confidences and, if asked for, true labels; `only` rows of some labels.

    True labels are among `label_classes`, by default the labels of the confidences.
    """
    truth_classes = columns.classes if label_classes is None else label_classes
    wanted = None if only is None else known_columns(only, columns.classes).tolist()
    rows, truth = [], []
    seen: set[int] = set()
    for batch, first_row in batches_of(table, progress):
        with told(table, columns):
            confidences = read_rows(batch, columns, input, first_row)
            if label_column is not None:
                labels = true_labels(batch, label_column, truth_classes, first_row)
                seen.update(np.unique(labels).tolist())
                if wanted is not None:
                    used = np.isin(labels, wanted)
                    confidences, labels = confidences[used], labels[used]
                truth.append(labels)
        rows.append(confidences)
    if not rows:
        raise UnlabelError(f"{table.path} has no rows: give a table with at least one.")
    if input == "logits" and columns.guess:
        _refuse_strangers(table, columns, seen)
    every_row = np.concatenate(rows)
    if input == "logits":
        with told(table, columns):
            refuse_probabilities(every_row)
    names = label_array(truth_classes)
    return every_row, names[np.concatenate(truth)] if truth else None


def _refuse_strangers(table: Table, columns: TableColumns, seen: set[int]) -> None:
    """Refuse guessed columns of logits where a column may be a label's or not.

    Logits need not sum to 1: a latency among them would pass for a label, and the likeliest one.
    """
    if columns.doubtful:
        raise UnlabelError(
            f"{table.path} has whole numbers in column {columns.doubtful!r}, which may be the "
            "logits of a label or not: name the labels with --classes."
        )
    for position, label in enumerate(columns.classes):
        if position not in seen:
            raise UnlabelError(
                f"{table.path} has no row of the true label {label!r}, so that column may hold a "
                "label's logits or not: name the labels with --classes."
            )


@dataclass(frozen=True)
class Rewriting:
    """How the batches of a table are rewritten by a filter, wherever they come from."""

    fitted: OutputFilter
    source: TableColumns
    target: TableColumns
    top_label: bool
    removed_mass: bool
    only_changed: bool

    def of(self, batch: pa.RecordBatch, rows: Floats) -> tuple[pa.RecordBatch, int]:
        """Rewrite a batch with its validated `rows`, and count those whose top label changed."""
        result = self.fitted.apply_checked(rows)
        added = {}
        top = result.argmax(axis=1)
        if self.top_label:
            added[TOP_LABEL] = self._labels.take(pa.array(top))
        if self.removed_mass:
            added[REMOVED_MASS] = pa.array(self.fitted.removed_mass(rows))
        retained = [self.target.classes[column] for column in self.fitted.retained_columns]
        after = replaced(batch, self.source, self.target.columns(result, retained), added)
        changed = self.fitted.retained_columns[top] != rows.argmax(axis=1)
        if self.only_changed:
            after = after.filter(pa.array(changed))
        return after, int(changed.sum())

    @cached_property
    def _labels(self) -> pa.Array:
        return pa.array(plain_labels(self.fitted.classes))

    def schema(self, schema: pa.Schema, table: str) -> pa.Schema:
        """The schema of what comes out; a column that would be there twice is refused."""
        empty = pa.RecordBatch.from_pylist([], schema=schema)
        after = self.of(empty, self.source.read(empty, 0))[0].schema
        times = Counter(after.names)
        for name in (TOP_LABEL, REMOVED_MASS, *self.target.names):
            if times[name] > 1:
                raise UnlabelError(f"{table} has a column {name!r} already: rename it first.")
        return after


@dataclass(frozen=True)
class Applied:
    """What became of a table."""

    rows: int
    changed: int
    written: int


def apply_table(
    fitted: OutputFilter,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    top_label: bool,
    removed_mass: bool,
    only_changed: bool,
    list_column: str | None,
    overwrite: bool,
    progress: Progress,
) -> Applied:
    """Write a table with the filter applied to its confidences."""
    table, source = open_confidences(path, fitted.classes_in, list_column=list_column)
    rewriting = Rewriting(
        fitted,
        source,
        target_columns(source, Path(out)),
        top_label=top_label,
        removed_mass=removed_mass,
        only_changed=only_changed,
    )
    schema = rewriting.schema(table.schema, str(path))
    count = changed_count = written = 0
    with write_table(out, schema, overwrite=overwrite, classes=fitted.classes) as write:
        for batch, first_row in batches_of(table, progress):
            with told(table, source):
                rows = read_rows(batch, source, fitted.input, first_row)
                if fitted.input == "logits" and first_row == 0:
                    refuse_probabilities(rows)
            after, changed = rewriting.of(batch, rows)
            write(after)
            count += len(rows)
            changed_count += changed
            written += len(after)
    return Applied(count, changed_count, written)


def batches_of(table: Table, progress: Progress) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches that are not empty, with the number of their first row."""
    first_row = 0
    for batch, part in table.batches():
        if len(batch):
            yield batch, first_row
        first_row += len(batch)
        progress(part)


def read_rows(
    batch: pa.RecordBatch, columns: TableColumns, input: InputKind, first_row: int
) -> Floats:
    """The validated confidences of a batch."""
    return as_confidences(columns.read(batch, first_row), input, columns.classes, first_row)


@contextmanager
def told(table: Table, columns: TableColumns) -> Iterator[None]:
    """Name the table in what is said of its rows, and the columns if they were guessed."""
    try:
        yield
    except UnlabelError as error:
        guess = f" {columns.guess}" if columns.guess else ""
        raise UnlabelError(f"{table.path}: {error}{guess}") from error


def target_columns(source: TableColumns, out: Path) -> TableColumns:
    """How the output holds confidences: as the input does, where its format can."""
    if out.suffix == ".csv":
        return WideColumns(source.classes)
    if out.suffix in (".npy", ".npz"):
        if isinstance(source, ListColumn):
            return replace(source, fixed_size=True)
        return ListColumn("confidences", source.classes)
    return source
