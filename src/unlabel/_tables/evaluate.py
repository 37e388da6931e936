"""Evaluate a filter on the table of a model's confidences and those of retrained models."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from unlabel._tables.formats import open_table
from unlabel._tables.plans import plan_of_texts
from unlabel._tables.streaming import confidence_columns, read_confidences
from unlabel._typing import Floats, InputKind, Label, Progress
from unlabel.errors import UnlabelError
from unlabel.evaluation.summary import Summary, summarise
from unlabel.evaluation.trial import try_filter, try_labels, without
from unlabel.filter import OutputFilter

PathLike = str | os.PathLike[str]


def evaluate_tables(
    base: PathLike,
    *,
    remove: Sequence[str] | None,
    fitted: OutputFilter | None,
    retrained: Sequence[PathLike],
    input: InputKind | None,
    label_column: str,
    classes: Sequence[str] | None,
    list_column: str | None,
    progress: Progress,
) -> Summary:
    """Evaluate the removal of labels, or a filter, on a table with true labels."""
    if (remove is None) == (fitted is None):
        raise UnlabelError("Give either labels to remove or a filter: --remove or --filter.")
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

    table = open_table(base)
    columns = confidence_columns(table, names, list_column, label_column)
    rows, labels = read_confidences(
        table, columns, input=kind, label_column=label_column, progress=task(0)
    )
    plan = fitted.plan if fitted is not None else plan_of_texts(columns.classes, remove)
    removed = [columns.classes[column] for column in plan.outcome(columns.classes).removed]

    def read_retrained(path: PathLike, progress: Progress) -> Floats:
        """Read a retrained model's table; its true labels, if any, must be the base's."""
        table = open_table(path)
        found = {*table.schema.names, *map(str, table.classes or ())}
        for label in removed:
            if str(label) in found:
                raise UnlabelError(
                    f"{path} has a column {str(label)!r}, a retired label: give the outputs of a "
                    "model retrained without it."
                )
        truth = label_column if label_column in table.schema.names else None
        retained = without(columns.classes, removed)
        rows, own_labels = read_confidences(
            table,
            confidence_columns(table, retained, list_column, truth),
            input=kind,
            label_column=truth,
            label_classes=columns.classes,
            progress=progress,
        )
        if own_labels is not None and labels is not None:
            n = min(len(labels), len(own_labels))
            for row in np.flatnonzero(own_labels[:n] != labels[:n]):
                raise UnlabelError(
                    f"{path}: row {row} has the true label {str(own_labels[row])!r}, and the base "
                    f"model's table {str(labels[row])!r}: give the same rows in the same order."
                )
        return rows

    models = [read_retrained(path, task(done)) for done, path in enumerate(retrained, start=1)]
    pa.default_memory_pool().release_unused()  # Arrow keeps some in case of another table
    if fitted is not None:
        trial = try_filter(fitted, rows, labels, retrained=models)
    else:
        trial = try_labels(
            rows, labels, classes=columns.classes, remove=plan, retrained=models, input=kind
        )
    return summarise(trial, task(1 + len(retrained)))
