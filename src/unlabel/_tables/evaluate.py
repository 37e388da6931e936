"""Evaluate a change of labels on tables: a model's confidences, and those of retrained models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unlabel._set_aside import SetAside
from unlabel._tables.labels import positions_by_text
from unlabel._tables.opening import names_in, open_predictions
from unlabel._tables.plans import plan_of_texts
from unlabel._tables.predictions import Reading
from unlabel._tables.streaming import read_confidences
from unlabel._typing import Columns, Floats, InputKind, Label, Progress
from unlabel.errors import UnlabelError
from unlabel.evaluation.summary import Summary, summarise
from unlabel.evaluation.trial import try_filter, try_labels
from unlabel.filter import OutputFilter
from unlabel.plan import RETIRED
from unlabel.validation import distinct_labels, true_columns

PathLike = str | os.PathLike[str]


def evaluate_tables(
    base: PathLike,
    *,
    remove: Sequence[str] | None,
    keep: Sequence[str] | None,
    from_column: str | None,
    to_column: str | None,
    fitted: OutputFilter | None,
    retrained: Sequence[PathLike],
    input: InputKind | None,
    label_column: str,
    classes: Sequence[str] | None,
    reading: Reading,
    strict: bool,
    progress: Progress,
) -> Summary:
    """Evaluate a change of labels, or a filter, on a table with true labels.

    Rows that cannot be judged are set aside; if `strict`, they are refused.
    """
    if [remove, keep, fitted].count(None) != 2:
        raise UnlabelError("Give one of --remove, --keep and --filter: labels, or a filter.")
    names: Sequence[Label] | None = classes
    kind = input or "probabilities"
    if fitted is not None:
        if classes is not None and [*classes] != [*map(str, fitted.classes_in)]:
            raise UnlabelError(
                "--classes has other labels than the filter, or another order: leave --classes out."
            )
        fitted = fitted.taking(input)
        names, kind = fitted.classes_in, fitted.input

    def task(done: int) -> Progress:
        """Report the progress of one table, or of the summary at the end."""
        return lambda part: progress((done + part) / (2 + len(retrained)))

    predictions = open_predictions(base, names, reading, label_column=label_column)
    predictions.require_truth(label_column)
    classes_in = predictions.classes
    aside = SetAside(classes_in)
    rows, labels, row_numbers = read_confidences(
        predictions,
        input=kind,
        label_column=label_column,
        aside=None if strict else aside,
        reading=reading,
        progress=task(0),
    )
    row_count = len(rows) + aside.rows
    change = fitted
    if change is None:
        plan = plan_of_texts(classes_in, remove, keep, from_column=from_column, to_column=to_column)
        change = OutputFilter.mask(classes_in, plan)

    def read_retrained(path: PathLike, progress: Progress) -> Floats:
        """Read a retrained model's table; its true labels, if any, must be the base's."""
        _refuse_old_labels(path, names_in(path, reading), change)
        own = open_predictions(path, change.classes, reading, label_column=label_column)
        truth = label_column if own.has(label_column) else None
        if truth is not None:
            own.require_truth(truth)
        old_and_new = {str(label): label for label in (*change.classes, *change.classes_in)}
        own_aside = SetAside([*old_and_new.values()])
        rows, own_labels, own_numbers = read_confidences(
            own,
            input=kind,
            label_column=truth,
            label_classes=own_aside.classes,
            aside=None if strict else own_aside,
            reading=reading,
            progress=progress,
        )
        if len(rows) + own_aside.rows != row_count:
            raise UnlabelError(
                f"{path} has {len(rows) + own_aside.rows} rows and {base} {row_count}: give the "
                "same rows in the same order."
            )
        if own_labels is None or labels is None:
            return rows[row_numbers] if aside.rows else rows
        for row in np.setxor1d(row_numbers, own_numbers):
            raise UnlabelError(
                f"{path}: row {row} has a true label in only one of this table and the base "
                "model's: give the same rows in the same order."
            )
        _refuse_other_labels(path, own_labels, labels, change, row_numbers)
        return rows

    models = [read_retrained(path, task(done)) for done, path in enumerate(retrained, start=1)]
    pa.default_memory_pool().release_unused()  # Arrow keeps some in case of another table
    if fitted is not None:
        trial = try_filter(fitted, rows, labels, retrained=models)
    else:
        trial = try_labels(
            rows, labels, classes=classes_in, remove=change.plan, retrained=models, input=kind
        )
    if aside.rows:
        numbers = row_numbers[trial.row_numbers]
        trial = replace(trial, row_numbers=numbers, notes=(*trial.notes, f"{aside}."))
    return summarise(trial, task(1 + len(retrained)))


def _refuse_old_labels(path: PathLike, found: set[str], change: OutputFilter) -> None:
    """Refuse the outputs of a model that still has labels which the result does not have."""
    old = found - {*map(str, change.classes)}
    for label, to in zip(change.classes_in, change.outcome.columns, strict=True):
        if str(label) in old:
            if to == RETIRED:
                fate, advice = "a retired label", "without it"
            else:
                fate = "a split label" if to < 0 else f"a label that becomes {change.classes[to]!r}"
                advice = "on the new labels"
            raise UnlabelError(
                f"{path} has a column {str(label)!r}, {fate}: give the outputs of a model "
                f"retrained {advice}."
            )


def _refuse_other_labels(
    path: PathLike,
    own: npt.NDArray[Any],
    base: npt.NDArray[Any],
    change: OutputFilter,
    row_numbers: Columns,
) -> None:
    """Refuse true labels that are neither all the base table's nor all what they become."""
    n = min(len(own), len(base))
    own, base = own[:n], base[:n]
    distinct, positions = distinct_labels(own)

    def columns_by_text(classes: Sequence[Label]) -> Columns:
        column_of = positions_by_text(classes)
        found = [column_of.get(str(label), -1) for label in distinct]
        return np.array(found, dtype=np.intp)[positions]

    truth = true_columns(base, change.classes_in, n)
    in_new = columns_by_text(change.classes)
    fits_old = columns_by_text(change.classes_in) == truth
    # A retired label has no new name, and a split one may keep its old name or be any of its parts.
    fits_new = np.where(
        in_new >= 0,
        ~change.has_changed(truth, in_new.clip(0)),
        fits_old & (change.outcome.columns[truth] < 0),
    )
    if fits_old.all() or fits_new.all():
        return
    for row in np.flatnonzero(~fits_old & ~fits_new):
        raise UnlabelError(
            f"{path}: row {row_numbers[row]} has the true label {str(own[row])!r}, and the base "
            f"model's table {str(base[row])!r}: give the same rows in the same order."
        )
    old, new = int(np.argmin(fits_new)), int(np.argmin(fits_old))
    raise UnlabelError(
        f"{path}: row {row_numbers[old]} has the old true label {str(own[old])!r}, and row "
        f"{row_numbers[new]} the new one {str(own[new])!r}: give all true labels as they were, or "
        "all as they become."
    )
