"""Rows of confidences as positive masses, taken apart into removed and retained labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from unlabel._typing import Booleans, Columns, Float64s, Kind

Scalar = TypeVar("Scalar", bound=np.generic)

# A mass up to this counts as none: its inverse may not be finite.
NOTHING = 1e-290
# How far the sum of a row may be from 1: a little more than a hundredth, as otherwise a bit would
# decide about sums of entries that were rounded to hundredths.
SUM_TOLERANCE = 1.00001e-2
# Logits of retained labels count as at most this far below the others, as their masses would be
# lost. If one label is removed, nothing of the result changes beyond it.
LARGEST_LEAD = 640.0
# Rows are worked on in blocks of about this many entries, which stay in the cache.
BLOCK_ENTRIES = 1 << 16


class Masses(NamedTuple):
    """Rows as positive masses, in a scale of their own that no sum depends on."""

    removed: Float64s  # (N, k): in the order of removal
    retained: Float64s  # (N, m)
    kept: Float64s  # (N,): the sums of the retained masses
    scale: Float64s  # (N,): factor for the retained masses

    @property
    def total(self) -> Float64s:
        """What the removed labels leave of each row."""
        return np.asarray(self.kept * self.scale)

    @property
    def in_order(self) -> Float64s:
        """All masses of each row in one scale, the removed labels first."""
        return np.hstack([self.removed, self.retained * self.scale[:, None]])

    @property
    def removed_mass(self) -> Float64s:
        """The part of each row's mass that is on removed labels."""
        removed = self.removed.sum(axis=1)
        return np.asarray(removed / (removed + self.total))


def are_valid(rows: npt.NDArray[np.floating], kind: Kind) -> Booleans:
    """Whether rows are probabilities, or logits: the one rule that every backend follows.

    Probabilities are finite, none is negative, and their sum is within 1% of 1. Logits may be
    minus infinity, but not all of a row.
    """
    if kind == "logits":
        return np.asarray(np.isfinite(rows.max(axis=1)))
    with np.errstate(invalid="ignore", over="ignore"):
        valid = np.abs(rows.sum(axis=1, dtype=np.float64) - 1) <= SUM_TOLERANCE
    if rows.size and not rows.min() >= 0:
        valid &= (rows >= 0).all(axis=1)
    return np.asarray(valid)


def split(rows: Float64s, removed: Columns, retained: Columns, kind: Kind) -> Masses:
    """Take rows apart: probabilities are masses, logits the logarithms of some."""
    gone, kept = rows.take(removed, axis=1), rows.take(retained, axis=1)
    scale = np.ones(len(rows))
    if kind == "logits":
        # Retained labels have a scale of their own: a softmax would lose those that are far
        # below a removed label.
        low = kept.max(axis=1)
        top = np.maximum(low, gone.max(axis=1, initial=-np.inf))
        with np.errstate(over="ignore"):
            scale = np.exp(np.maximum(low - top, -LARGEST_LEAD))
            scale[np.isneginf(low)] = low[np.isneginf(low)] = 0.0
            gone, kept = np.exp(gone - top[:, None]), np.exp(kept - low[:, None])
    return Masses(gone, kept, kept.sum(axis=1), scale)


def row_blocks(
    rows: npt.NDArray[Scalar], n_labels: int | None = None
) -> Iterator[npt.NDArray[Scalar]]:
    """Cut rows into blocks that stay in the cache, as many as rows of `n_labels` need."""
    size = max(1, BLOCK_ENTRIES // (n_labels or rows.shape[1]))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
