"""Fitting: the statistics of each retired label's reference rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unlabel._method import compiled
from unlabel._method.backend import filter_rows
from unlabel._method.chain import Recipe, step_numbers
from unlabel._method.split import NOTHING
from unlabel._typing import Columns, Float64s, Floats, InputKind, Label, Method
from unlabel.errors import UnlabelError

# A reference row this close to a multiple of the mean differs from it by rounding alone.
ROUNDING = 256 * float(np.finfo(np.float64).eps)


def fit_chain(
    references: Sequence[Floats], removed: Sequence[int], n_labels: int, input: InputKind
) -> tuple[Float64s, Float64s]:
    """Fit the retirement of some columns in order, given each one's reference rows.

    Returns
    -------
    means, shares : arrays of shape (k, n_labels)
        The statistics of each retired label, 0 for the labels retired before it.
    """
    k = len(removed)
    columns = np.asarray(removed, dtype=np.intp)
    order = np.concatenate([columns, np.delete(np.arange(n_labels), columns)])
    means, shares = np.zeros((2, k, n_labels))
    pulls, given, numbers = *np.zeros((2, k, n_labels)), np.zeros((4, k))
    for step, rows in enumerate(references):
        left = order[step:]
        # The rows of a later label first pass through the steps already fitted.
        fitted = Recipe(order, pulls[:step], given[:step], numbers[:, :step].copy(), left)
        advanced = filter_rows(fitted, rows.astype(np.float64), input).rows
        mean, share = label_statistics(np.asarray(advanced, dtype=np.float64))
        means[step, left], shares[step, left] = mean, share
        numbers[:, step], pull = step_numbers(mean, share, 0)
        pulls[step, step + 1 :] = pull * mean[1:]
        given[step, step:] = share / numbers[3, step]
    return means, shares


def projector_row(mean: Float64s, column: int) -> Float64s:
    """Row `column` of ``I - c c'/|c|^2``, its diagonal entry without a subtraction."""
    square = mean @ mean
    row = -mean[column] / square * mean
    others = mean.copy()
    others[column] = 0.0
    row[column] = others @ others / square
    return np.asarray(row, dtype=np.float64)


def label_statistics(rows: Float64s) -> tuple[Float64s, Float64s]:
    """Mean and share of a label's reference rows, the label's own column being the first."""
    find = compiled.mean_and_direction if compiled.is_available() else mean_and_direction
    mean, share = find(rows, ROUNDING)
    share[0] = 0.0
    if share.sum() > NOTHING:
        return mean, share
    for fallback in (mean, np.ones(len(mean))):
        if share.sum() <= NOTHING:
            share = fallback.copy()
            share[0] = 0.0
            share /= share.sum() or 1.0
    return mean, share


def mean_and_direction(rows: Float64s, rounding: float) -> tuple[Float64s, Float64s]:
    """Mean of rows, and the average direction in which they leave it; 0 if rounding alone does."""
    mean = np.ascontiguousarray(rows.T).mean(axis=1)  # contiguous: summed pairwise
    away = away_from(mean, rows)
    length = away.sum(axis=1)
    informative = length > rounding
    if not informative.any():
        return mean, np.zeros_like(mean)
    return mean, np.asarray((away[informative] / length[informative, None]).mean(axis=0))


def away_from(mean: Float64s, rows: Float64s) -> Float64s:
    """How far each entry of rows is from that of a multiple of the mean, ``|P y|``.

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
    if method == "mask":
        _check_zeros(means, shares, (len(removed), len(classes)))
        return
    steps = np.arange(len(removed))[:, None]
    removed_in = np.full(len(classes), len(removed))
    removed_in[removed] = steps[:, 0]
    for name, statistics, may_be_nonzero in (
        ("mean", means, removed_in >= steps),
        ("share", shares, removed_in > steps),
    ):
        shape = may_be_nonzero.shape
        if statistics.shape != shape:
            raise UnlabelError(f"The {name}s have the shape {statistics.shape}, not {shape}.")
        valid = np.isfinite(statistics) & (may_be_nonzero | (statistics == 0))
        if method == "osr":
            sums = statistics.sum(axis=1, keepdims=True)
            least = 1 - 1e-6 if name == "mean" else 0.0
            valid &= (statistics >= 0) & (sums > least) & (sums < 1 + 1e-6)
        else:  # the literal algorithm diverges, but its squares must stay finite
            valid &= np.abs(statistics) < 1e150
        if not valid.all():
            label = classes[removed[int(np.argmin(valid.all(axis=1)))]]
            raise UnlabelError(
                f"method={method!r} cannot give the {name} of the retired label {label!r}."
            )


def _check_zeros(means: Float64s, shares: Float64s, shape: tuple[int, int]) -> None:
    """Refuse statistics of a mask, which has none; zeros in their places will do."""
    for name, statistics in (("means", means), ("shares", shares)):
        if statistics.shape not in (shape, (0, shape[1])):
            raise UnlabelError(
                f"The {name} have the shape {statistics.shape}, not (0, {shape[1]})."
            )
        if statistics.any():
            raise UnlabelError(
                f"method='mask' has no {name} of retired labels: use OutputFilter.mask(...)."
            )
