"""Metrics of a classifier's outputs after labels were removed, alone and beside retraining.

Every function is pure and takes confidences of shape (n_rows, n_outputs). Those that judge
them also take the true `labels`, one per row, the `classes` that name the columns, and `over`,
the labels whose rows count: by default `classes`. So A_R is `mean_accuracy` over the retained
labels and A_F over the removed ones, which are never predicted if `classes` lacks them.

Predictions and ranks can be taken from any scores, logits included. Everything else needs
probabilities, which are divided by their sums (stored tables round them), in float64. Tables may
be memory-mapped: only `on_retained` and `on_all` build another of about their size, and
`destination_matrix` copies the rows of one label at a time.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unlabel._method.masses import row_blocks
from unlabel._typing import Float64s, Floats
from unlabel.errors import UnlabelError
from unlabel.labels import as_classes, known_columns, no_such_label
from unlabel.metrics._rows import (
    Labels,
    by_row,
    checked_rows,
    comparable_rows,
    group_means,
    judged_rows,
    kl_of,
    mean_of_known,
    normalised,
    row_sums,
    rows_and_columns,
)

__all__ = [
    "Coverage",
    "ReliabilityBins",
    "coverage",
    "destination_matrix",
    "expected_calibration_error",
    "jensen_shannon",
    "kl_divergence",
    "label_accuracy",
    "log_loss",
    "mean_accuracy",
    "on_all",
    "on_retained",
    "ratio_to_seed_floor",
    "reliability_bins",
    "removed_mass",
    "top_label_changed",
    "unknown_share",
]

# The least that a probability counts as inside a logarithm. Softmax outputs in float32 hardly go
# lower; an entry that was rounded to 0, as in float16, costs up to -log(EPSILON) = 28.
EPSILON = 1e-12
TINY = float(np.finfo(np.float64).tiny)


class Coverage(NamedTuple):
    """The mean worst rank of the true labels, and the share of rows with a tie at that label."""

    value: float
    tie_share: float


class ReliabilityBins(NamedTuple):
    """Rows binned by top confidence: the means of each bin, NaN in empty ones, and its size."""

    confidence: Float64s
    accuracy: Float64s
    n_rows: npt.NDArray[np.intp]

    @property
    def calibration_error(self) -> float:
        """The gap between confidence and accuracy, averaged over rows."""
        gap = np.nan_to_num(np.abs(self.confidence - self.accuracy))
        return float(gap @ self.n_rows / self.n_rows.sum()) if self.n_rows.any() else np.nan


def label_accuracy(
    confidences: Any, labels: Any, classes: Labels, over: Labels | None = None
) -> Float64s:
    """Compute the share of each label's rows that are predicted as that label.

    The prediction is the largest entry, the first of equal ones. The shares are in the order of
    `over`, NaN for a label without rows.

    Examples
    --------
    >>> rows = [[.9, .1], [.4, .6], [.2, .8]]
    >>> label_accuracy(rows, ["dog", "dog", "cat"], ["dog", "fox"], over=["dog", "cat", "fox"])
    array([0.5, 0. , nan])
    """
    rows, column, group, n_groups = judged_rows(confidences, labels, classes, over, "logits")
    return group_means(rows.argmax(axis=1) == column, group, n_groups)


def mean_accuracy(
    confidences: Any, labels: Any, classes: Labels, over: Labels | None = None
) -> float:
    """Average `label_accuracy` over labels: A_R over retained labels, A_F over removed ones.

    Labels without rows are left out; NaN if no label has any. A_F is 0 for outputs without
    entries of the removed labels.

    Examples
    --------
    >>> mean_accuracy([[.9, .1], [.4, .6], [.2, .8]], ["dog", "dog", "fox"], ["dog", "fox"])
    0.75
    """
    return mean_of_known(label_accuracy(confidences, labels, classes, over))


def coverage(
    confidences: Any, labels: Any, classes: Labels, over: Labels | None = None
) -> Coverage:
    """Average the worst rank of each true label, from 0 to 1, and compute the tie share.

    The rank is the number of strictly larger entries divided by the number of outputs, infinite
    for labels that are not among `classes`. Labels without rows are left out. A row is tied when
    another entry equals that of its true label.

    Examples
    --------
    >>> coverage([[.5, .3, .2], [.2, .4, .4], [.1, .8, .1]], [0, 1, 0], [0, 1, 2])
    Coverage(value=0.16666666666666666, tie_share=0.6666666666666666)
    """
    rows, column, group, n_groups = judged_rows(confidences, labels, classes, over, "logits")
    counts = group >= 0
    rank, tied = np.full(len(rows), np.inf), np.zeros(len(rows))
    for at in row_blocks(np.flatnonzero(counts & (column >= 0)), rows.shape[1]):
        block = rows[at]
        own = block[np.arange(len(at)), column[at]][:, None]
        rank[at], tied[at] = (block > own).sum(axis=1), (block == own).sum(axis=1) > 1
    worst = np.full(n_groups, np.nan)
    np.fmax.at(worst, group[counts], rank[counts])
    return Coverage(mean_of_known(worst) / rows.shape[1], mean_of_known(tied[counts]))


def log_loss(confidences: Any, labels: Any, classes: Labels, over: Labels | None = None) -> float:
    """Average -log of the true label's probability, at least `EPSILON`, over rows.

    Agrees with scikit-learn's, which builds two tables of the input's size and clips by its dtype.

    Examples
    --------
    >>> round(log_loss([[.5, .5], [.8, .2]], ["a", "b"], ["a", "b"]), 4)
    1.1513
    """
    rows, column, group, _ = judged_rows(confidences, labels, classes, over, "probabilities")
    own = rows[np.arange(len(rows)), column] / row_sums(rows)
    own[column < 0] = 0.0
    return mean_of_known(-np.log(np.maximum(own[group >= 0], EPSILON)))


def reliability_bins(
    confidences: Any, labels: Any, classes: Labels, over: Labels | None = None, *, bins: int = 15
) -> ReliabilityBins:
    """Compute the confidence and accuracy of the predicted label, in bins of equal width.

    Bin *i* holds the rows whose largest probability is above i/bins and at most (i+1)/bins.

    Examples
    --------
    >>> binned = reliability_bins([[.9, .1], [.8, .2], [.4, .6]], [0, 1, 1], [0, 1], bins=4)
    >>> binned.confidence, binned.accuracy, binned.n_rows
    (array([ nan,  nan, 0.6 , 0.85]), array([nan, nan, 1. , 0.5]), array([0, 0, 1, 2]))
    """
    if bins < 1:
        raise UnlabelError(f"There are {bins} bins: give 1 or more.", argument="bins")
    rows, column, group, _ = judged_rows(confidences, labels, classes, over, "probabilities")
    top = rows.max(axis=1) / row_sums(rows)
    in_bin = np.where(group < 0, -1, np.searchsorted(np.arange(1, bins) / bins, top))
    return ReliabilityBins(
        group_means(top, in_bin, bins),
        group_means(rows.argmax(axis=1) == column, in_bin, bins),
        np.bincount(in_bin[in_bin >= 0], minlength=bins),
    )


def expected_calibration_error(
    confidences: Any, labels: Any, classes: Labels, over: Labels | None = None, *, bins: int = 15
) -> float:
    """Average the gap between confidence and accuracy of `reliability_bins` over rows.

    Examples
    --------
    >>> round(expected_calibration_error([[.9, .1], [.8, .2]], [0, 1], [0, 1], bins=4), 4)
    0.35
    """
    return reliability_bins(confidences, labels, classes, over, bins=bins).calibration_error


def destination_matrix(confidences: Any, labels: Any, classes: Labels, removed: Labels) -> Float64s:
    """Compute the mean output over the inputs of each removed label: where they went.

    One row per removed label, which sums to 1 (NaN without inputs), and one column per class.

    Examples
    --------
    >>> destination_matrix([[.9, .1], [.5, .5], [0, 1]], ["cat", "cat", "fox"],
    ...                    ["dog", "fox"], removed=["cat"])
    array([[0.7, 0.3]])
    """
    rows, _, group, n_groups = judged_rows(confidences, labels, classes, removed, "probabilities")
    matrix = np.zeros((n_groups, rows.shape[1]))
    for label, total in enumerate(matrix):
        for block in row_blocks(rows[group == label]):
            total += normalised(block).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


def kl_divergence(outputs: Any, reference: Any, *, epsilon: float = EPSILON) -> Float64s:
    """Compute the Kullback-Leibler divergence KL(outputs ‖ reference) of each row, in nats.

    As in the paper, the judged outputs come first, the retrained (or base) model second. Inside
    the logarithm both count as at least `epsilon`. `on_retained` gives both the same columns.

    Examples
    --------
    >>> kl_divergence([[1, 0], [.5, .5]], [[.5, .5], [1, 0]]).round(3)
    array([ 0.693, 13.122])
    """
    if not epsilon > 0:
        problem = f"The number {epsilon!r} has no logarithm: give a number above 0."
        raise UnlabelError(problem, argument="epsilon")
    return by_row(partial(kl_of, epsilon=epsilon), *comparable_rows(outputs, reference))


def jensen_shannon(outputs: Any, reference: Any) -> Float64s:
    """Compute the Jensen-Shannon divergence of each row, in nats: symmetric, from 0 to log 2.

    SciPy's `jensenshannon` is its square root, and NaN for some nearly equal rows.

    Examples
    --------
    >>> jensen_shannon([[1, 0], [.5, .5]], [[0, 1], [.5, .5]]).round(3)
    array([0.693, 0.   ])
    """

    def divergence(p: Floats, q: Floats) -> Any:
        p, q = normalised(p), normalised(q)
        middle = np.maximum((p + q) / 2, TINY)
        return sum(np.vecdot(x, np.log(np.maximum(x / middle, TINY))) for x in (p, q)) / 2

    return np.clip(by_row(divergence, *comparable_rows(outputs, reference)), 0.0, np.log(2))


def ratio_to_seed_floor(divergence: Any, seed_floor: Any) -> float:
    """Divide the mean divergence from a retrained model by that of one with another seed.

    Around 1, the outputs are as close to retraining as retraining is to itself.

    Examples
    --------
    >>> retrained, again, filtered = [[.8, .2]], [[.7, .3]], [[.6, .4]]
    >>> seed_floor = kl_divergence(again, retrained)
    >>> round(ratio_to_seed_floor(kl_divergence(filtered, retrained), seed_floor), 2)
    3.72
    """
    mean, floor = (mean_of_known(np.asarray(values)) for values in (divergence, seed_floor))
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.divide(mean, floor))


def on_retained(confidences: Any, classes: Labels, retained: Labels) -> Floats:
    """Take the entries of the retained labels, in the order given, and divide by their sum.

    Makes outputs with and without removed labels comparable. A row with nothing on retained
    labels becomes uniform, as with ``method="mask"``. The dtype stays.

    Examples
    --------
    >>> on_retained([[.5, .3, .2], [1, 0, 0]], ["cat", "dog", "fox"], ["fox", "dog"])
    array([[0.4, 0.6],
           [0.5, 0.5]])
    """
    rows, columns = rows_and_columns(confidences, classes, retained, "retained")
    result = np.empty((len(rows), len(columns)), dtype=rows.dtype)
    for block, out in zip(row_blocks(rows), row_blocks(result, rows.shape[1]), strict=True):
        kept = block.take(columns, axis=1).astype(np.float64)
        kept[~kept.any(axis=1)] = 1.0
        out[:] = normalised(kept)
    return result


def on_all(confidences: Any, classes: Labels, every: Labels) -> Floats:
    """Add a 0 for each label that the outputs lack, to compare them with the base model.

    Examples
    --------
    >>> on_all([[.4, .6]], ["dog", "fox"], ["cat", "dog", "fox"])
    array([[0. , 0.4, 0.6]])
    """
    names, all_names = as_classes(classes), as_classes(every, "every")
    rows = checked_rows(confidences, "probabilities", names)
    columns = known_columns(names, all_names)
    if (columns < 0).any():
        raise no_such_label(names[int(np.argmin(columns))], all_names)
    result = np.zeros((len(rows), len(all_names)), dtype=rows.dtype)
    for block, out in zip(row_blocks(rows), row_blocks(result, rows.shape[1]), strict=True):
        out[:, columns] = block
    return result


def removed_mass(confidences: Any, classes: Labels, removed: Labels) -> Float64s:
    """Sum the probabilities of the removed labels in each row.

    Examples
    --------
    >>> removed_mass([[.5, .25, .25]], ["cat", "dog", "fox"], ["cat", "fox"])
    array([0.75])
    """
    rows, columns = rows_and_columns(confidences, classes, removed, "removed")
    return by_row(lambda block: row_sums(block.take(columns, axis=1)) / row_sums(block), rows)


def top_label_changed(
    before: Any, classes_before: Labels, after: Any, classes_after: Labels
) -> npt.NDArray[np.bool_]:
    """Whether the top label of each row has changed; the mean is the share that have.

    Examples
    --------
    >>> top_label_changed([[.5, .3, .2], [.1, .7, .2]], ["cat", "dog", "fox"],
    ...                   [[.6, .4], [.8, .2]], ["dog", "fox"])
    array([ True, False])
    """
    names = as_classes(classes_before, "classes_before")
    names_after = as_classes(classes_after, "classes_after")
    rows = checked_rows(before, "logits", names)
    rows_after = checked_rows(after, "logits", names_after)
    if len(rows) != len(rows_after):
        raise UnlabelError(
            f"There are {len(rows)} rows before and {len(rows_after)} after: give the same rows."
        )
    column_before = known_columns(names_after, names)
    return np.asarray(rows.argmax(axis=1) != column_before[rows_after.argmax(axis=1)])


def unknown_share(removed_mass: Any, above: Any) -> Float64s:
    """Compute the share of rows whose removed mass is above each threshold.

    Those are the rows that an answer rule with that `max_removed_mass` answers with unknown. NaN
    without rows.

    Examples
    --------
    >>> unknown_share([.1, .5, .6, .9], [0, .5, .9])
    array([1. , 0.5, 0. ])
    """
    mass = np.sort(np.asarray(removed_mass, dtype=np.float64))
    if mass.ndim != 1:
        raise UnlabelError(f"The removed masses have the shape {mass.shape}: give one per row.")
    n_above = len(mass) - np.searchsorted(mass, np.asarray(above, dtype=np.float64), side="right")
    with np.errstate(invalid="ignore"):
        return np.asarray(np.divide(n_above, len(mass)))
