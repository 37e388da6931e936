"""Filters fitted on tables and applied to tables, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unlabel.columns import (
    ListColumn,
    TableColumns,
    WideColumns,
    find_columns,
    replaced,
    require_column,
    true_labels,
)
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.parts import Floats
from unlabel.tables import Table, open_table, write_table
from unlabel.validation import (
    InputKind,
    Label,
    Method,
    UnlabelError,
    as_confidences,
    label_array,
    labels_to_remove,
    refuse_probabilities,
)

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
) -> OutputFilter:
    """Fit a filter on a table of reference rows."""
    needs_truth = calibrate or method != "mask"
    table, columns = open_confidences(
        path, classes, list_column=list_column, label_column=label_column if needs_truth else None
    )
    of_text = {str(label): label for label in columns.classes}

    def labels_of(texts: Sequence[str] | None) -> list[Label] | None:
        return None if texts is None else [of_text.get(text, text) for text in texts]

    removed = labels_to_remove(columns.classes, labels_of(remove), labels_of(keep))
    rows, labels = read_confidences(
        table,
        columns,
        input=input,
        label_column=label_column if needs_truth else None,
        only=None if calibrate or not needs_truth else removed,
        progress=progress,
    )
    return fit_filter(
        rows,
        labels,
        classes=columns.classes,
        remove=removed,
        method=method,
        input=input,
        calibrate=calibrate,
    )


def open_confidences(
    path: str | os.PathLike[str],
    classes: Sequence[Label] | None = None,
    *,
    list_column: str | None = None,
    label_column: str | None = None,
) -> tuple[Table, TableColumns]:
    """Open a table and find its confidences, and its column of true labels if it needs one."""
    table = open_table(path)
    if label_column is not None:
        require_column(table, label_column, "--label-column")
    return table, find_columns(table, classes, list_column=list_column, label_column=label_column)


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
    wanted = None if only is None else [columns.classes.index(label) for label in only]
    rows, truth = [], []
    for batch, first_row in batches_of(table, progress):
        with told(table, columns):
            confidences = read_rows(batch, columns, input, first_row)
            if label_column is not None:
                labels = true_labels(batch, label_column, truth_classes, first_row)
                if wanted is not None:
                    used = np.isin(labels, wanted)
                    confidences, labels = confidences[used], labels[used]
                truth.append(labels)
        rows.append(confidences)
    names = label_array(truth_classes)
    return np.concatenate(rows), names[np.concatenate(truth)] if truth else None


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
    target = _target(source, Path(out))
    labels = label_array(fitted.classes)

    def rewrite(batch: pa.RecordBatch, rows: Floats, result: Floats) -> pa.RecordBatch:
        added = {}
        if top_label:
            added[TOP_LABEL] = pa.array(labels[result.argmax(axis=1)])
        if removed_mass:
            added[REMOVED_MASS] = pa.array(fitted.removed_mass(rows))
        return replaced(batch, source, target.columns(result, fitted.classes), added)

    empty = pa.RecordBatch.from_pylist([], schema=table.schema)
    nothing = source.read(empty, 0)
    schema = rewrite(empty, nothing, fitted.apply(nothing)).schema
    for name in (TOP_LABEL, REMOVED_MASS, *target.names):
        if schema.names.count(name) > 1:
            raise UnlabelError(f"{path} has a column {name!r} already: rename it first.")
    count = changed_count = written = 0
    with write_table(out, schema, overwrite=overwrite, classes=fitted.classes) as write:
        for batch, first_row in batches_of(table, progress):
            with told(table, source):
                rows = read_rows(batch, source, fitted.input, first_row)
                if fitted.input == "logits":
                    refuse_probabilities(rows)
            result = fitted.apply_checked(rows)
            after = rewrite(batch, rows, result)
            changed = fitted.retained_columns[result.argmax(axis=1)] != rows.argmax(axis=1)
            if only_changed:
                after = after.filter(pa.array(changed))
            write(after)
            count += len(rows)
            changed_count += int(changed.sum())
            written += len(after)
    return Applied(count, changed_count, written)


def batches_of(table: Table, progress: Progress) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches with the number of their first row; a table without rows is refused."""
    first_row = 0
    for batch, part in table.batches():
        if len(batch):
            yield batch, first_row
        first_row += len(batch)
        progress(part)
    if first_row == 0:
        raise UnlabelError(f"{table.path} has no rows: give a table with at least one.")


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


def _target(source: TableColumns, out: Path) -> TableColumns:
    """How the output holds confidences: as the input does, where its format can."""
    if out.suffix == ".csv":
        return WideColumns(source.classes)
    if out.suffix in (".npy", ".npz") and not isinstance(source, ListColumn):
        return ListColumn("confidences", source.classes)
    return source
