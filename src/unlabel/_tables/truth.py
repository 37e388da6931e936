"""True labels of judged tables: old or new ones, and the same ones in every table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._plans.outcome import REMOVED
from unlabel._skipped import SkippedRows
from unlabel._tables.labels import positions_by_text
from unlabel._typing import Columns, Label
from unlabel.errors import UnlabelError
from unlabel.evaluation.truth import Truth, true_labels_of
from unlabel.filter import OutputFilter, outcome_of_filter
from unlabel.labels import is_missing
from unlabel.validation import distinct_labels, true_columns

PathLike = str | os.PathLike[str]


class OtherTruth(SkippedRows):
    """Counts rows of labels that are unknown, and refuses new ones among old ones, or old new."""

    def __init__(self, classes: Sequence[Label], change: OutputFilter, truth: Truth) -> None:
        super().__init__(classes)
        self._truth = truth
        self._becomes = {
            str(label): change.classes_out[to]
            for label, to in zip(change.classes_in, outcome_of_filter(change).columns, strict=True)
            if to >= 0
        }
        self._new = {*map(str, change.classes_out)}

    def add(self, label: object, rows: int) -> None:
        """Count rows of a true label that is not known."""
        if is_missing(label):
            super().add(label, rows)
            return
        if self._truth == "old" and str(label) in self._new:
            raise UnlabelError(
                f"The true label {label!r} is a new one, which the model does not have: "
                "if all true labels are new ones, say so.",
                argument="truth",
            )
        if self._truth == "new" and str(label) in self._becomes:
            raise UnlabelError(
                f"The true label {label!r} is an old one, which becomes "
                f"{self._becomes[str(label)]!r}: give all true labels as they become, or as they "
                "were.",
                argument="truth",
            )
        super().add(label, rows)


def texts_of_labels(change: OutputFilter) -> list[set[str]]:
    """Return the texts by which new true labels may name each label of the model."""
    texts = [{str(label)} for label in change.classes_in]
    outcome = outcome_of_filter(change)
    merge = outcome.merge
    if merge is None:  # labels are only removed and renamed
        entries = zip(outcome.retained.tolist(), outcome.classes, strict=True)
    else:
        targets = (change.classes_out[column] for column in merge.targets.tolist())
        entries = zip(outcome.retained[merge.sources].tolist(), targets, strict=True)
    for column, label in entries:
        texts[column].add(str(label))
    return texts


def refuse_old_labels(path: PathLike, found: set[str], change: OutputFilter) -> None:
    """Refuse the outputs of a model that still has labels which the result does not have."""
    old = found - {*map(str, change.classes_out)}
    columns = outcome_of_filter(change).columns
    for label, to in zip(change.classes_in, columns, strict=True):
        if str(label) in old:
            if to == REMOVED:
                fate, advice = "a removed label", "without it"
            else:
                fate = (
                    "a split label"
                    if to < 0
                    else f"a label that becomes {change.classes_out[to]!r}"
                )
                advice = "on the new labels"
            raise UnlabelError(
                f"It has a column {str(label)!r}, {fate}: give the outputs of a model "
                f"retrained {advice}.",
                path=path,
            )


def refuse_other_labels(
    path: PathLike,
    own: npt.NDArray[Any],
    base: npt.NDArray[Any],
    change: OutputFilter,
    kind: Truth,
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

    outcome = outcome_of_filter(change)
    truth = true_columns(base, true_labels_of(change.classes_in, outcome, kind).labels, n)
    own_old, own_new = columns_by_text(change.classes_in), columns_by_text(change.classes_out)
    # A removed label has no new name, and a split one may keep its name or be any of its parts.
    if kind == "old":
        fits_old = own_old == truth
        without_new = fits_old & (outcome.columns[truth] < 0)
        becomes = ~outcome.has_changed(truth, own_new.clip(0))
        fits_new = np.where(own_new >= 0, becomes, without_new)
    else:
        is_new = truth < len(change.classes_out)
        without_new = ~is_new & (own.astype(str) == base.astype(str))
        fits_new = np.where(is_new, own_new == truth, without_new)
        becomes = ~outcome.has_changed(own_old.clip(0), np.where(is_new, truth, 0))
        fits_old = np.where(is_new, (own_old >= 0) & becomes, without_new)
    if fits_old.all() or fits_new.all():
        return
    for row in np.flatnonzero(~fits_old & ~fits_new):
        raise UnlabelError(
            f"It has the true label {str(own[row])!r}, and the base model's table "
            f"{str(base[row])!r}: give the same rows in the same order.",
            row=int(row_numbers[row]),
            path=path,
        )
    old, new = int(np.argmin(fits_new)), int(np.argmin(fits_old))
    raise UnlabelError(
        f"It has the old true label {str(own[old])!r}, and row {row_numbers[new]} the new one "
        f"{str(own[new])!r}: give all true labels as they were, or all as they become.",
        row=int(row_numbers[old]),
        path=path,
    )
