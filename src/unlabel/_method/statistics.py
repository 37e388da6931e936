"""Fitting: the statistics of each removed label's reference rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlabel._method.masses import NOTHING, split
from unlabel._method.plain import remove, rests
from unlabel._method.recipe import Recipe, step_numbers
from unlabel._typing import Columns, Float64s, Kind, Label, Method
from unlabel.errors import UnlabelError

# A reference row this close to a multiple of the mean differs from it by rounding alone.
ROUNDING = 256 * float(np.finfo(np.float64).eps)


def fit_steps(
    references: Sequence[Float64s], removed: Columns, n_labels: int, kind: Kind
) -> tuple[Float64s, Float64s]:
    """Fit the removal of some columns in order, given each one's reference rows.

    A label without any is fitted on one row that is certain of it, which makes its step a mask.
    The rows pass in NumPy alone, so that the bits do not depend on the compiled loops.

    Returns
    -------
    means, shares : arrays of shape (k, n_labels)
        The statistics of each removed label, 0 for the labels removed before it.
    """
    k, retained = len(removed), np.delete(np.arange(n_labels), removed)
    order = np.concatenate([removed, retained])
    means, shares, weights, given = np.zeros((4, k, n_labels))
    numbers = np.zeros((4, k))
    recipe = Recipe(order, retained, weights, given, *numbers)  # filled step by step
    masses = split(np.concatenate([np.zeros((0, n_labels)), *references]), removed, retained, kind)
    rows, rest = masses.in_order, rests(masses.removed, masses.total)
    start = 0
    for step, own in enumerate(references):
        stop = start + len(own)
        mine = rows[start:stop, step:] if len(own) else np.eye(1, n_labels - step)
        mean, share = label_statistics(mine / mine.sum(axis=1, keepdims=True))
        means[step, order[step:]], shares[step, order[step:]] = mean, share
        numbers[:, step], pull = step_numbers(mean, share, 0)
        weights[step, step + 1 :] = pull * mean[1:]
        given[step, step:] = share / numbers[3, step]
        # The rows of later labels pass through the step.
        label, left = rows[stop:, step], rest[stop:, step]
        at = stop + np.flatnonzero((label > numbers[2, step] * left) | ~(left > NOTHING))
        rows[at] = remove(recipe, step, rows[at], rows[at, step], rest[at, step])
        rest[at, step + 1 :] = rests(rows[at, step + 1 : k], rows[at, k:].sum(axis=1))
        start = stop
    return means, shares


def label_statistics(rows: Float64s) -> tuple[Float64s, Float64s]:
    """Return mean and share of a label's reference rows, its own column being the first."""
    mean = np.ascontiguousarray(rows.T).mean(axis=1)  # contiguous: summed pairwise
    away = away_from(mean, rows)
    length = away.sum(axis=1)
    informative = length > ROUNDING
    share = np.zeros_like(mean)
    if informative.any():
        share = (away[informative] / length[informative, None]).mean(axis=0)
    share[0] = 0.0
    for fallback in (mean, np.ones(len(mean))):
        if share.sum() <= NOTHING:
            share = fallback.copy()
            share[0] = 0.0
            share /= share.sum() or 1.0
    return mean, share


def away_from(mean: Float64s, rows: Float64s) -> Float64s:
    """Return how far each entry of rows is from that of a multiple of the mean, ``|P y|``.

    The label's own entry, the first, is not subtracted from a number that is close to it.
    """
    label, others = mean[0], mean[1:]
    square, squares = mean @ mean, others @ others
    along: Float64s = np.vecdot(rows[:, 1:], others)
    part = (along + rows[:, 0] * label) / square
    away: Float64s = np.abs(rows - part[:, None] * mean)
    away[:, 0] = np.abs(rows[:, 0] * squares - label * along) / square
    return away


def check_statistics(
    method: Method, means: Float64s, shares: Float64s, removed: Columns, classes: Sequence[Label]
) -> None:
    """Refuse statistics of the removed columns that no reference rows could have given."""
    removed_in = np.full(len(classes), len(removed))
    removed_in[removed] = np.arange(len(removed))
    steps = np.arange(0 if method == "mask" else len(removed))[:, None]
    for name, statistics, may_be_nonzero, least in (
        ("mean", means, removed_in >= steps, 1 - 1e-6),
        ("share", shares, removed_in > steps, 0.0),
    ):
        shape = may_be_nonzero.shape
        if statistics.shape != shape:
            raise UnlabelError(f"The {name}s have the shape {statistics.shape}, not {shape}")
        sums = statistics.sum(axis=1, keepdims=True)
        valid = np.isfinite(statistics) & (may_be_nonzero | (statistics == 0)) & (statistics >= 0)
        valid &= (sums > least) & (sums < 1 + 1e-6)
        if not valid.all():
            label = classes[removed[int(np.argmin(valid.all(axis=1)))]]
            raise UnlabelError(f"No rows could give the {name} of the removed label {label!r}")
