"""The loops that filter rows, compiled by numba where the extra `fast` is installed.

Only `unlabel._method.compiled` imports this file, on use. What it computes is
`unlabel._method.chain` written out for one row at a time: a step looks at one entry and one sum of
the row, and only where that cannot rule a residual out is the whole row looked at.

The loops are serial and release Python's lock, so any number of threads may be in them; a
row's answer depends on nothing but the row.
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
    SMALLEST,
    TILE,
    WEIGHT,
    compiled,
    inlined,
    summing,
)
from unlabel._method.compiled.narrow_rows import redistribute_narrow
from unlabel._method.mixture import LIFT

# Up to this many labels rows are filtered side by side.
NARROW = 16
# From this many on, looking for a large entry costs less than a product with a mean.
WIDE = 512


@summing
def _kept_mass(rows: Any, i: int, keep: Any) -> Any:
    """Sum of the entries that are kept, and how many of all entries are negative."""
    total, negative = 0.0, 0
    for j in range(rows.shape[1]):
        total += np.float64(rows[i, j] * keep[j])
        negative += rows[i, j] < 0
    return total, negative


@summing
def dot(rows: Any, i: int, vector: Any) -> Any:
    """Product of a row and a vector."""
    total = 0.0
    for j in range(len(vector)):
        total += rows[i, j] * vector[j]
    return total


@summing
def _dot_of_others(means: Any, step: int, rows: Any, i: int, column: int) -> Any:
    """Product of a step's mean and a row, without one column, in lifted numbers."""
    total = 0.0
    for j in range(column):
        total += means[step, j] * (rows[i, j] * LIFT)
    for j in range(column + 1, rows.shape[1]):
        total += means[step, j] * (rows[i, j] * LIFT)
    return total


@summing
def _kept_sum(mixed: Any, keep: Any, retained: Any) -> Any:
    """Sum of the entries that are kept, by the shorter way."""
    total = 0.0
    if 4 * len(retained) < len(mixed):
        for j in range(len(retained)):
            total += mixed[retained[j]]
    else:
        for j in range(len(mixed)):
            total += mixed[j] * keep[j]
    return total


@inlined
def _factors(rest: float, weight: float, rho: float, remainder: float) -> Any:
    """What a row and a share are multiplied by, in factors none of which overflows."""
    whole = max(remainder + rho * weight, SMALLEST)
    raised = 1.0 if weight > 1e-100 else LIFT
    up = 1.0 if rest > SMALLEST else LIFT
    scale = 1.0 / (rest * up) if rest > 0 else 0.0
    return up, scale, remainder / whole * LIFT, raised, rho / whole * (LIFT / raised)


@inlined
def _mix(
    mixed: Any, rest: float, shares: Any, step: int, weight: float, rho: float, remainder: float
) -> None:
    """Mix a step's share into a row that is lifted; `remainder` is 1 - rho."""
    up, scale, own, raised, given = _factors(rest, weight, rho, remainder)
    for j in range(len(mixed)):
        mixed[j] = mixed[j] * up * scale * own + shares[step, j] * raised * given


@inlined
def _mix_first(
    rows: Any,
    i: int,
    rest: float,
    shares: Any,
    step: int,
    weight: float,
    rho: float,
    remainder: float,
    mixed: Any,
) -> None:
    """Mix a step's share into a row as it came."""
    up, scale, own, raised, given = _factors(rest, weight, rho, remainder)
    for j in range(len(mixed)):
        mixed[j] = rows[i, j] * LIFT * up * scale * own + shares[step, j] * raised * given


@inlined
def _divide_runs(rows: Any, i: int, total: float, gaps: Any, out: Any) -> None:
    """Divide a row by a number, leaving out a few columns."""
    start, inverse = 0, 1.0 / total
    for skipped in range(len(gaps) + 1):
        stop = gaps[skipped] if skipped < len(gaps) else rows.shape[1]
        if out.itemsize == 4:  # rounded to float32, a product is as exact, and faster
            for j in range(start, stop):
                out[i, np.uintp(j - skipped)] = rows[i, np.uintp(j)] * inverse
        else:
            for j in range(start, stop):
                out[i, np.uintp(j - skipped)] = rows[i, np.uintp(j)] / total
        start = stop + 1


@inlined
def _divide_at(rows: Any, i: int, total: float, retained: Any, out: Any) -> None:
    """Divide some columns of a row by a number."""
    for j in range(len(retained)):
        out[i, j] = rows[i, retained[j]]
    for j in range(len(retained)):
        out[i, j] = out[i, j] / total


@inlined
def _masses(
    rows: Any,
    first: int,
    size: int,
    removed: Any,
    numbers: Any,
    found: Any,
    left: Any,
    begins: Any,
) -> None:
    """Follow a tile of rows along the steps, for as long as none has a residual.

    Of each row and step, `found` gets the label's entry and `left` the mass that the step
    finds; `begins` gets each row's first step that may have a residual, `k` where none has.
    """
    k = len(numbers)
    for r in range(size):
        for step in range(k):
            found[step, r] = rows[first + r, removed[step]]
    for r in range(left.shape[1]):
        begins[r] = k
    for step in range(k - 1, -1, -1):
        bound = numbers[step, QUIET]
        for r in range(left.shape[1]):
            left[step, r] = left[step + 1, r] + found[step, r]
        for r in range(left.shape[1]):
            if not (found[step, r] <= bound * left[step + 1, r] and left[step + 1, r] > 0):
                begins[r] = step


@inlined
def _largest(rows: Any, i: int, mixed: Any, is_mixed: bool, removed_at: Any, step: int) -> Any:
    """Column of the largest entry that a step leaves."""
    top, most = 0, -1.0
    for j in range(len(mixed)):
        entry = mixed[j] if is_mixed else np.float64(rows[i, j])
        if entry > most and removed_at[j] > step:
            top, most = j, entry
    return top


@inlined
def _follow(
    rows: Any,
    i: int,
    r: int,
    begin: int,
    found: Any,
    left: Any,
    removed: Any,
    retained: Any,
    keep: Any,
    means: Any,
    shares: Any,
    numbers: Any,
    removed_at: Any,
    mixed: Any,
    masses: Any,
) -> Any:
    """Take a row along the steps; gives what is kept of it where a share is mixed in, else 0."""
    k = len(numbers)
    is_mixed = False
    kept = 0.0
    step, top = begin, -1
    while step < k:
        column, following = removed[step], step + 1
        if is_mixed:
            label, mass, rest = mixed[column], masses[step], masses[following]
            mixed[column] = 0.0
        else:
            label, mass, rest = found[step, r], left[step, r], left[following, r]
        rho, remainder = 1.0, 0.0
        if rest > 0:
            rho = 0.0
            is_quiet = label <= numbers[step, QUIET] * rest
            if not is_quiet and len(mixed) >= WIDE:
                # One large entry may tell what the mean's smallest, times all mass, does not.
                if top < 0 or removed_at[top] <= step:
                    top = _largest(rows, i, mixed, is_mixed, removed_at, step)
                entry = mixed[top] if is_mixed else np.float64(rows[i, top])
                along = numbers[step, PULL] * means[step, top] * entry
                # Not where products underflow, which would hide a residual.
                is_quiet = along > 1e-290 and numbers[step, DIAGONAL] * label <= along * SPARE
            if not is_quiet:
                others = rest
                if is_mixed:
                    along = dot(means, step, mixed)
                else:
                    along = _dot_of_others(means, step, rows, i, column)
                    label, mass, others = label * LIFT, mass * LIFT, rest * LIFT
                along *= numbers[step, PULL]
                rho = min((numbers[step, DIAGONAL] * label - along) / mass, 1.0)
                remainder = (numbers[step, COMPLEMENT] * label + others + along) / mass
        if rho > 0:
            weight = numbers[step, WEIGHT]
            if is_mixed:
                _mix(mixed, rest, shares, step, weight, rho, remainder)
            else:
                _mix_first(rows, i, rest * LIFT, shares, step, weight, rho, remainder, mixed)
                for earlier in range(following):
                    mixed[removed[earlier]] = 0.0
            is_mixed = True
            kept = rest = _kept_sum(mixed, keep, retained)
            masses[k] = rest
            # The steps up to the next that may have a residual are passed over.
            following = k
            for later in range(k - 1, step, -1):
                entry = mixed[removed[later]]
                if not (entry <= numbers[later, QUIET] * rest and rest > 0):
                    following = later
                rest += entry
                masses[later] = rest
            if following < k:
                for passed in range(step + 1, following):
                    mixed[removed[passed]] = 0.0
        step = following
    return kept


@compiled
def redistribute(
    rows: Any,
    out: Any,
    removed: Any,
    gaps: Any,
    retained: Any,
    keep: Any,
    means: Any,
    shares: Any,
    numbers: Any,
    tolerance: float,
) -> int:
    """Filter probability rows; gives the first row that is none, or -1.

    `gaps` are the removed columns in ascending order, and `retained` the others; `keep` is 1
    for the others and 0 for the removed ones. `numbers` are those of
    `unlabel._method.chain.Chain`.
    """
    if len(keep) <= NARROW:
        return redistribute_narrow(rows, out, removed, retained, means, shares, numbers, tolerance)
    k = len(numbers)
    few = 16 * len(gaps) <= len(keep)
    found, left = np.zeros((k, TILE)), np.zeros((k + 1, TILE))
    mixed, masses = np.empty(len(keep)), np.empty(k + 1)
    begins = np.empty(TILE, dtype=np.intp)
    removed_at = np.full(len(keep), k)
    for step in range(k):
        removed_at[removed[step]] = step
    bad = -1
    for first in range(0, len(rows), TILE):
        size = min(TILE, len(rows) - first)
        for r in range(size):
            left[k, r], below = _kept_mass(rows, first + r, keep)
            if below > 0:
                left[k, r] = np.nan
        _masses(rows, first, size, removed, numbers, found, left, begins)
        for r in range(size):
            i, total = first + r, left[k, r]
            if bad < 0 and not abs(left[0, r] - 1.0) <= tolerance:
                bad = i
            if begins[r] < k:
                kept = _follow(
                    rows,
                    i,
                    r,
                    begins[r],
                    found,
                    left,
                    removed,
                    retained,
                    keep,
                    means,
                    shares,
                    numbers,
                    removed_at,
                    mixed,
                    masses,
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
