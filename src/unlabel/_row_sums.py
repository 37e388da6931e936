"""The sums of rows of probabilities: how far they may be from 1, and what explains the rest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unlabel._typing import Floats

# How far a row's sum may be from 1, as stored tables round their entries. A little more than a
# thousandth: otherwise a bit would decide about sums of entries rounded to thousandths.
SUM_TOLERANCE = {
    np.dtype(np.float16): 1e-2,
    np.dtype(np.float32): 1.001e-3,
    np.dtype(np.float64): 1.001e-3,
}
# The numbers of decimals that entries may be rounded to, beyond that tolerance.
DECIMALS = range(2, 8)
# Rows that lack half of their sum, or more, were cut off rather than rounded.
LEAST_SUM = 0.5
# Rows look like independent scores if so many of their sums are so far above 1.
MANY, FAR = 0.1, 0.1
BLOCK_ENTRIES = 1 << 16


def are_not_probabilities(rows: Floats) -> npt.NDArray[np.bool_]:
    """Tell which rows have negative entries or NaN, or sums that rounding does not explain."""
    tolerance = SUM_TOLERANCE[rows.dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        # Sums in float32 are faster, and precise enough if they are well within the tolerance.
        near = rows.dtype == np.float32 and np.abs(rows.sum(axis=1) - 1) <= tolerance / 2
        if np.all(near) and rows.min() >= 0:
            return np.zeros(len(rows), dtype=np.bool_)
        off: npt.NDArray[np.bool_] = ~(np.abs(rows.sum(axis=1, dtype=np.float64) - 1) <= tolerance)
        doubtful, size = np.flatnonzero(off), max(1, BLOCK_ENTRIES // rows.shape[1])
        for start in range(0, len(doubtful), size):
            at = doubtful[start : start + size]
            off[at] = ~_rounding_explains(rows[at])
    if not rows.min() >= 0:  # negative, or NaN somewhere
        off |= (rows < 0).any(axis=1)
    return off


def _rounding_explains(rows: Floats) -> npt.NDArray[np.bool_]:
    """Tell which rows are off by at most half a unit of their last decimal per label."""
    sums = rows.sum(axis=1, dtype=np.float64)
    # An entry of 0 may have been rounded down, but not up.
    rounded = np.where(sums < 1, rows.shape[1], np.count_nonzero(rows, axis=1))
    # Decimals that were stored in float32 have its precision in float64 too.
    precision = max(np.finfo(rows.dtype).eps, np.finfo(np.float32).eps)
    explained = np.zeros(len(rows), dtype=np.bool_)
    at = np.flatnonzero(sums > LEAST_SUM)
    for decimals in DECIMALS:
        scale = 10.0**decimals
        at = at[np.abs(sums[at] - 1) <= SUM_TOLERANCE[rows.dtype] + rounded[at] / 2 / scale]
        if at.size == 0:
            break
        units = rows[at].astype(np.float64) * scale
        explained[at] |= (np.abs(units - np.rint(units)) <= units * precision).all(axis=1)
    return explained


def divided_by_sums(rows: Floats) -> Floats:
    """Divide rows by their sums; rows that this does not make probabilities stay as they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=np.float64)
        divisible = (sums > 0) & np.isfinite(sums) & (rows >= 0).all(axis=1)
    return (rows / np.where(divisible, sums, 1.0)[:, None]).astype(rows.dtype)


def look_independent(rows: Floats) -> bool:
    """Tell whether rows look like the scores of labels that do not exclude each other.

    Without some of the labels sums would be below 1, and with another column between 1 and 2.
    """
    if not (rows.min() >= 0 and rows.max() <= 1):
        return False
    sums = rows.sum(axis=1, dtype=np.float64)
    is_mixed = bool(sums.min() < 1 - FAR or sums.max() > 2)
    return is_mixed and float(np.mean(sums > 1 + FAR)) >= MANY
