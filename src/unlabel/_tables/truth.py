"""True labels of judged tables: old or new ones, and the same ones in every table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._skipped import SkippedRows
from unlabel._tables.labels import positions_by_text
from unlabel._typing import Columns, Label, Truth
from unlabel.errors import UnlabelError
from unlabel.evaluation.truth import true_labels_of
from unlabel.filter import OutputFilter
from unlabel.labels import is_missing
from unlabel.plan import RETIRED
from unlabel.validation import distinct_labels, true_columns

PathLike = str | os.PathLike[str]


class OtherTruth(SkippedRows):
    """Counts rows of labels that are unknown, and refuses new ones among old ones, or old new."""

    def __init__(self, classes: Sequence[Label], change: OutputFilter, truth: Truth) -> None:
        super().__init__(classes)
        self._truth = truth
        self._becomes = {
            str(label): change.classes[to]
            for label, to in zip(change.classes_in, change.outcome.columns, strict=True)
            if to >= 0
        }
        self._new = {*map(str, change.classes)}

    def add(self, label: object, rows: int) -> None:
        """Count rows of a true label that is not known."""
        if is_missing(label):
            super().add(label, rows)
            return
        if self._truth == "old" and str(label) in self._new:
            raise UnlabelError(
                f"The true label {label!r} is a new one, which the model does not have: "
                "if all true labels are new ones, say so with --truth new."
            )
        if self._truth == "new" and str(label) in self._becomes:
            raise UnlabelError(
                f"The true label {label!r} is an old one, which becomes "
                f"{self._becomes[str(label)]!r}: give all true labels as they become, or leave out "
                "--truth new."
            )
        super().add(label, rows)


def texts_of_labels(change: OutputFilter) -> list[set[str]]:
    """Give the texts by which new true labels may name each label of the model."""
    texts = [{str(label)} for label in change.classes_in]
    merge = change.outcome.merge
    if merge is None:  # labels are only retired and renamed
        entries = zip(change.retained_columns.tolist(), change.classes, strict=True)
    else:
        targets = (change.classes[column] for column in merge.targets.tolist())
        entries = zip(change.retained_columns[merge.sources].tolist(), targets, strict=True)
    for column, label in entries:
        texts[column].add(str(label))
    return texts


def refuse_old_labels(path: PathLike, found: set[str], change: OutputFilter) -> None:
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

    truth = true_columns(base, true_labels_of(change.classes_in, change.outcome, kind).labels, n)
    own_old, own_new = columns_by_text(change.classes_in), columns_by_text(change.classes)
    # A retired label has no new name, and a split one may keep its name or be any of its parts.
    if kind == "old":
        fits_old = own_old == truth
        without_new = fits_old & (change.outcome.columns[truth] < 0)
        becomes = ~change.has_changed(truth, own_new.clip(0))
        fits_new = np.where(own_new >= 0, becomes, without_new)
    else:
        is_new = truth < len(change.classes)
        without_new = ~is_new & (own.astype(str) == base.astype(str))
        fits_new = np.where(is_new, own_new == truth, without_new)
        becomes = ~change.has_changed(own_old.clip(0), np.where(is_new, truth, 0))
        fits_old = np.where(is_new, (own_old >= 0) & becomes, without_new)
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
