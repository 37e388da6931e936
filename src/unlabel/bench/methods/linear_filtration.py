"""Linear filtration (Baumhauer et al., Machine Learning 2022, arXiv 2002.02730).

The mean logit vectors of all labels are the columns of a matrix A. A filter sends those of
retained labels to themselves, less the removed entries, and those of removed labels to a
target that does not give them away. It is multiplied with the last layer's weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from unlabel._typing import Float64s
from unlabel.bench.models import head
from unlabel.bench.task import Floats, Outcome, Task
from unlabel.bench.training import timed

VARIANTS = ("naive", "normalization", "randomization", "zeroing")
# A comes from logits in float32. Beyond this its inverse is made of their rounding errors.
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
    weight, bias = (of.detach().cpu().numpy() for of in (layer.weight, layer.bias))
    with timed(seconds, "head", task.device):
        filters["naive"] @ weight, filters["naive"] @ bias
    return Outcome(
        confidences={
            f"linear_filtration_{variant}": softmax(task.base.test_logits @ of.T, axis=1)
            for variant, of in filters.items()
        },
        seconds=seconds,
        config={
            "solved_by": "least squares" if condition > LARGEST_CONDITION else "elimination",
            "rows": "all training images",
        },
        matrices={
            f"linear_filtration_{variant}": of.astype(np.float32) for variant, of in filters.items()
        },
        condition=condition,
    )


def mean_logits(logits: Floats, labels: Any, classes: int) -> Float64s:
    """The matrix A: column i is the mean logit vector of label i."""
    of_label = [logits[labels == label] for label in range(classes)]
    return np.stack([rows.mean(axis=0, dtype=np.float64) for rows in of_label], axis=1)


def fit(means: Float64s, removed: tuple[int, ...], variant: str, *, seed: int) -> Float64s:
    """The filter of one variant, retained labels by all labels.

    `naive` drops the removed entries and does nothing else; `normalization` gives a removed
    label's vector the mean of the retained ones, which is the same after softmax;
    `randomization` puts a draw from N(0, I) in its place, `zeroing` puts 0.

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
    change = np.zeros_like(kept)  # of what the mean vectors become, against dropping alone
    if variant == "normalization":
        change[:, gone] = kept[:, retained].mean() - kept[:, gone].mean(axis=0)
    elif variant == "randomization":
        drawn = np.random.default_rng(seed).standard_normal((len(retained), len(gone)))
        change[:, gone] = drawn - kept[:, gone]
    elif variant == "zeroing":
        change[:, gone] = -kept[:, gone]
    # Filter = B A^-1 with B = drop A + change. Only the change is divided by A: nothing that
    # stays as it is passes through an inverse.
    if np.linalg.cond(means) > LARGEST_CONDITION:
        divided = np.linalg.lstsq(means.T, change.T, rcond=1 / LARGEST_CONDITION)[0]
    else:
        divided = np.linalg.solve(means.T, change.T)
    return np.asarray(drop + divided.T)
