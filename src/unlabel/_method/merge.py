"""Confidences added up by destination: labels that are merged or split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unlabel._typing import Columns, Float64s


@dataclass(frozen=True, eq=False)
class Merge:
    """A sparse matrix from the retained labels to the result's, destination by destination.

    A merge is a sum, and a split a share of it. Renaming alone needs no merge.
    """

    sources: Columns  # (e,): positions among the retained labels
    starts: Columns  # (m,): where the sources of each of the result's labels start
    weights: Float64s  # (e,): 1 unless the source is split

    @classmethod
    def of_entries(cls, sources: Columns, targets: Columns, weights: Float64s) -> Merge | None:
        """Make a merge of entries in the order of their sources; None if it changes nothing.

        The result's labels are numbered in the order in which they first appear.
        """
        if np.array_equal(targets, sources):
            return None
        order = np.argsort(targets, kind="stable")
        starts = np.searchsorted(targets[order], np.arange(targets.max() + 1))
        return cls(sources[order], starts, weights[order])

    @property
    def targets(self) -> Columns:
        """The result's column of each source, (e,)."""
        sizes = np.diff(self.starts, append=len(self.sources))
        return np.repeat(np.arange(len(self.starts)), sizes)

    def add_up(self, rows: Float64s) -> Float64s:
        """Add up the columns of rows of probabilities of the retained labels."""
        taken = rows.take(self.sources, axis=1)
        if (self.weights != 1).any():
            taken *= self.weights
        sums = np.add.reduceat(taken, self.starts, axis=1)
        return np.asarray(sums / sums.sum(axis=1, keepdims=True))  # 1 + eps is not a probability
