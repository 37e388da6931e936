"""The recipe of a filter: the retirement of some labels, one after another, as plain arrays.

Retiring label *i* from a confidence vector ``x`` takes two statistics of the label's reference
rows: their mean ``c`` and ``share``, the average direction in which rows leave the mean. With
``P`` the projector onto the space orthogonal to ``c``,

* ``rho = (P x)_i``, clipped to [0, 1], is the residual: what is left of the label;
* the other entries, divided by their sum, get ``1 - rho``; ``share`` gets ``rho``.

Only row *i* of ``P`` is ever needed, so nothing of size n x n is built.

In a recipe the labels stand in an order of their own: the retired ones first, in the order of
their retirement, then the retained ones. What a step leaves of a row is then a suffix of it.
Most rows have no residual at most steps, and an entry and a sum are enough to rule it out: the
sum over the other labels in ``(P x)_i`` is at least their mass times the mean's smallest entry.
So a row jumps from one step that cannot be ruled out to the next.

A recipe is prepared once. The compiled loops, PyTorch's buffers, the kernels and the constants
of an ONNX graph are its very arrays, and each of these backends only executes it. This file has
the plain form, in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unlabel._method.merge import Merge
from unlabel._method.split import NOTHING, Masses
from unlabel._typing import Columns, Float64s, InputKind

# A residual is ruled out with this much to spare, far more than rounding takes.
SPARE = 1 - 1e-9
# No entry is more than this many times the rest of its row, if that is not nothing.
LARGEST = 1 / NOTHING


@dataclass(frozen=True, eq=False)
class Recipe:
    """What applying a filter takes. ``method="mask"`` has no steps."""

    order: Columns  # (n,): the model's columns, the retired ones first
    pulls: Float64s  # (k, n): pull * mean over the labels that the step leaves, else 0
    shares: Float64s  # (k, n): the share, divided by its sum
    numbers: Float64s  # (4, k): `step_numbers`
    retained: Columns  # (m,): the model's columns of the retained labels
    merge: Merge | None = None  # what comes after the steps

    @classmethod
    def of_steps(
        cls,
        removed: Columns,
        retained: Columns,
        means: Float64s,
        shares: Float64s,
        merge: Merge | None = None,
    ) -> Recipe:
        """Prepare the steps that were fitted for some columns, in order."""
        order = np.concatenate([removed, retained])
        pulls, given = means.take(order, axis=1), shares.take(order, axis=1)
        numbers = np.empty((4, len(means)))
        for step in range(len(means)):
            numbers[:, step], pull = step_numbers(pulls[step], given[step], step)
            pulls[step] *= pull
            pulls[step, : step + 1] = 0.0
        given /= numbers[3, :, None]
        return cls(order, pulls, given, numbers, retained, merge)

    @property
    def removed(self) -> Columns:
        """The model's columns of the retired labels, in the order of their retirement."""
        return self.order[: len(self.order) - len(self.retained)]

    @property
    def n_results(self) -> int:
        """The number of the result's labels."""
        return len(self.retained if self.merge is None else self.merge.starts)


class Task(NamedTuple):
    """A recipe, and what it is to be executed on and with."""

    recipe: Recipe
    input: InputKind
    temperature: float = 1.0
    tolerance: float = np.inf  # how far from 1 the sum of probabilities may be


def step_numbers(
    mean: Float64s, share: Float64s, step: int
) -> tuple[tuple[float, float, float, float], float]:
    """Give the diagonal, complement, quiet and weight of a step, and its pull.

    The residual of x is ``diagonal * x_i - pull * (c . x without entry i)``, and ``complement``
    is 1 - diagonal. There is no residual where x_i is at most ``quiet`` times the sum of the
    other entries. ``weight`` is the sum of the share.
    """
    # Not @, whose threads take longer to start than these sums; and in Python's own numbers, of
    # which a product may be infinite.
    label, others = float(mean[step]), mean[step + 1 :]
    squares = float(np.square(others).sum())
    square = squares + label * label
    diagonal, pull = squares / square, label / square
    quiet = pull * float(others.min()) / diagonal * SPARE if diagonal > 0 else LARGEST
    return (diagonal, label * pull, min(quiet, LARGEST), float(share.sum())), pull


def mixing(
    label: Any, rest: Any, along: Any, diagonal: Any, complement: Any, weight: Any
) -> tuple[Any, Any]:
    """Give what a step multiplies the rest of a row by, divided by its sum, and its share by.

    `along` is what the mean pulls away along the other labels. The arrays may be PyTorch's.
    """
    residual = (diagonal * label - along).clip(min=0.0)
    # The mass without the residual, added up: a subtraction would lose digits.
    remainder = complement * label + rest + along
    total = remainder + residual * weight
    return remainder / total, residual * weight / total


def redistribute(recipe: Recipe, masses: Masses) -> Float64s:
    """Give the vectors over the retained labels of rows of masses."""
    k = len(recipe.pulls)
    result = masses.retained / np.where(masses.kept > 0, masses.kept, 1.0)[:, None]
    bare = ~(masses.total > NOTHING)
    if k == 0:
        result[bare] = 1.0 / result.shape[1]
        return result
    quiet, rest = recipe.numbers[2], _rests(masses.retired, masses.total)
    loud = masses.retired > quiet * rest
    at = np.flatnonzero(loud.any(axis=1) | bare)
    if at.size == 0:
        return result
    rows = np.hstack([masses.retired[at], masses.retained[at] * masses.scale[at, None]])
    rest, loud = rest[at], loud[at]
    loud |= ~(rest > NOTHING)
    while at.size:
        each, step = np.arange(len(at)), loud.argmax(axis=1)
        left, numbers = rest[each, step], recipe.numbers[:, step]
        none = ~(left > NOTHING)
        left[none] = 1.0
        along = np.vecdot(rows, recipe.pulls[step])
        own, given = mixing(rows[each, step], left, along, numbers[0], numbers[1], numbers[3])
        own[none], given[none] = 0.0, 1.0
        rows *= (own / left)[:, None]
        rows += given[:, None] * recipe.shares[step]
        later = np.arange(k) > step[:, None]
        rows[:, :k] *= later
        rest = _rests(rows[:, :k], rows[:, k:].sum(axis=1))
        loud = later & ((rows[:, :k] > quiet * rest) | ~(rest > NOTHING))
        on = loud.any(axis=1)
        done = rows[~on, k:]
        result[at[~on]] = done / done.sum(axis=1, keepdims=True)
        at, rows, rest, loud = at[on], rows[on], rest[on], loud[on]
    return result


def _rests(retired: Float64s, total: Float64s) -> Float64s:
    """Sum up what each step leaves of rows, from the end: 1 - x would lose digits."""
    sums = np.empty_like(retired)
    sums[:, 0] = total
    sums[:, 1:] = retired[:, :0:-1]
    return np.cumsum(sums, axis=1, out=sums)[:, ::-1]
