"""The recipe of a filter: what executing it takes, as plain arrays.

Removing label *i* from a confidence vector ``x`` takes two statistics of the label's reference
rows: their mean ``c`` and ``share``, the average direction in which rows leave the mean. With
``P`` the projector onto the space orthogonal to ``c``,

* ``rho = (P x)_i``, clipped to [0, 1], is the residual: what is left of the label;
* the other entries, divided by their sum, get ``1 - rho``; ``share`` gets ``rho``.

Only row *i* of ``P`` is ever needed, so nothing of size n x n is built.

In a recipe the labels stand in an order of their own: the removed ones first, in the order of
their removal, then the retained ones. What a step leaves of a row is then a suffix of it.
Most rows have no residual at most steps, and an entry and a sum are enough to rule it out: the
sum over the other labels in ``(P x)_i`` is at least their mass times the mean's smallest entry.
So a row jumps from one step that cannot be ruled out to the next.

A recipe is prepared once. The compiled loops, PyTorch's buffers, the kernels and the constants
of an ONNX graph are its very arrays, and each of these backends only executes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unlabel._method.masses import NOTHING
from unlabel._method.merge import Merge
from unlabel._typing import Columns, Float64s

# A residual is ruled out with this much to spare, far more than rounding takes.
SPARE = 1 - 1e-9
# No entry is more than this many times the rest of its row, if that is not nothing.
LARGEST = 1 / NOTHING


@dataclass(frozen=True, eq=False)
class Recipe:
    """What applying a filter takes. ``method="mask"`` has no steps.

    At step t, with label i and the rest of the row after it, the residual of x is
    ``diagonal * x_i - residual_weights . x``. There is none where ``x_i`` is at most
    ``no_residual_below`` times the sum of the rest.
    """

    order: Columns  # (n,): the model's columns, the removed ones first
    retained: Columns  # (m,): the model's columns of the retained labels
    residual_weights: Float64s  # (k, n): on the labels that the step leaves, else 0
    shares: Float64s  # (k, n): the share, divided by its sum
    diagonal: Float64s  # (k,): entry (i, i) of the projector
    complement: Float64s  # (k,): 1 - diagonal, without a subtraction
    no_residual_below: Float64s  # (k,)
    share_sums: Float64s  # (k,): the sum of the share before it was divided
    merge: Merge | None = None  # what comes after the steps
    temperature: float = 1.0  # what comes before them

    @classmethod
    def of_steps(
        cls,
        removed: Columns,
        retained: Columns,
        means: Float64s,
        shares: Float64s,
        merge: Merge | None = None,
        temperature: float = 1.0,
    ) -> Recipe:
        """Prepare the steps that were fitted for some columns, in order."""
        order = np.concatenate([removed, retained])
        weights, given = means.take(order, axis=1), shares.take(order, axis=1)
        numbers = np.empty((4, len(means)))
        for step in range(len(means)):
            numbers[:, step], pull = step_numbers(weights[step], given[step], step)
            weights[step] *= pull
            weights[step, : step + 1] = 0.0
        given /= numbers[3, :, None]
        diagonal, complement, below, sums = numbers
        arrays = (order, retained, weights, given, diagonal, complement, below, sums)
        return cls(*arrays, merge, temperature)

    @property
    def removed(self) -> Columns:
        """The model's columns of the removed labels, in the order of their removal."""
        return self.order[: len(self.order) - len(self.retained)]

    @cached_property
    def buffers(self) -> tuple[Any, ...]:
        """The arrays as the compiled loops take them."""
        numbers = [self.diagonal, self.complement, self.no_residual_below, self.share_sums]
        arrays = (
            self.order.astype(np.int64),
            self.residual_weights,
            self.shares,
            np.stack(numbers),
        )
        if self.merge is None:
            return *arrays, None, None, None
        starts = np.append(self.merge.starts, len(self.merge.sources)).astype(np.int64)
        return *arrays, self.merge.sources.astype(np.int64), starts, self.merge.weights

    @property
    def n_results(self) -> int:
        """The number of the result's labels."""
        return len(self.retained if self.merge is None else self.merge.starts)


def step_numbers(
    mean: Float64s, share: Float64s, step: int
) -> tuple[tuple[float, float, float, float], float]:
    """Return the diagonal, complement, no_residual_below and share_sum of a step.

    Beside them, the factor that turns the mean into the step's residual weights.
    """
    # Not @, whose threads take longer to start than these sums; and in Python's own numbers, of
    # which a product may be infinite.
    label, others = float(mean[step]), mean[step + 1 :]
    squares = float(np.square(others).sum())
    square = squares + label * label
    diagonal, pull = squares / square, label / square
    below = pull * float(others.min()) / diagonal * SPARE if diagonal > 0 else LARGEST
    return (diagonal, label * pull, min(below, LARGEST), float(share.sum())), pull


def mixing(
    label: Any, rest: Any, along: Any, diagonal: Any, complement: Any, share_sum: Any
) -> tuple[Any, Any]:
    """Return what a step multiplies the rest of a row, divided by its sum, and its share by.

    `along` is the residual weights' product with the rest. The arrays may be PyTorch's.
    """
    residual = (diagonal * label - along).clip(min=0.0)
    # The mass without the residual, added up: a subtraction would lose digits.
    remainder = complement * label + rest + along
    total = remainder + residual * share_sum
    return remainder / total, residual * share_sum / total
