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

Most rows need less. A residual is the label's entry times one number, less a sum over the
others, and that sum is at least their mass times the mean's smallest entry. Where this rules
a residual out at every step, which the entries and their sums tell, a row is only rescaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unlabel._method import compiled
from unlabel._method.mixture import LIFT, Mixture, residuals
from unlabel._method.split import (
    LARGEST,
    Parts,
    Split,
    row_blocks,
    split_probabilities,
)
from unlabel._typing import Columns, Float64s, Floats

# A reference row this close to a multiple of the mean differs from it by rounding alone.
ROUNDING = 256 * float(np.finfo(np.float64).eps)
# A residual is ruled out with this much to spare, far more than rounding takes.
SPARE = 1 - 1e-9
# Rows of projectors that are made at a time.
STEPS_AT_A_TIME = 64


@dataclass(frozen=True, eq=False)
class Chain:
    """The removal of some labels one after another, ready to be applied.

    Arrays over steps and labels have a row a step and a column a label, and are 0 where
    the label is no longer there.
    """

    removed: Columns
    retained: Columns
    means: Float64s  # (k, n): as they were fitted
    fitted_shares: Float64s  # (k, n): as they were fitted
    numbers: Float64s  # (k, 5): `step_numbers` of each step
    known_mixture: Mixture | None = None

    @classmethod
    def of(cls, removed: Columns, means: Float64s, shares: Float64s) -> Chain:
        """Chain the steps that were fitted for some columns, in order."""
        after = np.ones(means.shape[1], dtype=np.bool_)
        numbers = np.empty((len(removed), 5))
        for step, column in enumerate(removed):
            after[column] = False
            numbers[step] = step_numbers(column, means[step], shares[step], after)
        return cls(np.asarray(removed), np.flatnonzero(after), means, shares, numbers)

    @property
    def quiet(self) -> Float64s:
        """The part of the other labels' mass up to which a label's entry has no residual."""
        return self.numbers[:, 2]

    @property
    def weight(self) -> Float64s:
        """The sum of each share as it was fitted."""
        return self.numbers[:, 3]

    @property
    def residual(self) -> Float64s:
        """Row i of each step's projector, of shape (k, n)."""
        rows = -self._pulls(slice(None))
        rows[np.arange(len(rows)), self.removed] = self.numbers[:, 0]
        return rows

    @property
    def along(self) -> Float64s:
        """Row i of each step's projector onto its mean, of shape (k, n)."""
        return np.asarray(self.numbers[:, 1, None] * self.means)

    @property
    def shares(self) -> Float64s:
        """The shares over the retained labels, each divided by its sum, of shape (k, n)."""
        shares = np.zeros_like(self.fitted_shares)
        shares[:, self.retained] = split_probabilities(
            self.fitted_shares, self.removed, self.retained
        ).masked
        return shares

    @property
    def overlap(self) -> Float64s:
        """Entry [r, s] is step s's residual of share r, of shape (k, k)."""
        return self.mixture.overlap

    @property
    def rest(self) -> Float64s:
        """Entry [r, s] is the part of share r that step s leaves over, of shape (k, k)."""
        mass = self.mixture.mass
        return np.triu(mass[:, 1:] / np.where(mass == 0, 1.0, mass)[:, :-1], 1)

    @cached_property
    def mixture(self) -> Mixture:
        """What mixing shares into rows takes."""
        if self.known_mixture is not None:
            return self.known_mixture
        mixture = Mixture.empty(self.removed, self.means.shape[1])
        np.multiply(self.fitted_shares, LIFT, out=mixture.lifted)
        mixture.weigh(slice(None), self.removed, self.retained)
        for first in range(0, len(self.removed), STEPS_AT_A_TIME):
            steps = slice(first, first + STEPS_AT_A_TIME)
            mixture.meet(slice(None), steps, self.removed, self._pulls(steps), self.numbers[steps])
        for met in (mixture.overlap, mixture.remainder):
            met[:] = np.triu(met, 1)
        return mixture

    def _pulls(self, steps: slice) -> Float64s:
        """What the means of some steps pull away along the other labels, of shape (steps, n)."""
        pulls: Float64s = self.numbers[steps, 1, None] * self.means[steps]
        pulls[np.arange(len(pulls)), self.removed[steps]] = 0.0
        return pulls

    def redistribute(self, parts: Parts) -> Float64s:
        """Give the vectors over the retained labels of rows that were taken apart."""
        result = parts.masked.copy()
        loud = ((parts.removed > self.quiet * parts.rest) | (parts.rest == 0)).any(axis=1)
        if loud.any():
            result[loud] = self._mix(Parts(*(part[loud] for part in parts)))
        return result

    def _mix(self, parts: Parts) -> Float64s:
        k = len(self.removed)
        mixture, rests, weight = self.mixture, self.rest, self.weight
        residual, remainder = self._input_residuals(parts)
        # Weights are held times a power of 2, as small ones of them may decide what is left.
        own = np.full(len(parts.masked), LIFT)  # the input's weight in the mixture
        weights = np.zeros((len(own), k))  # the shares' weights in it
        for step in range(k):
            earlier = weights[:, :step]
            before = slice(step), step
            rho = own * residual[:, step] + np.vecdot(earlier, mixture.overlap[before])
            one_less_rho = own * remainder[:, step] + np.vecdot(earlier, mixture.remainder[before])
            rho, one_less_rho = rho / LIFT, one_less_rho / LIFT
            one_less_rho[rho <= 0] = 1.0
            np.clip(rho, 0.0, 1.0, out=rho)
            kept = own * parts.rest[:, step]
            kept_earlier = earlier * rests[:step, step]
            left = kept + kept_earlier.sum(axis=1)
            # No mass is left over: the input takes it all where only underflow hides what
            # it holds, the share takes it all where there is nothing.
            bare = left == 0
            gone = bare & (parts.gone[:, step] | (own == 0))
            kept[bare] = left[bare] = 1.0
            rho[gone], one_less_rho[gone] = 1.0, 0.0
            to_share = rho * weight[step]
            total = one_less_rho + to_share
            scale = one_less_rho / total
            # Divided by `left` first: the inverse of a subnormal number overflows.
            own = kept / left * scale * LIFT
            weights[:, :step] = kept_earlier / left[:, None] * scale[:, None] * LIFT
            weights[:, step] = to_share / total * LIFT
        mixed = parts.masked * own[:, None]
        for step in np.flatnonzero(weights.any(axis=0)).tolist():
            # Share by share: a row's sum must not depend on the shares of rows beside it.
            at = np.flatnonzero(weights[:, step])
            mixed[at] += weights[at, step, None] * self.mixture.share(step, self.retained)
        # The weights sum to 1 but for rounding, and no entry may be above 1 by a bit.
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True), dtype=np.float64)

    @cached_property
    def _pulls_at_retained(self) -> Float64s:
        return np.ascontiguousarray((self.numbers[:, 1, None] * self.means[:, self.retained]).T)

    @cached_property
    def _pulls_at_removed(self) -> Float64s:
        at_removed: Float64s = self.numbers[:, 1, None] * self.means[:, self.removed]
        np.fill_diagonal(at_removed, 0.0)
        return at_removed

    def _input_residuals(self, parts: Parts) -> tuple[Float64s, Float64s]:
        """Each step's residual of the input among the labels it finds, and what that leaves."""
        # np.vecmat, not @: a row's answer must not depend on the rows beside it.
        along: Float64s = np.vecmat(parts.masked, self._pulls_at_retained)
        for step in range(len(self.removed) - 1, -1, -1):
            reached = along[:, : step + 1]
            reached *= parts.rest[:, step, None]
            reached += parts.removed[:, step, None] * self._pulls_at_removed[: step + 1, step]
        return residuals(parts.removed, parts.rest, along, self.numbers)


def step_numbers(
    column: int, mean: Float64s, share: Float64s, after: npt.NDArray[np.bool_]
) -> tuple[float, float, float, float, float]:
    """What a step's residual takes besides the mean, and the weight of its share.

    The residual of x is ``diagonal * x_i - pull * (c . x without entry i)``. There is none
    where x_i is at most ``quiet`` times the sum of the other entries, `after` being the labels
    that they belong to. ``complement`` is 1 - diagonal.
    """
    # Not @, whose threads take longer to start than these sums.
    others = mean[after]
    square, squares = np.square(mean).sum(), np.square(others).sum()
    diagonal, pull = squares / square, mean[column] / square
    complement = mean[column] * pull
    with np.errstate(over="ignore"):
        quiet = pull * others.min() / diagonal * SPARE if diagonal > 0 else LARGEST
    bound, weight = min(float(quiet), LARGEST), float(share.sum())
    return float(diagonal), float(pull), bound, weight, float(complement)


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
    columns = np.asarray(removed, dtype=np.intp)
    if split is split_probabilities and compiled.is_available() and len(columns):
        return compiled.fit_chain(references, columns, ROUNDING, LARGEST)
    means, shares = np.zeros((2, len(removed), n_labels))
    numbers, mixture = np.zeros((len(removed), 5)), Mixture.empty(removed, n_labels)
    there, retained = np.ones(n_labels, dtype=np.bool_), np.delete(np.arange(n_labels), columns)
    for step, rows in enumerate(references):
        column, found = columns[step], np.flatnonzero(there)
        chain = Chain(
            columns[:step],
            found,
            means[:step],
            shares[:step],
            numbers[:step],
            mixture.until(step),
        )
        # The rows of a later label first pass through the steps already fitted.
        blocks = (split(block, columns[:step], found) for block in row_blocks(rows))
        advanced = np.vstack([chain.redistribute(parts) for parts in blocks])
        at = int(np.searchsorted(found, column))
        means[step, found], shares[step, found] = label_statistics(advanced, at)
        there[column] = False
        numbers[step] = step_numbers(column, means[step], shares[step], there)
        pulls = numbers[step, 1] * means[step]
        pulls[column] = 0.0
        this = slice(step, step + 1)
        mixture.meet(slice(step), this, columns, pulls[None, :], numbers[this])
        np.multiply(shares[step], LIFT, out=mixture.lifted[step])
        mixture.weigh(this, columns, retained)
    return means, shares


def away_from(mean: Float64s, rows: Float64s, column: int) -> Float64s:
    """How far each entry of rows is from that of a multiple of the mean, ``|P y|``.

    The label's own entry is not subtracted from a number that is close to it.
    """
    others = mean.copy()
    others[column] = 0.0
    square = mean @ mean
    along: Float64s = np.vecdot(rows, others)
    part = (along + rows[:, column] * mean[column]) / square
    away: Float64s = np.abs(rows - part[:, None] * mean)
    away[:, column] = np.abs(rows[:, column] * (others @ others) - mean[column] * along) / square
    return away


def label_statistics(rows: Float64s, column: int) -> tuple[Float64s, Float64s]:
    """Mean and share of a label's reference rows, `column` being the label's own."""
    mean = np.ascontiguousarray(rows.T).mean(axis=1)  # contiguous: summed pairwise
    away = away_from(mean, rows, column)
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
