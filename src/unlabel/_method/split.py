"""Rows of confidences, taken apart into retired and retained labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from unlabel._typing import Columns, Float64s, Floats, InputKind

Scalar = TypeVar("Scalar", bound=np.generic)

# A mass up to this counts as none: its inverse may not be finite.
NOTHING = 1e-290
# Logits of retained labels count as at most this far below the others, as their masses would be
# lost. If one label is retired, nothing of the result changes beyond it.
LARGEST_LEAD = 640.0
# Rows are worked on in blocks of about this many entries, which stay in the cache.
BLOCK_ENTRIES = 1 << 16


class Masses(NamedTuple):
    """Rows as positive masses, in a scale of their own that no sum depends on."""

    retired: Float64s  # (N, k): in the order of retirement
    retained: Float64s  # (N, m)
    kept: Float64s  # (N,): the sums of the retained masses
    scale: Float64s  # (N,): what the retained masses are to be multiplied by

    @property
    def total(self) -> Float64s:
        """What the retired labels leave of each row."""
        return np.asarray(self.kept * self.scale)

    @property
    def removed_mass(self) -> Float64s:
        """The part of each row's mass that is on retired labels."""
        retired = self.retired.sum(axis=1)
        return np.asarray(retired / (retired + self.total))


def split(rows: Floats, removed: Columns, retained: Columns, input: InputKind) -> Masses:
    """Take rows apart: probabilities are masses, logits the logarithms of some."""
    gone = rows.take(removed, axis=1).astype(np.float64)
    kept = rows.take(retained, axis=1).astype(np.float64)
    scale = np.ones(len(rows))
    if input == "logits":
        # Retained labels have a scale of their own: a softmax would lose those that are far
        # below a retired label.
        low = kept.max(axis=1)
        top = np.maximum(low, gone.max(axis=1, initial=-np.inf))
        with np.errstate(invalid="ignore", over="ignore"):
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
