"""Fit filters on tables and apply them to tables, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._labels import known_columns, label_array
from unlabel._partial import check_partial
from unlabel._set_aside import SetAside
from unlabel._tables.ahead import made_ahead
from unlabel._tables.files.formats import errors_naming
from unlabel._tables.files.streams import STANDARD, refuse_standard_input
from unlabel._tables.label_columns import StaleRows, refuse_other_values
from unlabel._tables.labels import true_labels
from unlabel._tables.opening import open_predictions
from unlabel._tables.plans import plan_of_texts
from unlabel._tables.predictions import Part, Predictions, Reading
from unlabel._tables.rewriting import ApplyOptions, Rewriting, Rewritten
from unlabel._typing import Columns, Floats, InputKind, Label, Method, Progress
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.validation import as_confidences, as_rows, refuse_probabilities

WHOLE_ROWS = Reading()


def fit_table(
    path: str | os.PathLike[str],
    *,
    remove: Sequence[str] | None,
    keep: Sequence[str] | None,
    method: Method,
    input: InputKind,
    calibrate: bool,
    classes: Sequence[str] | None,
    reading: Reading,
    label_column: str,
    progress: Progress,
    from_column: str | None = None,
    to_column: str | None = None,
    title: str | None = None,
    note: str | None = None,
    strict: bool = False,
) -> tuple[OutputFilter, list[str]]:
    """Fit a filter on a table of reference rows, and give sentences about what it assumed.

    Rows that cannot be used are set aside; if `strict`, they are refused.
    """
    refuse_standard_input(path)
    predictions = open_predictions(path, classes, reading, label_column=label_column)
    classes_in = predictions.classes
    may_need_truth = calibrate or method != "mask"
    if may_need_truth and predictions.has(label_column):
        predictions.require_truth(label_column)
    plan = plan_of_texts(
        classes_in, remove, keep, from_column=from_column, to_column=to_column
    ).named(title, note)
    removed = [classes_in[column] for column in plan.outcome(classes_in).removed]
    needs_truth = may_need_truth and (calibrate or bool(removed))
    if needs_truth:
        predictions.require_truth(label_column)
    aside = SetAside(classes_in)
    rows, labels, _ = read_confidences(
        predictions,
        input=input,
        reading=reading,
        label_column=label_column if needs_truth else None,
        only=None if calibrate or not needs_truth else removed,
        aside=None if strict else aside,
        progress=progress,
    )
    fitted = fit_filter(
        rows,
        labels,
        classes=classes_in,
        remove=plan,
        method=method,
        input=input,
        calibrate=calibrate,
        aside=aside,
    )
    return fitted, [*filter(None, (f"{aside}." if aside.rows else "", predictions.guess))]


def read_confidences(
    predictions: Predictions,
    *,
    input: InputKind,
    label_column: str | None,
    progress: Progress,
    only: Sequence[Label] | None = None,
    label_classes: Sequence[Label] | None = None,
    shown_by: Sequence[Set[str]] | None = None,
    aside: SetAside | None = None,
    reading: Reading = WHOLE_ROWS,
) -> tuple[Floats, npt.NDArray[Any] | None, Columns]:
    """Read a table's confidences, its true labels if there is a column of them, and row numbers.

    With `only`, rows of other true labels are left out. True labels are among
    `label_classes`, by default the labels of the confidences; rows of other labels and of none
    are left out and counted in `aside`, or refused without it. `shown_by` has the texts of true
    labels that show each column to be a label's, by default the label's own.
    """
    truth_classes = predictions.classes if label_classes is None else label_classes
    wanted = None if only is None else known_columns(only, predictions.classes).tolist()
    rows, truth, numbers = [], [], []
    seen: set[int] = set()
    row_count = 0
    for part in predictions.parts(progress):
        with errors_naming(predictions.path, place=part.place, advice=predictions.guess):
            confidences = checked_rows(part, predictions, input, reading)
            if reading.partial and input == "probabilities":
                check_partial(confidences, predictions.classes)
            used = np.ones(len(confidences), dtype=np.bool_)
            if label_column is not None:
                cells = part.cells(label_column)
                labels = true_labels(cells, label_column, truth_classes, aside)
                seen.update(np.unique(labels).tolist())
                used = labels >= 0 if wanted is None else np.isin(labels, wanted)
                if not used.all():
                    confidences, labels = confidences[used], labels[used]
                truth.append(labels)
        rows.append(confidences)
        numbers.append(row_count + np.flatnonzero(used))
        row_count += len(part)
    if not rows:
        raise UnlabelError(f"{predictions.path} has no rows: give a table with at least one.")
    if aside is not None:
        with errors_naming(predictions.path, advice=predictions.guess):
            aside.refuse_all(row_count)
    every_row = np.concatenate(rows)
    if input == "logits":
        if predictions.guess:
            texts = {str(truth_classes[label]) for label in seen if label >= 0}
            shown_by = shown_by or [{str(label)} for label in predictions.classes]
            shown = [not texts.isdisjoint(names) for names in shown_by]
            refuse_doubtful_logits(predictions, {*np.flatnonzero(shown).tolist()})
        with errors_naming(predictions.path, advice=predictions.guess):
            refuse_probabilities(every_row)
    names = label_array(truth_classes)
    labels_of_rows = names[np.concatenate(truth)] if truth else None
    return every_row, labels_of_rows, np.concatenate(numbers)


def refuse_doubtful_logits(predictions: Predictions, seen: set[int]) -> None:
    """Refuse guessed columns of logits if one of them may not be a label's.

    Logits need not sum to 1: a latency among them would pass for the likeliest label.
    """
    if predictions.doubtful:
        raise UnlabelError(
            f"{predictions.path} has whole numbers in column {predictions.doubtful!r}, which may "
            "or may not be a label's logits: name the labels with --classes."
        )
    for position, label in enumerate(predictions.classes):
        if position not in seen:
            raise UnlabelError(
                f"{predictions.path} has no row of the true label {label!r}, so that column may or "
                "may not hold a label's logits: name the labels with --classes."
            )


@dataclass(frozen=True)
class Applied:
    """How many rows of a table were read, changed in their top label and written."""

    rows: int
    changed: int
    written: int
    remarks: Sequence[str] = ()  # sentences about what is left to do


def apply_table(
    fitted: OutputFilter,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: ApplyOptions,
    progress: Progress,
) -> Applied:
    """Write a table with the filter applied to its confidences."""
    predictions = open_predictions(path, fitted.classes_in, options.reading)
    rewriting = Rewriting(fitted, options)
    stale = StaleRows(fitted)

    def rewritten() -> Iterator[tuple[Part, Rewritten]]:
        is_first = True
        for part in predictions.parts(progress):
            with errors_naming(predictions.path, place=part.place):
                rows = checked_rows(part, predictions, fitted.input, options.reading)
                allowed = rewriting.allowed(part)
                if is_first:
                    if fitted.input == "logits":
                        refuse_probabilities(rows)
                    if (update := options.update_column) is not None:
                        refuse_other_values(part.cells(update), update, fitted.classes_in)
                    stale.find_columns(part, options.update_column)
                    is_first = False
                result = rewriting.of(part, rows, allowed)
                stale.count(part, result.kept)
            yield part, result.as_logs() if predictions.logs else result

    row_count = changed_count = written = unanswered = 0
    with predictions.writing(Path(out), rewriting, overwrite=options.overwrite) as write:
        # In turn on standard input: a thread that waits for more of it could not be ended.
        results = rewritten() if Path(path) == STANDARD else made_ahead(rewritten())
        for part, result in results:
            written += write(part, result)
            row_count += len(part)
            changed_count += int(result.changed.sum())
            unanswered += result.unanswered
    remarks = stale.remarks()
    if unanswered:
        rows, have = ("row names", "has") if unanswered == 1 else ("rows name", "have")
        remarks.append(f"{unanswered:,} {rows} retired labels only, and {have} no answer.")
    return Applied(row_count, changed_count, written, tuple(remarks))


def checked_rows(
    part: Part, predictions: Predictions, input: InputKind, reading: Reading
) -> Floats:
    """Read and validate the confidences of a part, divided by their sums if asked to."""
    rows = part.confidences()
    if predictions.logs and input == "probabilities":  # log-probabilities are logits as they are
        with np.errstate(over="ignore"):  # infinity is refused
            rows = np.exp(rows)
    if reading.partial:  # where they are filtered, they are validated
        return as_rows(rows, predictions.classes)
    return as_confidences(rows, input, predictions.classes, normalize=reading.normalize)
