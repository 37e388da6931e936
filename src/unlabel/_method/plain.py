"""The recipe executed in NumPy, block by block: the form that the compiled loops repeat."""

from __future__ import annotations

import numpy as np

from unlabel._method.masses import NOTHING, Masses, are_valid, row_blocks, split
from unlabel._method.recipe import Recipe, mixing
from unlabel._method.temperature import at_temperature
from unlabel._typing import Booleans, Columns, Float64s, Floats, Kind


def filter_rows(
    recipe: Recipe, kind: Kind, rows: Floats, out: Floats, mass: Float64s | None
) -> int:
    """Write the filtered rows into `out`, and each row's removed mass into `mass`, if given.

    Returns
    -------
    int
        The first row that is not valid, or -1. Such rows become NaN.
    """
    first_bad, start = -1, 0
    for block, result in zip(row_blocks(rows), row_blocks(out, rows.shape[1]), strict=True):
        bad = np.flatnonzero(~are_valid(block, kind))
        exact = block.astype(np.float64)
        if bad.size:
            first_bad = start + int(bad[0]) if first_bad < 0 else first_bad
            exact[bad] = 1.0  # something that can be worked on
        calibrated, kind_now = at_temperature(exact, kind, recipe.temperature)
        masses = split(calibrated, recipe.removed, recipe.retained, kind_now)
        redistributed = redistribute(recipe, masses)
        if recipe.merge is not None:
            redistributed = recipe.merge.add_up(redistributed)
        result[:] = redistributed
        result[bad] = np.nan
        if mass is not None:
            mass[start : start + len(block)] = masses.removed_mass
            mass[start + bad] = np.nan
        start += len(block)
    return first_bad


def redistribute(recipe: Recipe, masses: Masses) -> Float64s:
    """Return the vectors over the retained labels of rows of masses."""
    k = len(recipe.diagonal)
    result = masses.retained / np.where(masses.kept > 0, masses.kept, 1.0)[:, None]
    bare = ~(masses.total > NOTHING)
    if k == 0:
        result[bare] = 1.0 / result.shape[1]
        return result
    below, rest = recipe.no_residual_below, rests(masses.removed, masses.total)
    has_residual = masses.removed > below * rest
    at = np.flatnonzero(has_residual.any(axis=1) | bare)
    rows, rest, has_residual = masses.in_order[at], rest[at], has_residual[at]
    has_residual |= ~(rest > NOTHING)
    while at.size:
        each, step = np.arange(len(at)), has_residual.argmax(axis=1)
        rows = remove(recipe, step, rows, rows[each, step], rest[each, step])
        later = np.arange(k) > step[:, None]
        rows[:, :k] *= later
        rest = rests(rows[:, :k], rows[:, k:].sum(axis=1))
        has_residual = later & ((rows[:, :k] > below * rest) | ~(rest > NOTHING))
        on = has_residual.any(axis=1)
        done = rows[~on, k:]
        result[at[~on]] = done / done.sum(axis=1, keepdims=True)
        at, rows, rest, has_residual = at[on], rows[on], rest[on], has_residual[on]
    return result


def remove(
    recipe: Recipe, step: int | Columns, rows: Float64s, label: Float64s, rest: Float64s
) -> Float64s:
    """Return rows after one step, the same or one per row: what it leaves sums to 1."""
    none = ~(rest > NOTHING)
    left = np.where(none, 1.0, rest)
    along = np.vecdot(rows, recipe.residual_weights[step])
    numbers = (recipe.diagonal[step], recipe.complement[step], recipe.share_sums[step])
    own, given = mixing(label, left, along, *numbers)
    own[none], given[none] = 0.0, 1.0
    return np.asarray(rows * (own / left)[:, None] + given[:, None] * recipe.shares[step])


def rests(removed: Float64s, total: Float64s) -> Float64s:
    """Sum up what each step leaves of rows, from the end: 1 - x would lose digits."""
    sums = np.empty_like(removed)
    sums[:, :1] = total[:, None]
    sums[:, 1:] = removed[:, :0:-1]
    return np.cumsum(sums, axis=1, out=sums)[:, ::-1]


def restrict(rows: Floats, lists: Booleans, of_row: Columns, not_allowed: Float64s | None) -> None:
    """Restrict rows in NumPy, block by block."""
    start = 0
    for block in row_blocks(rows):
        here = slice(start, start + len(block))
        allowed = lists[of_row[here]]
        kept = np.where(allowed, block, 0.0).sum(axis=1, dtype=np.float64)
        lost = np.where(allowed, 0.0, block).sum(axis=1, dtype=np.float64)
        block *= allowed
        none = kept <= NOTHING
        block[none] = allowed[none]
        kept[none] = allowed[none].sum(axis=1)
        if not_allowed is not None:
            not_allowed[here] = np.where(none, 1.0, lost / (lost + kept))
        block[:] = block / kept[:, None]
        start = here.stop
