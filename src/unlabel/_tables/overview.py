"""An overview of a table: its layout, its labels and its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unlabel._tables.files.formats import errors_naming
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Reading
from unlabel._tables.streaming import checked_rows
from unlabel._typing import Kind, Label, Progress
from unlabel.errors import UnlabelError


@dataclass(frozen=True)
class Overview:
    """The facts of a table that a person can check against what they know of it."""

    layout: str
    rows: int
    classes: tuple[Label, ...]
    kind: str
    smallest_sum: float | None  # of probabilities
    largest_sum: float | None
    top_labels: tuple[tuple[Label, int], ...]  # with the numbers of their rows, largest first
    beside: tuple[str, ...]  # columns or fields without confidences
    guess: str

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain data."""
        return asdict(self)


def overview(
    path: str | os.PathLike[str],
    reading: Reading,
    *,
    classes: Sequence[Label] | None,
    kind: Kind,
    label_column: str,
    progress: Progress,
) -> Overview:
    """Read a table whole, and describe it."""
    predictions = open_predictions(path, classes, reading, label_column=label_column)
    labels = predictions.classes
    count, sums, beside = 0, list[float](), tuple[str, ...]()
    tops = np.zeros(len(labels), dtype=np.int64)
    for part in predictions.parts(progress):
        with errors_naming(predictions.path, place=part.place, advice=predictions.guess):
            rows = checked_rows(part, predictions, kind, reading)
        beside = beside or (*part.others(),)
        tops += np.bincount(rows.argmax(axis=1), minlength=len(labels))
        if kind == "probabilities":
            of_rows = rows.sum(axis=1, dtype=np.float64)
            sums += [float(of_rows.min()), float(of_rows.max())]
        count += len(rows)
    if not count:
        raise UnlabelError("It has no rows: give a table with at least one.", path=predictions.path)
    order = np.argsort(-tops, kind="stable").tolist()
    return Overview(
        predictions.layout,
        count,
        labels,
        "log-probabilities" if predictions.logs else kind,
        min(sums, default=None),
        max(sums, default=None),
        tuple((labels[at], int(tops[at])) for at in order if tops[at]),
        beside,
        predictions.guess,
    )
