"""Linear filtration (Baumhauer et al., Machine Learning 2022, arXiv 2002.02730).

The mean logit vectors of all labels are the columns of a matrix A. A filter maps those of
retained labels to themselves, without the removed entries, and those of removed labels to a
target that does not reveal them. The last layer's weights are multiplied by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from research.arrays import Float64s, Floats
from research.models import head
from research.task import Outcome, Task
from research.training import timed

VARIANTS = ("naive", "normalization", "randomization", "zeroing")
# A comes from float32 logits. Above this condition number its inverse consists of rounding errors.
LARGEST_CONDITION = 1 / float(np.finfo(np.float32).eps)


def run(task: Task) -> Outcome:
    """Fit the four variants on the base model's logits of all training images.

    Seconds: `filter`, the mean logits and the four filters, and `head`, the product of one
    filter with the last layer.
    """
    seconds: dict[str, float] = {}
    logits, labels = task.base.train_logits, task.base.train_labels
    with timed(seconds, "filter", task.device):
        means = mean_logits(logits, labels, task.classes)
        condition = float(np.linalg.cond(means))
        filters = {
            variant: fit(means, task.removed, variant, seed=task.seed) for variant in VARIANTS
        }
    layer = head(task.base.model)
    weight, bias = layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy()
    with timed(seconds, "head", task.device):
        filters["naive"] @ weight, filters["naive"] @ bias
    return Outcome(
        confidences={
            f"linear_filtration_{variant}": softmax(task.base.test_logits @ matrix.T, axis=1)
            for variant, matrix in filters.items()
        },
        seconds=seconds,
        config={
            "solved_by": "least squares" if condition > LARGEST_CONDITION else "elimination",
            "rows": "all training images",
        },
        logits={},  # the tables multiply the base model's by these
        matrices={
            f"linear_filtration_{variant}": matrix.astype(np.float32)
            for variant, matrix in filters.items()
        },
        condition=condition,
    )


def mean_logits(logits: Floats, labels: Any, classes: int) -> Float64s:
    """Compute the matrix A, whose column i is the mean logit vector of label i."""
    means = [logits[labels == i].mean(axis=0, dtype=np.float64) for i in range(classes)]
    return np.stack(means, axis=1)


def fit(means: Float64s, removed: tuple[int, ...], variant: str, *, seed: int) -> Float64s:
    """Fit the filter of one variant, a matrix of retained labels by all labels.

    `naive` only drops the removed entries; `normalization` shifts a removed label's vector to the
    mean of the retained ones, which makes no difference after softmax; `randomization` replaces
    it with a draw from N(0, I), `zeroing` with 0.

    Examples
    --------
    >>> means = np.array([[9.0, 1, 0], [2, 8, 1], [1, 0, 9]])
    >>> zeroing = fit(means, (0,), "zeroing", seed=0)
    >>> (zeroing @ means).round(6) + 0.0
    array([[0., 8., 1.],
           [0., 0., 9.]])
    """
    classes = len(means)
    gone = list(removed)
    retained = np.setdiff1d(np.arange(classes), gone)
    drop = np.eye(classes)[retained]
    kept = drop @ means
    change = np.zeros_like(kept)  # of the mean vectors, compared to dropping entries alone
    if variant == "normalization":
        change[:, gone] = kept[:, retained].mean() - kept[:, gone].mean(axis=0)
    elif variant == "randomization":
        drawn = np.random.default_rng(seed).standard_normal((len(retained), len(gone)))
        change[:, gone] = drawn - kept[:, gone]
    elif variant == "zeroing":
        change[:, gone] = -kept[:, gone]
    # Filter = B A^-1 with B = drop A + change. Only the change is divided by A, so that entries
    # which stay as they are do not pass through an inverse.
    if np.linalg.cond(means) > LARGEST_CONDITION:
        divided = np.linalg.lstsq(means.T, change.T, rcond=1 / LARGEST_CONDITION)[0]
    else:
        divided = np.linalg.solve(means.T, change.T)
    return np.asarray(drop + divided.T)
