"""Algorithm 1 of the paper to the letter, for audit.

It differs from `unlabel` in two lines. Line 17 divides by 1 - u, also where the entries of a row
no longer add up to 1, and uses the residual as it is, even when it is negative. Line 18 divides by
b = u + 1 - residual in place of the sum. So its outputs need not be probabilities.

The projector of lines 6 to 8 is the closed form I - c c' / |c|^2, which is the same matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from research.arrays import Array, Float64s, Floats


def remove(
    rows: Floats, truth: Array, removed: Sequence[int], *, least: float = -np.inf
) -> Float64s:
    """Remove columns from probability rows in order, each with its own rows as reference rows.

    Entries below `least` are raised to it after each column.

    Examples
    --------
    >>> rows = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.1, 0.7, 0.2]])
    >>> remove(rows, np.array([0, 0, 1]), [0])[2].round(3)
    array([0.607, 0.196])
    """
    left, result = list(range(rows.shape[1])), np.asarray(rows, dtype=np.float64)
    for label in removed:
        column, own = left.index(label), result[truth == label]
        mean = own.mean(axis=0)
        projected = np.abs(own - np.outer(own @ mean, mean) / (mean @ mean))
        projected /= projected.sum(axis=1, keepdims=True)
        share = np.delete(projected.mean(axis=0), column)
        entry = result[:, column, None]
        residual = entry - (result @ mean)[:, None] * mean[column] / (mean @ mean)
        kept = np.delete(result, column, axis=1)
        mixed = residual * share + (1 - residual) / (1 - entry) * kept
        result = np.maximum(mixed / (entry + 1 - residual), least)
        left.remove(label)
    return result
