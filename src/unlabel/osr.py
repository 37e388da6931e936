"""Output space redistribution (OSR): the method, as pure functions on arrays.

Removing label *i* from a confidence vector ``x`` takes two statistics of the label's
reference rows: their mean ``c`` and ``share``, the average direction in which rows
leave the mean. With ``P`` the projector onto the space orthogonal to ``c``,

* ``rho = (P x)_i``, clipped to [0, 1], is what is left of the label after projection;
* the other entries, divided by their sum, get ``1 - rho``; ``share`` gets ``rho``.

Only row *i* of ``P`` is ever needed, so nothing of size n x n is built.

Several labels are removed one after another, yet no intermediate vector is built
either. Every one of them is a mixture of the input and of the shares seen so far, each
restricted to the labels still there and divided by its sum. So a row is described by
its mixture weights, which sum to 1, and a step turns the weights into new weights: a
recurrence over k numbers a row between two products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unlabel.parts import Columns, Float64s, Floats, Parts, Split, row_blocks

# A reference row this close to a multiple of the mean differs from it by rounding alone.
ROUNDING = 256 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Chain:
    """The removal of some labels one after another, ready to be applied.

    Arrays over steps and labels have a row a step and a column a label, and are 0 where
    the label is no longer there.
    """

    removed: Columns
    retained: Columns
    residual: Float64s  # (k, n): row i of each step's projector
    shares: Float64s  # (k, n): the shares over the retained labels, each divided by its sum
    weight: Float64s  # (k,): the sum of each share as it was fitted
    overlap: Float64s  # (k, k): [r, s] is step s's residual of share r
    rest: Float64s  # (k, k): [r, s] is the part of share r that step s leaves over

    @classmethod
    def empty(cls, n_labels: int) -> Chain:
        """Make the chain that removes nothing."""
        return cls(
            removed=np.empty(0, dtype=np.intp),
            retained=np.arange(n_labels),
            residual=np.empty((0, n_labels)),
            shares=np.empty((0, n_labels)),
            weight=np.empty(0),
            overlap=np.empty((0, 0)),
            rest=np.empty((0, 0)),
        )

    @classmethod
    def of(cls, removed: Columns, means: Float64s, shares: Float64s) -> Chain:
        """Chain the steps that were fitted for some columns, in order."""
        chain = cls.empty(means.shape[1])
        for column, mean, share in zip(removed, means, shares, strict=True):
            chain = chain.then(column, mean, share)
        return chain

    def then(self, column: int, mean: Float64s, share: Float64s) -> Chain:
        """Add the removal of one more column."""
        residual = projector_row(mean, column)
        live = self.shares.copy()
        live[:, column] = 0.0
        rest = live.sum(axis=1)
        live /= np.where(rest == 0, 1.0, rest)[:, None]
        weight = share.sum()
        k = len(self.removed)
        overlap, rests = np.zeros((k + 1, k + 1)), np.zeros((k + 1, k + 1))
        overlap[:k, :k], rests[:k, :k] = self.overlap, self.rest
        overlap[:k, k], rests[:k, k] = self.shares @ residual, rest
        return Chain(
            removed=np.append(self.removed, column),
            retained=self.retained[self.retained != column],
            residual=np.vstack([self.residual, residual]),
            shares=np.vstack([live, share / weight]),
            weight=np.append(self.weight, weight),
            overlap=overlap,
            rest=rests,
        )

    def split(self, rows: Floats, split: Split) -> Iterator[Parts]:
        """Take rows apart along this chain, block by block."""
        return (split(block, self.removed, self.retained) for block in row_blocks(rows))

    def redistribute(self, parts: Parts) -> Float64s:
        """Give the vectors over the retained labels of rows that were taken apart."""
        k = len(self.removed)
        residual = self._input_residual(parts)
        own = np.ones(len(parts.masked))  # the input's weight in the mixture
        weights = np.zeros((len(own), k))  # the shares' weights in it
        for step in range(k):
            earlier = weights[:, :step]
            rho = own * residual[:, step] + np.vecdot(earlier, self.overlap[:step, step])
            np.clip(rho, 0.0, 1.0, out=rho)
            kept = own * parts.rest[:, step]
            kept_earlier = earlier * self.rest[:step, step]
            left = kept + kept_earlier.sum(axis=1)
            # No mass is left over: the input takes it all where only underflow hides what
            # it holds, the share takes it all where there is nothing.
            bare = left == 0
            gone = bare & (parts.gone[:, step] | (own == 0))
            kept[bare] = left[bare] = 1.0
            rho[gone] = 1.0
            to_share = rho * self.weight[step]
            total = (1.0 - rho) + to_share
            scale = (1.0 - rho) / total
            # Divided by `left` first: the inverse of a subnormal number overflows.
            own = kept / left * scale
            weights[:, :step] = kept_earlier / left[:, None] * scale[:, None]
            weights[:, step] = to_share / total
        shared: Float64s = np.vecmat(weights, self.shares[:, self.retained])
        mixed = parts.masked * own[:, None] + shared
        # The weights sum to 1 but for rounding, and no entry may be above 1 by a bit.
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True), dtype=np.float64)

    def _input_residual(self, parts: Parts) -> Float64s:
        """Each step's residual of the input, restricted to the labels that step finds."""
        # np.vecmat, not @: a row's answer must not depend on the rows beside it.
        at_retained = np.ascontiguousarray(self.residual[:, self.retained].T)
        residual: Float64s = np.vecmat(parts.masked, at_retained)
        at_removed = self.residual[:, self.removed]
        for step in range(len(self.removed) - 1, -1, -1):
            reached = residual[:, : step + 1]
            reached *= parts.rest[:, step, None]
            reached += parts.removed[:, step, None] * at_removed[: step + 1, step]
        return residual


def projector_row(mean: Float64s, column: int) -> Float64s:
    """Row `column` of ``I - c c'/|c|^2``, its diagonal entry without a subtraction."""
    square = mean @ mean
    row = -mean[column] / square * mean
    others = mean.copy()
    others[column] = 0.0
    row[column] = others @ others / square
    return np.asarray(row, dtype=np.float64)


def fit_chain(
    references: Sequence[Floats], removed: Sequence[int], n_labels: int, split: Split
) -> tuple[Float64s, Float64s]:
    """Fit the removal of some columns in order, given each one's reference rows.

    Returns
    -------
    means, shares : arrays of shape (k, n_labels)
        The statistics of each removed label, 0 for the labels removed before it.
    """
    means, shares = np.zeros((2, len(removed), n_labels))
    chain = Chain.empty(n_labels)
    for step, (rows, column) in enumerate(zip(references, removed, strict=True)):
        there = chain.retained
        # The rows of a later label first pass through the steps already fitted.
        advanced = np.vstack([chain.redistribute(parts) for parts in chain.split(rows, split)])
        at = int(np.searchsorted(there, column))
        means[step, there], shares[step, there] = label_statistics(advanced, at)
        chain = chain.then(column, means[step], shares[step])
    return means, shares


def label_statistics(rows: Float64s, column: int) -> tuple[Float64s, Float64s]:
    """Mean and share of a label's reference rows, `column` being the label's own."""
    mean = np.ascontiguousarray(rows.T).mean(axis=1)  # contiguous: summed pairwise
    along = np.vecdot(rows, mean) / (mean @ mean)
    away = np.abs(rows - along[:, None] * mean)
    length = away.sum(axis=1)
    informative = length > ROUNDING
    others = np.arange(len(mean)) != column
    share = np.zeros(len(mean))
    if informative.any():
        share = (away[informative] / length[informative, None]).mean(axis=0)
        share[column] = 0.0
    for fallback in (mean, np.ones(len(mean))):
        if share.sum() == 0:
            share = np.where(others, fallback, 0.0)
            share /= share.sum() or 1.0
    return mean, share
