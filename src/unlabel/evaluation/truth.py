"""The labels that judged rows may truly have: those of the model, or already the new ones."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from unlabel._plans.outcome import REMOVED, SPLIT, Outcome
from unlabel._typing import Columns, Label

Truth = Literal["old", "new"]
TRUTHS: tuple[Truth, ...] = get_args(Truth)

NO_LABEL = -3  # beside REMOVED and SPLIT: there is no true label


class TrueLabels(NamedTuple):
    """Labels of rows, each with a number: first the result's, then the removed, then the split."""

    labels: tuple[Label, ...]
    numbers: Columns
    columns: Columns  # the model's, -1 for a new label that several old ones become


def true_labels_of(classes_in: tuple[Label, ...], outcome: Outcome, truth: Truth) -> TrueLabels:
    """List the true labels that rows may have.

    Old ones are the labels of the model. New ones are those of the result and, as they have no
    new name, the labels that are removed and split.
    """
    n_after, n_removed = len(outcome.classes), len(outcome.removed)
    split = np.flatnonzero(outcome.columns == SPLIT)
    numbers = outcome.columns.copy()
    numbers[outcome.removed] = n_after + np.arange(n_removed)
    numbers[split] = n_after + n_removed + np.arange(len(split))
    if truth == "old":
        return TrueLabels(classes_in, numbers, np.arange(len(classes_in)))
    # A split label may share its name with one of its parts, which is then meant.
    named = {*outcome.classes}
    others = [
        column
        for column in (*outcome.removed.tolist(), *split.tolist())
        if classes_in[column] not in named
    ]
    return TrueLabels(
        (*outcome.classes, *(classes_in[column] for column in others)),
        np.concatenate([np.arange(n_after), numbers[others]]).astype(np.intp),
        np.concatenate([_sole_sources(outcome), others]).astype(np.intp),
    )


def _sole_sources(outcome: Outcome) -> Columns:
    """Return the model's column that becomes each label of the result, -1 if several do."""
    if outcome.merge is None:
        return outcome.retained
    targets = outcome.merge.targets
    columns = np.full(len(outcome.classes), -1)
    columns[targets] = outcome.retained[outcome.merge.sources]
    columns[np.bincount(targets) > 1] = -1
    return columns


def destinations(numbers: Columns, outcome: Outcome) -> Columns:
    """Turn the numbers of true labels into columns of the result, REMOVED and SPLIT."""
    n_after, n_removed = len(outcome.classes), len(outcome.removed)
    without = np.where(numbers < n_after + n_removed, REMOVED, SPLIT)
    return np.where(numbers < n_after, numbers, without)
