"""Rows of confidences, taken apart along a chain of removals.

What a filter needs to know of a row is the same for probabilities and for logits. It is
found here without a subtraction between close numbers, so no digit is lost even when the
removed labels hold all the mass but 1e-300 of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from unlabel._typing import Columns, Float64s, Floats

Scalar = TypeVar("Scalar", bound=np.generic)

# Rows are worked on in blocks of about this many entries, which stay in the cache.
BLOCK_ENTRIES = 1 << 16
LARGEST = np.finfo(np.float64).max


class Parts(NamedTuple):
    """Rows taken apart along a chain of removals, each part free of cancellation."""

    masked: Float64s  # (N, n-k): the retained entries divided by their sum
    removed: Float64s  # (N, k): the label's part of what its step still finds
    rest: Float64s  # (N, k): the other labels' part of it, 1 - removed
    gone: npt.NDArray[np.bool_]  # (N, k): nothing is left after the step


def split_probabilities(rows: Floats, removed: Columns, retained: Columns) -> Parts:
    """Take probability rows apart along the removal of some columns, in order."""
    masked = rows.take(retained, axis=1).astype(np.float64)
    found = rows.take(removed, axis=1).astype(np.float64)
    # left[:, s] is the mass that step s finds, summed up from the end: 1 - x loses digits.
    left = np.empty((len(rows), len(removed) + 1))
    left[:, -1] = masked.sum(axis=1)
    for step in range(len(removed) - 1, -1, -1):
        left[:, step] = left[:, step + 1] + found[:, step]
    whole = np.where(left == 0, 1.0, left)
    masked /= whole[:, -1:]
    return Parts(masked, found / whole[:, :-1], left[:, 1:] / whole[:, :-1], left[:, 1:] == 0)


def split_logits(rows: Floats, removed: Columns, retained: Columns) -> Parts:
    """Take logit rows apart in log space, so that what underflows in a softmax is kept."""
    masked = rows.take(retained, axis=1).astype(np.float64)
    found = rows.take(removed, axis=1).astype(np.float64)
    top = masked.max(axis=1, keepdims=True)
    top[np.isneginf(top)] = 0.0
    with np.errstate(over="ignore"):
        masked = np.exp(masked - top)
        found = np.minimum(found - top, LARGEST)  # infinity would not cancel below
    total = masked.sum(axis=1)
    masked /= np.where(total == 0, 1.0, total)[:, None]
    lead = np.empty_like(found)  # log odds of the label against the labels after it
    gone = np.empty(found.shape, dtype=np.bool_)
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.log(total)
        for step in range(len(removed) - 1, -1, -1):
            gone[:, step] = np.isneginf(left)
            lead[:, step] = np.where(np.isneginf(found[:, step]), -np.inf, found[:, step] - left)
            left = np.logaddexp(left, found[:, step])
    return Parts(masked, _expit(lead), _expit(-lead), gone)


def _expit(odds: Float64s) -> Float64s:
    """Probabilities of log odds, by an exponential that never overflows.

    Not SciPy's, which takes longer to import than a filter to load and apply.
    """
    power = np.exp(-np.abs(odds))
    return np.asarray(np.where(odds >= 0, 1.0, power) / (1.0 + power))


def mask(parts: Parts) -> Float64s:
    """Drop the removed labels and divide by the sum; uniform where nothing is left."""
    result = parts.masked.copy()
    result[parts.gone[:, -1:].any(axis=1)] = 1.0 / result.shape[1]
    return result


def removed_mass(parts: Parts) -> Float64s:
    """Probability of each row on the removed labels."""
    mass = np.zeros(len(parts.masked))
    for step in range(parts.removed.shape[1] - 1, -1, -1):
        mass = parts.removed[:, step] + parts.rest[:, step] * mass
    return mass


Split = Callable[[Floats, Columns, Columns], Parts]
SPLITS: dict[str, Split] = {"probabilities": split_probabilities, "logits": split_logits}


def row_blocks(
    rows: npt.NDArray[Scalar], n_labels: int | None = None
) -> Iterator[npt.NDArray[Scalar]]:
    """Cut rows into blocks that stay in the cache, as many as rows of `n_labels` need."""
    size = max(1, BLOCK_ENTRIES // (n_labels or rows.shape[1]))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
