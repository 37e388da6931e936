"""The loops that fit a chain of removals, compiled by numba.

They compute what `unlabel._method.chain.fit_chain` does, all labels in one call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unlabel._method.chain import SPARE
from unlabel._method.compiled.compiling import (
    COMPLEMENT,
    DIAGONAL,
    PULL,
    QUIET,
    WEIGHT,
    compiled,
    inlined,
    summing,
)
from unlabel._method.compiled.rows import dot, redistribute


@inlined
def _column_means(rows: Any) -> Any:
    """Mean of each column; what rounding loses of a sum is carried along."""
    total, lost = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            entry = rows[i, j] - lost[j]
            following = total[j] + entry
            lost[j] = (following - total[j]) - entry
            total[j] = following
    return total / len(rows)


@inlined
def _write_away(
    rows: Any, i: int, along: float, mean: Any, at: int, others: float, square: float, away: Any
) -> None:
    """Write how far a row is from a multiple of the mean; `along` counts the other labels alone.

    The label's own entry is not subtracted from a number that is close to it.
    """
    part = (along + rows[i, at] * mean[at]) / square
    for j in range(len(mean)):
        away[j] = abs(rows[i, j] - part * mean[j])
    away[at] = abs(rows[i, at] * others - mean[at] * along) / square


@summing
def _sum(values: Any) -> Any:
    total = 0.0
    for j in range(len(values)):
        total += values[j]
    return total


@inlined
def _mean_direction(rows: Any, mean: Any, at: int, rounding: float) -> Any:
    """Average over rows of how they leave the mean, 0 where all do by rounding alone."""
    direction, away, without = np.zeros(len(mean)), np.empty(len(mean)), mean.copy()
    without[at] = 0.0
    others, informative = dot(without.reshape((1, len(mean))), 0, without), 0
    square = others + mean[at] * mean[at]
    for i in range(len(rows)):
        _write_away(rows, i, dot(rows, i, without), mean, at, others, square, away)
        length = _sum(away)
        if length > rounding:
            informative += 1
            scale = 1.0 / length
            for j in range(len(mean)):
                direction[j] += away[j] * scale
    return direction / max(informative, 1)


@inlined
def _share(share: Any, mean: Any, at: int) -> Any:
    """Turn a direction into a share, and give its sum.

    The label's own entry goes. What is left may be nothing: then the mean takes its place, and
    where that is nothing too, equal parts.
    """
    share[at] = 0.0
    total = share.sum()
    for fallback in range(2):
        if total == 0:
            for j in range(len(share)):
                share[j] = mean[j] if fallback == 0 else 1.0
            share[at] = 0.0
            total = share.sum()
            for j in range(len(share)):
                share[j] /= total if total > 0 else 1.0
            total = share.sum()
    return total


@inlined
def _remove(column: int, at: int, step: int, there: Any, gaps: Any) -> None:
    """Take a column out of those that are there, and put it among the gaps, in order."""
    for j in range(at, len(there) - step - 1):
        there[j] = there[j + 1]
    place = step
    while place > 0 and gaps[place - 1] > column:
        gaps[place] = gaps[place - 1]
        place -= 1
    gaps[place] = column


@compiled
def fit(
    rows: Any,
    starts: Any,
    removed: Any,
    rounding: float,
    largest: float,
    means: Any,
    shares: Any,
    known_means: Any,
    known_shares: Any,
) -> None:
    """Write the means and shares of each step's label.

    Its rows are those from the step's start to that of the next. The known means and shares
    are the same arrays once more, to be read.
    """
    n, k = rows.shape[1], len(removed)
    numbers, keep = np.empty((k, 5)), np.ones(n)
    there, gaps = np.empty(n, dtype=np.uintp), np.empty(k, dtype=np.intp)
    for j in range(n):
        there[j] = j
    for step in range(k):
        found = there[: n - step]
        label_rows = rows[starts[step] : starts[step + 1]]
        advanced = np.empty((len(label_rows), n - step))
        redistribute(
            label_rows,
            advanced,
            removed[:step],
            gaps[:step],
            found,
            keep,
            known_means[:step],
            known_shares[:step],
            numbers[:step],
            np.inf,
        )
        column, at = removed[step], 0
        while found[at] != column:
            at += 1
        mean = _column_means(advanced)
        share = _mean_direction(advanced, mean, at, rounding)
        weight = _share(share, mean, at)
        others, least = 0.0, np.inf
        for j in range(len(found)):
            means[step, found[j]], shares[step, found[j]] = mean[j], share[j]
            if j != at:
                others += mean[j] * mean[j]
                least = min(least, mean[j])
        square = others + mean[at] * mean[at]
        numbers[step, DIAGONAL] = others / square
        numbers[step, PULL] = mean[at] / square
        quiet = mean[at] * least / others * SPARE if others > 0 else largest
        numbers[step, QUIET] = min(quiet, largest)
        numbers[step, WEIGHT] = weight
        numbers[step, COMPLEMENT] = mean[at] * numbers[step, PULL]
        keep[column] = 0.0
        _remove(column, at, step, there, gaps)
