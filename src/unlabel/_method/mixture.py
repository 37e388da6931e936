"""The shares of a chain of removals, as they are mixed into rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unlabel._typing import Columns, Float64s

# Shares are held times this power of 2, which rounds nothing: what is left of them at the end
# of the range of numbers keeps its digits.
LIFT = 2.0**500


@dataclass(frozen=True, eq=False)
class Mixture:
    """The shares of a chain, and what its steps find of them."""

    lifted: Float64s  # (k, n): the shares as they were fitted, times `LIFT`
    mass: Float64s  # (k, k + 1): what each step finds of them, and what the last one leaves
    overlap: Float64s  # (k, k): [r, s] is step s's residual of share r, where r < s
    remainder: Float64s  # (k, k): what that residual leaves of it, 1 - overlap

    @classmethod
    def empty(cls, removed: Columns | Sequence[int], n_labels: int) -> Mixture:
        """Make room for the shares of some columns."""
        k = len(removed)
        return cls(np.zeros((k, n_labels)), np.zeros((k, k + 1)), *np.zeros((2, k, k)))

    def until(self, step: int) -> Mixture:
        """The mixture of the steps before one."""
        return Mixture(
            self.lifted[:step],
            self.mass[:step, : step + 1],
            self.overlap[:step, :step],
            self.remainder[:step, :step],
        )

    def weigh(self, steps: slice, removed: Columns, retained: Columns) -> None:
        """Sum up what is left of some shares at each step, from the end."""
        self.mass[steps, -1] = self.lifted[steps, retained].sum(axis=1)
        for step in range(len(removed) - 1, -1, -1):
            self.mass[steps, step] = self.mass[steps, step + 1] + self.lifted[steps, removed[step]]

    def meet(
        self, shares: slice, steps: slice, removed: Columns, pulls: Float64s, numbers: Float64s
    ) -> None:
        """Write what some steps make of some of the shares before them."""
        mass = self.mass[shares, :-1][:, steps]
        found = np.where(mass == 0, 1.0, mass)
        label = self.lifted[shares, removed[steps]] / found
        rest = self.mass[shares, 1:][:, steps] / found
        along = self.lifted[shares] @ pulls.T / found
        residual, remainder = residuals(label, rest, along, numbers)
        self.overlap[shares, steps], self.remainder[shares, steps] = residual, remainder

    def share(self, step: int, retained: Columns) -> Float64s:
        """One share over the retained labels, divided by its sum."""
        return np.asarray(self.lifted[step, retained] / self.mass[step, -1])


def residuals(
    label: Float64s, rest: Float64s, along: Float64s, numbers: Float64s
) -> tuple[Float64s, Float64s]:
    """Give the residual of a label in vectors that sum to 1, not clipped, and its remainder.

    `rest` is the sum of the other entries, `along` what the label's mean pulls away along them.
    The remainder is 1 less the residual, found without that subtraction: where the mean has
    next to nothing of the label itself, the residual is next to 1 and all digits would be lost.
    """
    diagonal, complement = numbers[:, 0], numbers[:, 4]
    return diagonal * label - along, complement * label + rest + along
