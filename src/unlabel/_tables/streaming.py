"""Fit filters on tables and apply them to tables, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unlabel._labels import known_columns, label_array
from unlabel._set_aside import SetAside
from unlabel._tables.formats import Table, errors_naming, open_table
from unlabel._tables.labels import true_labels
from unlabel._tables.layout import (
    TableColumns,
    no_label_column,
    require_columns,
    table_columns,
)
from unlabel._tables.plans import plan_of_texts
from unlabel._tables.rewriting import ApplyOptions, Rewriting, target_columns
from unlabel._tables.writing import write_table
from unlabel._typing import Columns, Floats, InputKind, Label, Method, Progress
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.validation import as_confidences, refuse_probabilities

T = TypeVar("T")


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
    from_column: str | None = None,
    to_column: str | None = None,
    title: str | None = None,
    note: str | None = None,
    strict: bool = False,
    normalize: bool = False,
) -> tuple[OutputFilter, list[str]]:
    """Fit a filter on a table of reference rows, and give sentences about what it assumed.

    Rows that cannot be used are set aside; if `strict`, they are refused. Rows are divided by
    their sums first if `normalize` says so.
    """
    table = open_table(path)
    may_need_truth, has_truth = calibrate or method != "mask", label_column in table.schema.names
    columns = confidence_columns(
        table, classes, list_column, label_column, may_need_truth and has_truth
    )
    plan = plan_of_texts(
        columns.classes, remove, keep, from_column=from_column, to_column=to_column
    ).named(title, note)
    removed = [columns.classes[column] for column in plan.outcome(columns.classes).removed]
    needs_truth = may_need_truth and (calibrate or bool(removed))
    if needs_truth and not has_truth:
        raise no_label_column(table, label_column, classes, list_column)
    aside = SetAside(columns.classes)
    rows, labels, _ = read_confidences(
        table,
        columns,
        input=input,
        label_column=label_column if needs_truth else None,
        only=None if calibrate or not needs_truth else removed,
        aside=None if strict else aside,
        progress=progress,
        normalize=normalize,
    )
    fitted = fit_filter(
        rows,
        labels,
        classes=columns.classes,
        remove=plan,
        method=method,
        input=input,
        calibrate=calibrate,
        aside=aside,
    )
    return fitted, [*filter(None, (f"{aside}." if aside.rows else "", columns.guess))]


def confidence_columns(
    table: Table,
    classes: Sequence[Label] | None,
    list_column: str | None,
    label_column: str | None,
    needs_truth: bool = True,
) -> TableColumns:
    """Find a table's confidences, and make sure of its column of true labels if it is needed."""
    if needs_truth and label_column is not None:
        if label_column not in table.schema.names:
            raise no_label_column(table, label_column, classes, list_column)
        require_columns(table.schema.names, [label_column], str(table.path))
    columns = table_columns(table, classes, list_column=list_column, label_column=label_column)
    if needs_truth and label_column in columns.names:
        raise UnlabelError(
            f"{table.path} has confidences in column {label_column!r}, which cannot hold the true "
            "labels too: choose another one with --label-column."
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
    aside: SetAside | None = None,
    normalize: bool = False,
) -> tuple[Floats, npt.NDArray[Any] | None, Columns]:
    """Read a table's confidences, its true labels if there is a column of them, and row numbers.

    With `only`, rows of other true labels are left out. True labels are among
    `label_classes`, by default the labels of the confidences; rows of other labels and of none
    are left out and counted in `aside`, or refused without it.
    """
    truth_classes = columns.classes if label_classes is None else label_classes
    wanted = None if only is None else known_columns(only, columns.classes).tolist()
    rows, truth, numbers = [], [], []
    seen: set[int] = set()
    row_count = 0
    for batch, first_row in numbered_batches(table, progress):
        with errors_naming(table.path, advice=columns.guess):
            confidences = read_rows(batch, columns, input, first_row, normalize=normalize)
            used = np.ones(len(confidences), dtype=np.bool_)
            row_count += len(confidences)
            if label_column is not None:
                labels = true_labels(batch, label_column, truth_classes, first_row, aside)
                seen.update(np.unique(labels).tolist())
                used = labels >= 0 if wanted is None else np.isin(labels, wanted)
                if not used.all():
                    confidences, labels = confidences[used], labels[used]
                truth.append(labels)
        rows.append(confidences)
        numbers.append(first_row + np.flatnonzero(used))
    if not rows:
        raise UnlabelError(f"{table.path} has no rows: give a table with at least one.")
    if aside is not None:
        with errors_naming(table.path, advice=columns.guess):
            aside.refuse_all(row_count)
    every_row = np.concatenate(rows)
    if input == "logits":
        if columns.guess:
            _refuse_doubtful_logits(table, columns, seen)
        with errors_naming(table.path, advice=columns.guess):
            refuse_probabilities(every_row)
    names = label_array(truth_classes)
    labels_of_rows = names[np.concatenate(truth)] if truth else None
    return every_row, labels_of_rows, np.concatenate(numbers)


def _refuse_doubtful_logits(table: Table, columns: TableColumns, seen: set[int]) -> None:
    """Refuse guessed columns of logits if one of them may not be a label's.

    Logits need not sum to 1: a latency among them would pass for the likeliest label.
    """
    if columns.doubtful:
        raise UnlabelError(
            f"{table.path} has whole numbers in column {columns.doubtful!r}, which may or may not "
            "be a label's logits: name the labels with --classes."
        )
    for position, label in enumerate(columns.classes):
        if position not in seen:
            raise UnlabelError(
                f"{table.path} has no row of the true label {label!r}, so that column may or may "
                "not hold a label's logits: name the labels with --classes."
            )


@dataclass(frozen=True)
class Applied:
    """The rows of a table that was filtered: read, changed in their top label, written."""

    rows: int
    changed: int
    written: int


def apply_table(
    fitted: OutputFilter,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: ApplyOptions,
    progress: Progress,
) -> Applied:
    """Write a table with the filter applied to its confidences."""
    table = open_table(path)
    source = table_columns(table, fitted.classes_in, list_column=options.list_column)
    rewriting = Rewriting(fitted, source, target_columns(fitted, source, Path(out)), options)
    schema = rewriting.schema(table.schema, str(path))

    def rewritten() -> Iterator[tuple[pa.RecordBatch, int, int]]:
        for batch, first_row in numbered_batches(table, progress):
            with errors_naming(table.path):
                rows = read_rows(
                    batch, source, fitted.input, first_row, normalize=options.normalize
                )
                if fitted.input == "logits" and first_row == 0:
                    refuse_probabilities(rows)
            yield *rewriting.of(batch, rows), len(rows)

    row_count = changed_count = written = 0
    with write_table(out, schema, overwrite=options.overwrite, classes=fitted.classes) as write:
        for after, changed, rows in made_ahead(rewritten()):
            write(after)
            row_count += rows
            changed_count += changed
            written += len(after)
    return Applied(row_count, changed_count, written)


def made_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items that another thread makes: the next one is made while one is used."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item


def numbered_batches(table: Table, progress: Progress) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the batches that are not empty, with the number of their first row."""
    first_row = 0
    for batch, part in table.batches():
        if len(batch):
            yield batch, first_row
        first_row += len(batch)
        progress(part)


def read_rows(
    batch: pa.RecordBatch,
    columns: TableColumns,
    input: InputKind,
    first_row: int,
    *,
    normalize: bool = False,
) -> Floats:
    """Read and validate the confidences of a batch, divided by their sums if asked to."""
    rows = columns.read(batch, first_row)
    return as_confidences(rows, input, columns.classes, first_row, normalize=normalize)
