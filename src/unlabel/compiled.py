"""The loops over rows, compiled by numba where the extra `fast` is installed.

Nothing but `unlabel.fast` imports this file. What it computes is `unlabel.osr` written out
for one row at a time: a step looks at one entry and one sum of the row, and only where that
cannot rule a residual out is the whole row looked at.

The loops are serial and release Python's lock, so any number of threads may be in them; a
row's answer depends on nothing but the row.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

# A row that a share is added to is held times this power of 2, which rounds nothing: entries
# at the end of the range of numbers keep their digits.
LIFT = 2.0**500
# Rows that are followed together: their sums wait for memory and for each other no longer.
TILE = 16

# Helpers are inlined, and take whole arrays with a row's number: a call or a slice would count
# references, which threads would wait for. Only sums are reordered, to lie in vector registers.
_options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
_compiled = numba.njit(**_options)
_plain = numba.njit(forceinline=True, **_options)
_summing = numba.njit(forceinline=True, fastmath={"reassoc"}, **_options)


@_summing
def _kept_mass(rows: Any, i: int, keep: Any) -> Any:
    """Sum of the entries that are kept, and how many of all entries are negative."""
    total, negative = 0.0, 0
    for j in range(rows.shape[1]):
        total += np.float64(rows[i, j] * keep[j])
        negative += rows[i, j] < 0
    return total, negative


@_summing
def _dot(rows: Any, i: int, vector: Any) -> Any:
    total = 0.0
    for j in range(len(vector)):
        total += rows[i, j] * vector[j]
    return total


@_summing
def _dot_of_others(means: Any, step: int, rows: Any, i: int, column: int) -> Any:
    """Product of a step's mean and a row, without one column, in lifted numbers."""
    total = 0.0
    for j in range(column):
        total += means[step, j] * (rows[i, j] * LIFT)
    for j in range(column + 1, rows.shape[1]):
        total += means[step, j] * (rows[i, j] * LIFT)
    return total


@_summing
def _sum_at(vector: Any, columns: Any) -> Any:
    total = 0.0
    for j in range(len(columns)):
        total += vector[columns[j]]
    return total


@_plain
def _mix(mixed: Any, rest: float, shares: Any, step: int, weight: float, rho: float) -> None:
    """Mix a step's share into a row, in factors none of which overflows."""
    whole = (1.0 - rho) + rho * weight
    raised = 1.0 if weight > 1e-100 else LIFT
    given = rho / (whole * raised) * LIFT
    own = (1.0 - rho) / whole * LIFT
    scale = 1.0 / rest if rest > 0 else 0.0
    for j in range(len(mixed)):
        mixed[j] = mixed[j] * scale * own + shares[step, j] * raised * given


@_plain
def _divide_runs(rows: Any, i: int, total: float, gaps: Any, out: Any) -> None:
    """Divide a row by a number, leaving out a few columns."""
    start = 0
    for skipped in range(len(gaps) + 1):
        stop = gaps[skipped] if skipped < len(gaps) else rows.shape[1]
        for j in range(start, stop):
            out[i, np.uintp(j - skipped)] = rows[i, np.uintp(j)] / total
        start = stop + 1


@_plain
def _divide_at(rows: Any, i: int, total: float, retained: Any, out: Any) -> None:
    """Divide some columns of a row by a number."""
    for j in range(len(retained)):
        out[i, j] = rows[i, retained[j]]
    for j in range(len(retained)):
        out[i, j] = out[i, j] / total


@_plain
def _masses(
    rows: Any,
    first: int,
    size: int,
    removed: Any,
    quiet: Any,
    found: Any,
    left: Any,
    begins: Any,
) -> None:
    """Follow a tile of rows along the steps, for as long as none has a residual.

    Of each row and step, `found` gets the label's entry and `left` the mass that the step
    finds; `begins` gets each row's first step that may have a residual, `k` where none has.
    """
    k = len(quiet)
    for r in range(size):
        for step in range(k):
            found[step, r] = rows[first + r, removed[step]]
    for r in range(TILE):
        begins[r] = k
    for step in range(k - 1, -1, -1):
        for r in range(TILE):
            rest = left[step + 1, r]
            left[step, r] = rest + found[step, r]
            is_quiet = (found[step, r] <= quiet[step] * rest) & (rest > 0)
            begins[r] = begins[r] if is_quiet else step


@_plain
def _follow(
    rows: Any,
    i: int,
    r: int,
    begin: int,
    found: Any,
    left: Any,
    removed: Any,
    retained: Any,
    means: Any,
    shares: Any,
    diagonal: Any,
    pull: Any,
    quiet: Any,
    weight: Any,
    mixed: Any,
    masses: Any,
) -> Any:
    """Take a row along the steps; gives what is kept of it where a share is mixed in, else 0."""
    k = len(quiet)
    is_mixed = False
    for step in range(begin, k):
        column = removed[step]
        if is_mixed:
            label, mass, rest = mixed[column], masses[step], masses[step + 1]
            mixed[column] = 0.0
        else:
            label, mass, rest = found[step, r], left[step, r], left[step + 1, r]
        rho = 1.0
        if rest > 0:
            if label <= quiet[step] * rest:
                continue
            if is_mixed:
                along = _dot(means, step, mixed)
            else:
                along = _dot_of_others(means, step, rows, i, column)
                label, mass = label * LIFT, mass * LIFT
            rho = min((diagonal[step] * label - pull[step] * along) / mass, 1.0)
        if not rho > 0:
            continue
        if not is_mixed:
            is_mixed = True
            for j in range(len(mixed)):
                mixed[j] = rows[i, j] * LIFT
            for earlier in range(step + 1):
                mixed[removed[earlier]] = 0.0
            rest *= LIFT
        _mix(mixed, rest, shares, step, weight[step], rho)
        masses[k] = _sum_at(mixed, retained)
        for later in range(k - 1, step, -1):
            masses[later] = masses[later + 1] + mixed[removed[later]]
    return masses[k] if is_mixed else 0.0


@_compiled
def redistribute(
    rows: Any,
    out: Any,
    removed: Any,
    gaps: Any,
    retained: Any,
    keep: Any,
    means: Any,
    shares: Any,
    diagonal: Any,
    pull: Any,
    quiet: Any,
    weight: Any,
    tolerance: float,
) -> int:
    """Filter probability rows; gives the first row that is none, or -1.

    `gaps` are the removed columns in ascending order, and `retained` the others; `keep` is 1
    for the others and 0 for the removed ones. `numbers` are the steps' `diagonal`, `pull`,
    `quiet` and `weight` of `unlabel.osr.Chain`.
    """
    k = len(quiet)
    few = 16 * len(gaps) <= len(keep)
    found, left = np.zeros((k, TILE)), np.zeros((k + 1, TILE))
    mixed, masses = np.empty(len(keep)), np.empty(k + 1)
    begins = np.empty(TILE, dtype=np.intp)
    bad = -1
    for first in range(0, len(rows), TILE):
        size = min(TILE, len(rows) - first)
        for r in range(size):
            left[k, r], below = _kept_mass(rows, first + r, keep)
            if below > 0:
                left[k, r] = np.nan
        _masses(rows, first, size, removed, quiet, found, left, begins)
        for r in range(size):
            i, total, is_mixed = first + r, left[k, r], False
            if bad < 0 and not abs(left[0, r] - 1.0) <= tolerance:
                bad = i
            if begins[r] < k:
                kept = _follow(
                    rows, i, r, begins[r], found, left, removed, retained, means, shares, diagonal,
                    pull, quiet, weight, mixed, masses,
                )
                if kept > 0:
                    for j in range(len(retained)):
                        out[i, j] = mixed[retained[j]] / kept
                    continue
            if few:
                _divide_runs(rows, i, total, gaps, out)
            else:
                _divide_at(rows, i, total, retained, out)
    return bad


@_compiled
def column_means(rows: Any) -> Any:
    """Mean of each column, its sum as exact as if it were pairwise."""
    total, lost = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            entry = rows[i, j] - lost[j]
            following = total[j] + entry
            lost[j] = (following - total[j]) - entry
            total[j] = following
    return total / len(rows)


@_summing
def _away(rows: Any, i: int, along: Any, mean: Any, away: Any) -> Any:
    """Write how far a row is from a multiple of the mean; gives the sum of that."""
    length = 0.0
    for j in range(len(mean)):
        away[j] = abs(rows[i, j] - along * mean[j])
        length += away[j]
    return length


@_compiled
def mean_direction(rows: Any, mean: Any, rounding: float) -> Any:
    """Average over rows of how they leave the mean, 0 where all do by rounding alone."""
    direction, away = np.zeros(len(mean)), np.empty(len(mean))
    square, informative = _dot(mean.reshape((1, -1)), 0, mean), 0
    for i in range(len(rows)):
        length = _away(rows, i, _dot(rows, i, mean) / square, mean, away)
        if length > rounding:
            informative += 1
            for j in range(len(mean)):
                direction[j] += away[j] / length
    return direction / max(informative, 1)
