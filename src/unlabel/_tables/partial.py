"""Partial rows, which name only some labels, and are assumed to name those of largest scores.

What a mask makes of a whole row is its retained masses, divided by what the removed labels leave.
A partial row hides the rest of its mass: it is taken for that of retained labels, so that a label
of the result has its named mass, divided by what the named removed labels leave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlabel._method.masses import NOTHING, SUM_TOLERANCE
from unlabel._typing import Booleans, Float64s, Floats, Label
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, outcome_of_filter

# How far from 1 a softmax in float32 may sum, with something to spare.
ROUNDING = 1e-6


class PartialRows(NamedTuple):
    """What is known of the result of each row."""

    confidences: Floats  # (n, labels of the result): NaN where no label that goes there was named
    removed_mass: Float64s  # the mass that was named for removed labels
    certain: Booleans  # whether the whole row has the same largest label; not so for ties
    only_removed: Booleans  # rows that name removed labels only, which have no result


def filter_partial(
    fitted: OutputFilter, rows: Floats, elsewhere: Float64s | None = None
) -> PartialRows:
    """Check and filter rows of probabilities, NaN for labels that were not named.

    `elsewhere` is the mass that rows name for labels which the model does not have. It counts as
    removed.

    Examples
    --------
    >>> masked = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox", "wolf"])
    >>> found = filter_partial(masked, np.array([[.2, .4, .1, np.nan]]))
    >>> found.confidences, found.certain
    (array([[0.5  , 0.125,   nan]]), array([ True]))
    """
    require_partial(fitted)
    check_partial(rows, fitted.classes_in, elsewhere)
    outcome, is_named = outcome_of_filter(fitted), ~np.isnan(rows)
    masses = np.where(is_named, rows, 0.0).astype(np.float64)
    removed = masses[:, outcome.removed].sum(axis=1)
    removed += 0.0 if elsewhere is None else elsewhere
    kept, named = masses[:, outcome.retained], is_named[:, outcome.retained]
    total, unnamed = kept.sum(axis=1), (~named).astype(np.float64)
    if (merge := outcome.merge) is not None:

        def merged(values: Float64s) -> Float64s:
            parts = values[:, merge.sources] * merge.weights
            return np.asarray(np.add.reduceat(parts, merge.starts, axis=1))

        kept, unnamed = merged(kept), merged(unnamed)
        named = np.logical_or.reduceat(named[:, merge.sources], merge.starts, axis=1)
    only_removed = total <= NOTHING
    # Nothing is hidden in a row that names all labels: it is divided by its sum, as a mask does.
    left = np.where(is_named.all(axis=1), total, np.maximum(1 - removed, total))
    result = np.where(named, kept / np.where(only_removed, 1.0, left)[:, None], np.nan)
    result[only_removed] = np.nan
    # No hidden label has more than the smallest that was named, nor all of them more than the rest.
    hidden = np.maximum(1 - removed - total, 0.0) + ROUNDING
    smallest = np.where(is_named, rows, 1.0).min(axis=1)
    rivals = kept + np.minimum(hidden[:, None], smallest[:, None] * unnamed)
    top = kept.argmax(axis=1)[:, None]
    np.put_along_axis(rivals, top, -1.0, axis=1)
    certain = np.take_along_axis(kept, top, axis=1)[:, 0] > rivals.max(axis=1)
    return PartialRows(
        result.astype(rows.dtype),
        removed / np.maximum(removed + total, 1.0),
        certain & ~only_removed,
        only_removed,
    )


def require_partial(fitted: OutputFilter) -> None:
    """Raise an error for filters that need whole rows."""
    needs = "needs whole rows, and partial rows name only some labels"
    if fitted.method != "mask" and fitted.removed:
        problem = f"The method {fitted.method!r} {needs}: use a mask."
        raise UnlabelError(problem, argument="method")
    if fitted.temperature != 1:
        problem = f"A temperature {needs}: use a filter that is not calibrated."
        raise UnlabelError(problem, argument="calibrate")
    if fitted.kind != "probabilities":
        problem = "Logits of only some labels do not tell their probabilities: give probabilities."
        raise UnlabelError(problem, argument="kind")


def check_partial(
    rows: Floats, classes: tuple[Label, ...], elsewhere: Float64s | None = None
) -> None:
    """Raise an error for the first row that cannot be part of a row of probabilities."""
    is_named = ~np.isnan(rows)
    masses = np.where(is_named, rows, 0.0)
    with np.errstate(over="ignore"):
        total = np.asarray(masses.sum(axis=1, dtype=np.float64))
    low, high, none = masses.min(axis=1), masses.max(axis=1), np.asarray(~is_named.any(axis=1))
    is_short = np.asarray(is_named.all(axis=1)) & (total < 1 - SUM_TOLERANCE)
    if elsewhere is not None:
        total, none = np.asarray(total + elsewhere), none & (elsewhere <= 0)
        is_short[:] = False  # there may be any number of other labels
    most = 1 + SUM_TOLERANCE
    bad = none | is_short | (low < 0) | (high > most) | (total > most)
    for row in np.flatnonzero(bad).tolist():
        wrong = is_named[row] & ((rows[row] < 0) | (rows[row] > most))
        if wrong.any():
            at = int(np.argmax(wrong))
            problem = (
                f"It gives the label {classes[at]!r} the score {float(rows[row, at]):.6g}: give "
                "probabilities from 0 to 1, not percentages, logits or log-probabilities."
            )
        elif none[row]:
            problem = "It names no label: give the score of at least one."
        elif is_short[row]:
            problem = f"It sums to {total[row]:.6g} and names every label: divide it by its sum."
        else:
            problem = (
                f"It sums to {total[row]:.6g}, more than 1: give probabilities of labels that "
                "exclude each other, as a softmax gives them."
            )
        raise UnlabelError(problem, row=row)
