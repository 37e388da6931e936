"""The published algorithm to the letter, kept for audit only.

It differs from :mod:`unlabel._method.chain` in two lines: the residual is used as it is, even when
it is negative, and the result is divided by ``b = u + 1 - rho`` in place of its sum. Its
outputs need not be probabilities, and drift further from them with each removal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlabel._method.split import split
from unlabel._method.statistics import label_statistics, projector_row
from unlabel._typing import Columns, Float64s, Floats, InputKind


def fit_literal(
    references: Sequence[Floats], removed: Sequence[int], n_labels: int, input: InputKind
) -> tuple[Float64s, Float64s]:
    """Fit the retirement of some columns in order, given each one's reference rows."""
    means, shares = np.zeros((2, len(removed), n_labels))
    for step, (rows, column) in enumerate(zip(references, removed, strict=True)):
        there = np.delete(np.arange(n_labels), list(removed[:step]))
        advanced = apply_literal(as_probabilities(rows, input), removed[:step], means, shares)
        label_first = np.argsort(there != column, kind="stable")
        there = there[label_first]
        statistics = label_statistics(advanced.take(label_first, axis=1))
        means[step, there], shares[step, there] = statistics
    return means, shares


def as_probabilities(rows: Floats, input: InputKind) -> Float64s:
    """Give probabilities in float64, whatever the rows are."""
    every = np.arange(rows.shape[1])
    masses = split(rows, every[:0], every, input)
    return np.asarray(masses.retained / masses.kept[:, None])


def apply_literal(
    rows: Float64s, removed: Sequence[int] | Columns, means: Float64s, shares: Float64s
) -> Float64s:
    """Remove some columns from probability rows, one after another."""
    result = rows.copy()
    for step, column in enumerate(removed):
        label = result[:, column].copy()
        residual = np.vecdot(result, projector_row(means[step], column))
        result[:, column] = 0.0
        rest = result.sum(axis=1)
        bare = rest == 0
        result[bare] = shares[step]
        rest[bare] = 1.0
        result *= ((1 - residual) / rest)[:, None]
        result += residual[:, None] * shares[step]
        result /= (label + 1 - residual)[:, None]
    return np.delete(result, list(removed), axis=1)
