"""The shares of a chain of removals, as they are mixed into rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unlabel.parts import Columns, Float64s

# Shares are held times this power of 2, which rounds nothing: what is left of them at the end
# of the range of numbers keeps its digits.
LIFT = 2.0**500


@dataclass(frozen=True, eq=False)
class Mixture:
    """The shares of a chain, and what its steps find of them."""

    lifted: Float64s  # (k, n): the shares as they were fitted, times `LIFT`
    mass: Float64s  # (k, k + 1): what each step finds of them, and what the last one leaves
    overlap: Float64s  # (k, k): [r, s] is step s's residual of share r

    @classmethod
    def empty(cls, removed: Columns | Sequence[int], n_labels: int) -> Mixture:
        """Make room for the shares of some columns."""
        k = len(removed)
        return cls(np.zeros((k, n_labels)), np.zeros((k, k + 1)), np.zeros((k, k)))

    def until(self, step: int) -> Mixture:
        """The mixture of the steps before one."""
        return Mixture(self.lifted[:step], self.mass[:step, : step + 1], self.overlap[:step, :step])

    def weigh(self, steps: slice, removed: Columns, retained: Columns) -> None:
        """Sum up what is left of some shares at each step, from the end."""
        self.mass[steps, -1] = self.lifted[steps, retained].sum(axis=1)
        for step in range(len(removed) - 1, -1, -1):
            self.mass[steps, step] = self.mass[steps, step + 1] + self.lifted[steps, removed[step]]

    def add(
        self,
        step: int,
        share: Float64s,
        projector_row: Float64s,
        removed: Columns,
        retained: Columns,
    ) -> None:
        """Add the share of one more step, the columns of all steps being known."""
        mass = self.mass[:step, step]
        residual = self.lifted[:step] @ projector_row
        self.overlap[:step, step] = residual / np.where(mass == 0, 1.0, mass)
        self.lifted[step] = share * LIFT
        self.weigh(slice(step, step + 1), removed, retained)

    def share(self, step: int, retained: Columns) -> Float64s:
        """One share over the retained labels, divided by its sum."""
        return np.asarray(self.lifted[step, retained] / self.mass[step, -1])
