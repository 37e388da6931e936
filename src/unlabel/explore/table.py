"""The page of a table, which is read twice: to count its rows, and to draw the sample."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from unlabel._skipped import SkippedRows
from unlabel._tables.cells import plain, taken
from unlabel._tables.columns.predictions import ColumnPredictions
from unlabel._tables.files.formats import errors_naming
from unlabel._tables.files.streams import refuse_standard_input
from unlabel._tables.label_columns import TRUE_LABELS
from unlabel._tables.labels import true_labels
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Part, Predictions, Reading
from unlabel._tables.streaming import checked_rows, refuse_doubtful_logits
from unlabel._typing import Columns, Kind, Label, Progress
from unlabel.errors import UnlabelError
from unlabel.explore.document import BlankPage, Page, as_text
from unlabel.explore.sample import Sample, strata_of
from unlabel.labels import SHORT
from unlabel.validation import refuse_probabilities

IDS = "id"  # the column that they are looked for in


def explore_table(
    path: str | os.PathLike[str],
    *,
    classes: Sequence[Label] | None,
    kind: Kind,
    reading: Reading,
    label_column: str | None,
    id_column: str | None,
    title: str,
    rows: int,
    progress: Progress,
) -> tuple[Page, list[str]]:
    """Make the page of a table, and return sentences about what it assumed."""
    refuse_standard_input(path)
    truth_column = label_column or TRUE_LABELS
    predictions = open_predictions(path, classes, reading, label_column=truth_column)
    has_truth = label_column is not None or predictions.has(TRUE_LABELS)
    if has_truth:
        predictions.require_truth(truth_column)
    own_ids = _id_column(predictions, reading, id_column)
    blank = BlankPage(predictions.classes, as_text(title))

    def read(progress: Progress, skipped: SkippedRows) -> Iterator[tuple[Part, Sample]]:
        """Yield the parts with all of their rows, still without ids."""
        first_row = 0
        for part in predictions.parts(progress):
            with errors_naming(predictions.path, place=part.place, advice=predictions.guess):
                outputs, truth = checked_rows(part, predictions, kind, reading), None
                if kind == "logits" and not first_row:
                    refuse_probabilities(outputs)
                if has_truth:
                    cells = part.cells(truth_column)
                    truth = true_labels(cells, truth_column, predictions.classes, skipped)
            yield part, Sample(outputs, truth, first_row + np.arange(len(outputs)), None)
            first_row += len(part)

    n_labels = len(predictions.classes)
    sizes, skipped = np.zeros(2 * n_labels, dtype=np.int64), SkippedRows(predictions.classes)
    for _, each in read(lambda done: progress(done / 2), skipped):
        sizes += np.bincount(strata_of(each.rows, each.truth), minlength=len(sizes))
    if not sizes.any():
        problem = "It has no rows: give a table with at least one."
        raise UnlabelError(problem, path=predictions.path)
    if kind == "logits" and predictions.guess:
        refuse_doubtful_logits(predictions, {*np.flatnonzero(sizes[:n_labels]).tolist()})
    if skipped.of_other_labels:
        with errors_naming(predictions.path, advice=predictions.guess):
            skipped.refuse_all(int(sizes.sum()))
    draw = blank.draw(sizes, rows)
    sample: Sample | None = None
    for part, each in read(lambda done: progress((1 + done) / 2), SkippedRows(predictions.classes)):
        stay, joining = draw.add(strata_of(each.rows, each.truth))
        with errors_naming(predictions.path, place=part.place):
            ids = None if own_ids is None else _ids(part.cells(own_ids), own_ids, joining)
        joined = replace(each.at(joining), ids=ids)
        if sample is not None:
            joined = sample.at(np.flatnonzero(stay)).followed_by(joined)
        sample = joined
    if sample is None:
        raise UnlabelError("It changed while it was read: try again.", path=predictions.path)
    if not sizes[:n_labels].any():  # a column of true labels that is empty
        sample = replace(sample, truth=None)
    page = blank.filled(sample, kind, of=int(sizes.sum()), aside=skipped.of_other_labels)
    remarks = [predictions.guess] if predictions.guess else []
    if skipped.rows:
        are = "1 row is" if skipped.rows == 1 else f"{skipped.rows:,} rows are"
        others = ""
        if skipped.of_other_labels:
            label = SHORT.repr(skipped.other_label)
            others = (
                f", {skipped.of_other_labels:,} of them of labels that the model does not have, "
                f"such as {label}"
            )
        remarks.insert(0, f"{are} in the page without a true label{others}.")
    return page, remarks


def _id_column(predictions: Predictions, reading: Reading, name: str | None) -> str | None:
    """Find the column of ids: the one that was named, or a long table's, or `id`."""
    of_long = None if reading.long is None else reading.long[0]
    found = name or of_long or IDS
    own = predictions.columns.names if isinstance(predictions, ColumnPredictions) else ()
    if found == of_long or (predictions.has(found) and found not in own):
        return found
    if name is None:
        return None
    problem = f"It has no ids in {name!r}: choose a column beside the confidences."
    raise UnlabelError(problem, argument="id_column", path=predictions.path)


def _ids(cells: pa.Array, name: str, rows: Columns) -> list[str]:
    if pa.types.is_nested(cells.type):
        raise UnlabelError(
            f"The column {name!r} has the type {cells.type} and ids are strings or numbers: choose "
            "another one.",
            argument="id_column",
        )
    return [as_text(each) for each in taken(plain(cells), rows).to_pylist()]
