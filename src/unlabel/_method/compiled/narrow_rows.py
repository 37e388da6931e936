"""The loops that filter rows of few labels, compiled by numba.

A short row does not fill a vector register. So a tile of rows is turned on its side, and every
step is taken for all of its rows at once, with the same arithmetic as in
`unlabel._method.compiled.rows`. A row without a residual keeps its numbers bit by bit, whatever the
rows beside it do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unlabel._method.compiled.compiling import (
    COMPLEMENT,
    DIAGONAL,
    PULL,
    QUIET,
    SMALLEST,
    TILE,
    WEIGHT,
    inlined,
)
from unlabel._method.mixture import LIFT

# What a row and a share are multiplied by where one is mixed into the other.
UP, SCALE, OWN, GIVEN = range(4)


@inlined
def _masses(tile: Any, removed: Any, retained: Any, begin: int, left: Any) -> None:
    """Sum up from the end what each step from one on finds."""
    k = len(removed)
    for r in range(left.shape[1]):
        left[k, r] = 0.0
    for j in range(len(retained)):
        column = retained[j]
        for r in range(left.shape[1]):
            left[k, r] += tile[column, r]
    for step in range(k - 1, begin - 1, -1):
        column = removed[step]
        for r in range(left.shape[1]):
            left[step, r] = left[step + 1, r] + tile[column, r]


@inlined
def _residuals(
    tile: Any,
    left: Any,
    step: int,
    order: Any,
    live: int,
    means: Any,
    numbers: Any,
    rho: Any,
    remainder: Any,
) -> Any:
    """Write each row's residual, clipped to [0, 1], and 1 less it; tells whether there is one."""
    loud = 0
    quiet, column = numbers[step, QUIET], order[live]
    for r in range(left.shape[1]):
        rest = left[step + 1, r]
        loud += (tile[column, r] > quiet * rest) | (rest == 0)
    if loud == 0:
        return False
    for r in range(left.shape[1]):
        rho[r] = 0.0
    for j in range(live):
        other = order[j]
        factor = means[step, other]
        for r in range(left.shape[1]):
            rho[r] += factor * tile[other, r]
    diagonal, pull, complement = (
        numbers[step, DIAGONAL],
        numbers[step, PULL],
        numbers[step, COMPLEMENT],
    )
    found = 0
    for r in range(left.shape[1]):
        label, rest = tile[column, r], left[step + 1, r]
        along, mass = pull * rho[r], left[step, r]
        residual = (diagonal * label - along) / mass
        remainder[r] = (complement * label + rest + along) / mass if rest > 0 else 0.0
        residual = residual if label > quiet * rest else 0.0
        residual = residual if residual > 0 else 0.0
        residual = residual if residual < 1 else 1.0
        rho[r] = residual if rest > 0 else 1.0
        found += rho[r] > 0
    return found > 0


@inlined
def _mix(
    tile: Any,
    left: Any,
    step: int,
    order: Any,
    live: int,
    shares: Any,
    numbers: Any,
    rho: Any,
    remainder: Any,
    factors: Any,
) -> None:
    """Mix the step's share into the rows that have a residual."""
    weight = numbers[step, WEIGHT]
    raised = 1.0 if weight > 1e-100 else LIFT
    for r in range(left.shape[1]):
        rest = left[step + 1, r]
        whole = max(remainder[r] + rho[r] * weight, SMALLEST)
        # A row without a residual is multiplied by 1, and 0 is added to it.
        is_mixed = rho[r] > 0
        up = LIFT if is_mixed and rest < SMALLEST else 1.0
        inverse = 1.0 / (rest * up) if rest > 0 else 0.0
        factors[UP, r] = up
        factors[SCALE, r] = inverse if is_mixed else 1.0
        factors[OWN, r] = remainder[r] / whole * LIFT if is_mixed else 1.0
        factors[GIVEN, r] = rho[r] / whole * (LIFT / raised)
    for j in range(live):
        column = order[j]
        share = shares[step, column] * raised
        for r in range(left.shape[1]):
            entry = tile[column, r] * factors[UP, r] * factors[SCALE, r] * factors[OWN, r]
            tile[column, r] = entry + share * factors[GIVEN, r]


@inlined
def _redistribute_tile(
    rows: Any,
    first: int,
    size: int,
    out: Any,
    order: Any,
    removed: Any,
    retained: Any,
    means: Any,
    shares: Any,
    numbers: Any,
    tolerance: float,
    tile: Any,
    left: Any,
    rho: Any,
    remainder: Any,
    factors: Any,
) -> int:
    """Filter up to `TILE` rows; gives the first that is no probability vector, or -1.

    `order` are the retained columns and then the removed ones, the first to go last.
    """
    n, k = rows.shape[1], len(removed)
    for r in range(size):
        for j in range(n):
            tile[j, r] = rows[first + r, j] * LIFT
    _masses(tile, removed, retained, 0, left)
    bad = -1
    for r in range(left.shape[1]):
        rho[r] = abs(left[0, r] / LIFT - 1.0)
    for j in range(n):
        for r in range(left.shape[1]):
            rho[r] = rho[r] if tile[j, r] >= 0 else np.inf
    for r in range(size - 1, -1, -1):
        bad = bad if rho[r] <= tolerance else first + r
    for step in range(k):
        live = n - 1 - step
        if _residuals(tile, left, step, order, live, means, numbers, rho, remainder):
            _mix(tile, left, step, order, live, shares, numbers, rho, remainder, factors)
            _masses(tile, removed, retained, step + 1, left)
    for j in range(len(retained)):
        column = retained[j]
        for r in range(left.shape[1]):
            tile[column, r] /= left[k, r]
        for r in range(size):
            out[first + r, j] = tile[column, r]
    return bad


@inlined
def redistribute_narrow(
    rows: Any,
    out: Any,
    removed: Any,
    retained: Any,
    means: Any,
    shares: Any,
    numbers: Any,
    tolerance: float,
) -> int:
    """Filter rows; gives the first that is no probability vector, or -1."""
    n, bad = rows.shape[1], -1
    order = np.empty(n, dtype=np.uintp)
    order[: len(retained)] = retained
    order[len(retained) :] = removed[::-1]
    tile, left, rho = np.zeros((n, TILE)), np.zeros((len(removed) + 1, TILE)), np.zeros(TILE)
    remainder, factors = np.zeros(TILE), np.zeros((4, TILE))
    for first in range(0, len(rows), TILE):
        size = min(TILE, len(rows) - first)
        found = _redistribute_tile(
            rows,
            first,
            size,
            out,
            order,
            removed,
            retained,
            means,
            shares,
            numbers,
            tolerance,
            tile,
            left,
            rho,
            remainder,
            factors,
        )
        bad = found if bad < 0 else bad
    return bad
