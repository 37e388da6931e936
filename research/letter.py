"""Algorithm 1 of the paper to the letter, for audit.

It differs from `unlabel` in two lines. Line 17 divides by 1 - u, also where the entries of a row
no longer add up to 1, and uses the residual as it is, even when it is negative. Line 18 divides by
b = u + 1 - residual in place of the sum. So its outputs need not be probabilities.

The projector of lines 6 to 8 is the closed form I - c c' / |c|^2, which is the same matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from research.arrays import Float64s, Floats


class Step(NamedTuple):
    """What removes one label: its column among those that are left, its mean and its share."""

    column: int
    mean: Float64s
    share: Float64s


def fit(references: Sequence[Floats], removed: Sequence[int], n_labels: int) -> list[Step]:
    """Fit the removal of some columns in order, given the reference rows of each.

    Examples
    --------
    >>> [step] = fit([np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1]])], [0], 3)
    >>> step.mean
    array([0.7, 0.2, 0.1])
    >>> apply(np.array([[0.1, 0.7, 0.2]]), [step]).round(3)
    array([[0.607, 0.196]])
    """
    left, steps = list(range(n_labels)), list[Step]()
    for reference, label in zip(references, removed, strict=True):
        rows, column = apply(reference, steps), left.index(label)
        mean = rows.mean(axis=0)
        projected = np.abs(rows - np.outer(rows @ mean, mean) / (mean @ mean))
        projected /= projected.sum(axis=1, keepdims=True)
        steps.append(Step(column, mean, np.delete(projected.mean(axis=0), column)))
        del left[column]
    return steps


def apply(rows: Floats, steps: Sequence[Step]) -> Float64s:
    """Remove columns from probability rows, one after another."""
    result = np.asarray(rows, dtype=np.float64)
    for column, mean, share in steps:
        own = result[:, column, None]
        residual = own - (result @ mean)[:, None] * mean[column] / (mean @ mean)
        kept = np.delete(result, column, axis=1)
        mixed = residual * share + (1 - residual) / (1 - own) * kept
        result = mixed / (own + 1 - residual)
    return result
