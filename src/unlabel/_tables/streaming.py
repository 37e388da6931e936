"""Fit filters on tables and apply them to tables, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unlabel._plans.outcome import REMOVED, outcome_of
from unlabel._skipped import SkippedRows
from unlabel._tables.ahead import made_ahead
from unlabel._tables.calibration import Calibration, calibration_report
from unlabel._tables.files.formats import errors_naming
from unlabel._tables.files.streams import STANDARD, refuse_standard_input
from unlabel._tables.label_columns import StaleRows, refuse_other_values
from unlabel._tables.labels import true_labels
from unlabel._tables.opening import open_predictions
from unlabel._tables.partial import check_partial
from unlabel._tables.plans import plan_of_options
from unlabel._tables.predictions import Part, Predictions, Reading
from unlabel._tables.rewriting import ApplyOptions, Rewriting, Rewritten
from unlabel._typing import Columns, Floats, Kind, Label, Method, Progress
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import fit_filter
from unlabel.labels import known_columns, label_array, listing
from unlabel.validation import check_rows, divided_by_sums, refuse_probabilities

WHOLE_ROWS = Reading()


class FittedTable(NamedTuple):
    """A filter that was fitted on a table, and what there is to say of it."""

    filter: OutputFilter
    remarks: list[str]  # sentences about what was assumed
    calibration: Calibration | None  # None without one, or with too few rows to judge it


def fit_table(
    path: str | os.PathLike[str],
    *,
    plan: str | os.PathLike[str] | None,
    remove: Sequence[str] | None,
    keep: Sequence[str] | None,
    method: Method,
    kind: Kind,
    calibrate: bool,
    allow_chance: bool,
    classes: Sequence[str] | None,
    reading: Reading,
    label_column: str,
    progress: Progress,
    strict: bool = False,
) -> FittedTable:
    """Fit a filter on a table of reference rows.

    Rows that cannot be used are skipped; if `strict`, they are refused.
    """
    refuse_standard_input(path)
    predictions = open_predictions(path, classes, reading, label_column=label_column)
    classes_in = predictions.classes
    may_need_truth = calibrate or method != "mask"
    if may_need_truth and predictions.has(label_column):
        predictions.require_truth(label_column)
    change = plan_of_options(classes_in, plan, remove, keep)
    outcome = outcome_of(change, classes_in)
    needs_truth = may_need_truth and (calibrate or len(outcome.removed) > 0)
    if needs_truth:
        predictions.require_truth(label_column)
    skipped = SkippedRows(classes_in)
    rows, labels, _ = read_confidences(
        predictions,
        kind=kind,
        reading=reading,
        # Where nothing needs them, they show whether the labels are in order.
        label_column=label_column if needs_truth or predictions.has(label_column) else None,
        skipped=None if strict else skipped,
        progress=progress,
    )
    with errors_naming(predictions.path):
        state, remarks = fit_filter(
            rows,
            labels,
            classes=classes_in,
            plan=change,
            method=method,
            kind=kind,
            calibrate=calibrate,
            allow_chance=allow_chance,
            skipped=skipped,
        )
    calibration = None
    if calibrate and labels is not None:
        columns = known_columns(labels, classes_in)
        stays = outcome.columns[columns] != REMOVED
        calibration = calibration_report(rows[stays], columns[stays], kind, classes_in)
        if calibration is not None and not calibration.helped:
            remarks.append("The temperature did not lower the calibration error: do without it.")
    if reading.logs:  # which are logits, for those who apply the filter to them
        state["kind"] = "logits"
    if predictions.guess:
        remarks += [*_idle_columns(rows, labels, classes_in), predictions.guess]
    return FittedTable(OutputFilter(**state), remarks, calibration)


def _idle_columns(
    rows: Floats, labels: npt.NDArray[Any] | None, classes: Sequence[Label]
) -> Iterator[str]:
    """Name columns that were taken for labels and behave like none, such as a price near 0."""
    used = np.bincount(rows.argmax(axis=1), minlength=len(classes)) > 0
    if labels is not None:
        used[known_columns(np.unique(labels), classes)] = True
    idle = [label for label, is_used in zip(classes, used, strict=True) if not is_used]
    if idle and used.any():
        yield (
            f"Never the top answer and no row's label: {listing(idle)}. If these are no labels of "
            "the model, name its labels."
        )


def read_confidences(
    predictions: Predictions,
    *,
    kind: Kind,
    label_column: str | None,
    progress: Progress,
    label_classes: Sequence[Label] | None = None,
    shown_by: Sequence[Set[str]] | None = None,
    skipped: SkippedRows | None = None,
    reading: Reading = WHOLE_ROWS,
) -> tuple[Floats, npt.NDArray[Any] | None, Columns]:
    """Read a table's confidences, its true labels if there is a column of them, and row numbers.

    True labels are among `label_classes`, by default the labels of the confidences; rows of other
    labels and of none are left out and counted in `skipped`, or refused without it. `shown_by` has
    the texts of true labels that show each column to be a label's, by default the label's own.
    """
    truth_classes = predictions.classes if label_classes is None else label_classes
    rows, truth, numbers = [], [], []
    seen: set[int] = set()
    row_count = 0
    for part in predictions.parts(progress):
        with errors_naming(predictions.path, place=part.place, advice=predictions.guess):
            confidences = checked_rows(part, predictions, kind, reading)
            used = np.ones(len(confidences), dtype=np.bool_)
            if label_column is not None:
                cells = part.cells(label_column)
                labels = true_labels(cells, label_column, truth_classes, skipped)
                seen.update(np.unique(labels).tolist())
                used = labels >= 0
                if not used.all():
                    confidences, labels = confidences[used], labels[used]
                truth.append(labels)
        rows.append(confidences)
        numbers.append(row_count + np.flatnonzero(used))
        row_count += len(part)
    if not rows:
        raise UnlabelError("It has no rows: give a table with at least one.", path=predictions.path)
    if skipped is not None:
        with errors_naming(predictions.path, advice=predictions.guess):
            try:
                skipped.refuse_all(row_count)
            except UnlabelError as error:
                error.argument = "label_column"
                raise
    every_row = np.concatenate(rows)
    if kind == "logits":
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
    path = predictions.path
    if predictions.doubtful:
        problem = (
            f"It has whole numbers in column {predictions.doubtful!r}, which may or may not be a "
            "label's logits: name the labels."
        )
        raise UnlabelError(problem, argument="classes", path=path)
    for position, label in enumerate(predictions.classes):
        if position not in seen:
            problem = (
                f"It has no row of the true label {label!r}, so that column may or may not hold a "
                "label's logits: name the labels."
            )
            raise UnlabelError(problem, argument="classes", path=path)


@dataclass(frozen=True)
class Applied:
    """How many rows of a table were read, changed in their top label, written, and unknown."""

    rows: int
    changed: int
    written: int
    unknown: int = 0  # the rows that are answered with unknown
    remarks: Sequence[str] = ()  # sentences about what is left to do


def apply_table(
    fitted: OutputFilter,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    options: ApplyOptions,
    progress: Progress,
) -> Applied:
    """Write a table with the filter applied to its confidences."""
    reading = options.reading
    predictions = open_predictions(path, fitted.classes_in, reading)
    has_logits = predictions.logs and not reading.partial  # probabilities would lose small ones
    rewriting = Rewriting(replace(fitted, kind="logits") if has_logits else fitted, options)
    stale = StaleRows(fitted)

    def rewritten() -> Iterator[tuple[Part, Rewritten]]:
        is_first = True
        for part in predictions.parts(progress):
            with errors_naming(predictions.path, place=part.place):
                given = part.confidences()
                rows = as_kind(given, predictions, fitted.kind, reading)
                if has_logits and fitted.kind == "probabilities":
                    check_rows(rows, fitted.kind, fitted.classes_in)
                    rows = given.astype(np.float64)
                if is_first:
                    if fitted.kind == "logits":
                        refuse_probabilities(rows)
                    if (update := options.update_column) is not None:
                        refuse_other_values(part.cells(update), update, fitted.classes_in)
                    stale.find_columns(part, options.update_column)
                    is_first = False
                result = rewriting.of(part, rows)
                stale.count(part, result.kept)
            yield part, result.as_logs(given.dtype) if predictions.logs else result

    row_count = changed_count = written = unknown = only_removed = 0
    with predictions.writing(Path(out), rewriting, overwrite=options.overwrite) as write:
        # In turn on standard input: a thread that waits for more of it could not be ended.
        results = rewritten() if Path(path) == STANDARD else made_ahead(rewritten())
        for part, result in results:
            written += write(part, result)
            row_count += len(part)
            changed_count += int(result.changed.sum())
            unknown += result.unknown
            only_removed += result.only_removed
    remarks = stale.remarks()
    if only_removed:
        rows, have = ("row names", "has") if only_removed == 1 else ("rows name", "have")
        remarks.append(f"{only_removed:,} {rows} removed labels only, and {have} no answer.")
    return Applied(row_count, changed_count, written, unknown, tuple(remarks))


def as_kind(rows: Floats, predictions: Predictions, kind: Kind, reading: Reading) -> Floats:
    """Return a table's rows as a kind, divided by their sums if asked to, not checked.

    Log-probabilities become probabilities, unless logits are asked for: that they are as well.
    """
    if predictions.logs and kind == "probabilities":
        with np.errstate(over="ignore"):  # infinity is refused
            rows = np.exp(rows, dtype=np.float64)
    if not reading.normalize:
        return rows
    if kind == "logits":
        problem = "Logits are not divided by their sums: leave it out."
        raise UnlabelError(problem, argument="normalize")
    return divided_by_sums(rows)


def checked_rows(part: Part, predictions: Predictions, kind: Kind, reading: Reading) -> Floats:
    """Return the confidences of a part, or raise an error for the first row that is not valid."""
    rows = as_kind(part.confidences(), predictions, kind, reading)
    if reading.partial:
        check_partial(rows, predictions.classes)
    else:
        check_rows(rows, kind, predictions.classes)
    return rows
