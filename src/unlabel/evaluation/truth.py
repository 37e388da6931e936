"""The labels that judged rows may truly have: those of the model, or already the new ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlabel._labels import columns_of, label_key
from unlabel._typing import Columns, Label, Truth
from unlabel.plan import RETIRED, SPLIT, Outcome

NO_LABEL = -3  # beside RETIRED and SPLIT: there is no true label


class TrueLabels(NamedTuple):
    """Labels of rows, each with a number: first the result's, then the retired, then the split."""

    labels: tuple[Label, ...]
    numbers: Columns


def true_labels_of(classes_in: tuple[Label, ...], outcome: Outcome, truth: Truth) -> TrueLabels:
    """List the true labels that rows may have.

    Old ones are the labels of the model. New ones are those of the result and, as they have no
    new name, the labels that are retired and split.
    """
    n_after, n_removed = len(outcome.classes), len(outcome.removed)
    split = np.flatnonzero(outcome.columns == SPLIT)
    numbers = outcome.columns.copy()
    numbers[outcome.removed] = n_after + np.arange(n_removed)
    numbers[split] = n_after + n_removed + np.arange(len(split))
    if truth == "old":
        return TrueLabels(classes_in, numbers)
    # A split label may share its name with one of its parts, which is then meant.
    named = columns_of(outcome.classes)
    others = [
        column
        for column in (*outcome.removed.tolist(), *split.tolist())
        if label_key(classes_in[column]) not in named
    ]
    return TrueLabels(
        (*outcome.classes, *(classes_in[column] for column in others)),
        np.concatenate([np.arange(n_after), numbers[others]]).astype(np.intp),
    )


def destinations(numbers: Columns, outcome: Outcome) -> Columns:
    """Turn the numbers of true labels into columns of the result, RETIRED and SPLIT."""
    n_after, n_removed = len(outcome.classes), len(outcome.removed)
    without = np.where(numbers < n_after + n_removed, RETIRED, SPLIT)
    return np.where(numbers < n_after, numbers, without)
