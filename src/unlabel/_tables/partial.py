"""Partial rows, which name only some labels: the ends between which the result of each lies.

A row of probabilities that names only some labels hides the rest of its mass. Masks divide each
of the result's labels by all that retained labels have, so a label of the result with the named
mass ``s``, of ``S`` for all of them, has

    (s + own) / (S + own + others)

where ``own`` is the hidden mass that goes to it, and ``others`` the hidden mass that goes to the
other labels of the result; retired labels have the rest. This grows with ``own`` and falls with
``others``, so that its ends are found where one is as large and the other as small as can be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from unlabel._method.split import BLOCK_ENTRIES, NOTHING
from unlabel._row_sums import SUM_TOLERANCE, are_not_probabilities
from unlabel._typing import Booleans, Columns, Float64s, Floats, Label
from unlabel.errors import RowError, UnlabelError
from unlabel.filter import OutputFilter

# How far from 1 a softmax in float32 may sum, with something to spare. Tables often hold its
# numbers in float64.
SOFTMAX_ROUNDING = 1e-6
# Scores of at most six decimals were written so, or rounded: they are taken as they stand.
SHORT_DECIMALS = 1e6
# More labels than any model has.
MOST_LABELS = 1 << 40


class PartialRows(NamedTuple):
    """The ends of the result of each row, its answer and its removed mass.

    Rows that name nothing but retired labels, or have all their named mass on them, have no
    answer and NaN for all ends.
    """

    lower: Floats  # (n, labels of the result): NaN where no label that goes there was named
    upper: Floats  # the same shape; NaN in the same places
    top: Columns  # the answer's column in the result, -1 if there is none
    certain: Booleans  # whether the whole row has the same answer; not so for ties
    removed_mass: Float64s  # the mass that was named for retired labels
    removed_mass_upper: Float64s  # the most that they can have


def filter_partial(
    fitted: OutputFilter, rows: Floats, elsewhere: Float64s | None = None, *, largest: bool = False
) -> PartialRows:
    """Filter rows that name only some labels.

    Parameters
    ----------
    fitted : OutputFilter
        One that `require_partial` accepts.
    rows : array of shape (n, n_labels)
        Probabilities, NaN for labels that were not named.
    elsewhere : array of shape (n,), optional
        The mass that rows name for labels which the model does not have. Such labels count as
        retired, and there may be any number more of them that rows do not name.
    largest : bool
        Whether the labels with the largest scores were named, as in a top-k answer: no other
        has more than the smallest score that was named.

    Examples
    --------
    >>> mask = OutputFilter.mask(["cat", "cow", "dog", "fox", "wolf"], ["cat", "cow"])
    >>> partial = filter_partial(mask, np.array([[.2, np.nan, .5, .1, np.nan]]))
    >>> partial.lower.round(3), partial.upper.round(3)
    (array([[0.625, 0.125,   nan]]), array([[0.833, 0.167,   nan]]))
    >>> mask.classes[partial.top[0]], partial.certain
    ('dog', array([ True]))
    """
    require_partial(fitted)
    check_partial(rows, fitted.classes_in, elsewhere, largest=largest)
    ends = (len(rows), len(fitted.classes)), np.promote_types(rows.dtype, np.float32)
    result = PartialRows(
        np.empty(*ends),
        np.empty(*ends),
        np.empty(len(rows), np.intp),
        np.empty(len(rows), np.bool_),
        np.empty(len(rows)),
        np.empty(len(rows)),
    )
    for at in _blocks(rows):
        named = _add_up(fitted, rows[at], largest)
        if elsewhere is not None:
            named = named.with_others(elsewhere[at, None])
        for whole, part in zip(result, _filter_block(fitted, rows[at], named), strict=True):
            whole[at] = part
    return result


def require_partial(fitted: OutputFilter) -> None:
    """Refuse filters that need whole rows."""
    if fitted.method != "mask" and fitted.removed:
        raise UnlabelError(
            f"method={fitted.method!r} needs whole rows, and partial rows name only some labels: "
            "fit the filter with method='mask' (--method mask)."
        )
    if fitted.temperature != 1:
        raise UnlabelError(
            "A temperature needs whole rows, and partial rows name only some labels: fit the "
            "filter without calibrate=True (--calibrate)."
        )
    if fitted.input != "probabilities":
        raise UnlabelError(
            "The filter takes logits, and those of only some labels do not tell their "
            "probabilities: give probabilities, and declare them with input='probabilities' "
            "(--input probabilities)."
        )


def check_partial(
    rows: Floats,
    classes: Sequence[Label],
    elsewhere: Float64s | None = None,
    *,
    largest: bool = False,
) -> None:
    """Refuse rows that cannot be parts of rows of probabilities, naming the first."""
    if elsewhere is not None:  # two more labels: all that are named, and all that are not
        others = np.full((len(rows), 2), np.nan, dtype=rows.dtype)
        others[:, 0] = np.where(elsewhere > 0, elsewhere, np.nan)
        rows, largest = np.hstack([rows, others]), False
        classes = (*classes, "(others)", "(the rest)")
    tolerance = SUM_TOLERANCE[rows.dtype]
    for at in _blocks(rows):
        block = rows[at]
        named = ~np.isnan(block)
        cap = _cap(block, named, largest)
        least = np.where(named, block, 0.0).astype(block.dtype)
        most = np.where(named, block, cap[:, None]).astype(block.dtype)
        bad = np.logical_or(~named.any(axis=1), (least < 0).any(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            above = least.sum(axis=1, dtype=np.float64) > 1 + tolerance
            below = most.sum(axis=1, dtype=np.float64) < 1 - tolerance
        for off, bound in ((above, least), (below, most)):
            doubtful = np.flatnonzero(off)
            if doubtful.size:
                bad[doubtful] |= are_not_probabilities(bound[doubtful])
        if bad.any():
            row = int(np.argmax(bad))
            raise RowError(at.start + row, _problem(block[row].astype(np.float64), classes))


def _problem(row: Float64s, classes: Sequence[Label]) -> str:
    named = ~np.isnan(row)
    if not named.any():
        return " names no label: give the score of at least one."
    wrong = (row < 0) | (row > 1 + SUM_TOLERANCE[np.dtype(np.float16)])
    if wrong.any():
        column = int(np.argmax(wrong))
        return (
            f" gives the label {classes[column]!r} the score {row[column]:.6g}: give probabilities "
            "from 0 to 1, not percentages, logits or log-probabilities."
        )
    total = f" sums to {row[named].sum():.6g}"
    if row[named].sum() > 1:
        return (
            f"{total}, and the labels that it names cannot have more than 1: give probabilities "
            "of labels that exclude each other, as a softmax gives them."
        )
    if named.all():
        return f"{total} and names every label: divide it by its sum, or leave out unknown scores."
    return (
        f"{total}, and the labels that it does not name cannot have the rest if none has more "
        f"than {row[named].min():.6g}, the smallest score: name the labels with the largest "
        "scores, or leave out top_k (--top-k)."
    )


def _blocks(rows: Floats) -> Iterator[slice]:
    size = max(1, BLOCK_ENTRIES // rows.shape[1])
    return (slice(start, start + size) for start in range(0, len(rows), size))


def _cap(rows: Floats, named: Booleans, largest: bool) -> Float64s:
    """Give the most that each label can have that a row does not name."""
    if not largest:
        return np.ones(len(rows))
    return np.asarray(np.where(named, rows, 1.0).min(axis=1), dtype=np.float64)


class _Gains(NamedTuple):
    """Bounds of the hidden mass that goes to each of the result's labels, and to the others."""

    least: Float64s  # (n, m)
    most: Float64s  # (n, m)
    others_most: Float64s  # (n, m)
    together_least: Float64s  # (n, 1): to all of them


class _Named(NamedTuple):
    """Rows with their labels added up by destination, and the room for their hidden mass."""

    masses: Float64s  # (n, m): the named mass of each of the result's labels
    are_named: Booleans  # (n, m): whether any label that goes there was named
    removed: Float64s  # (n, 1): the named mass of the retired labels
    kept: Float64s  # (n, 1): the named mass of the others
    cap: Float64s  # (n, 1): the most that an unnamed label can have
    n_retired: Columns  # (n, 1): the number of unnamed retired labels
    n_retained: Columns  # (n, 1): the number of other unnamed labels
    weights: Float64s  # (n, m): the sum of the weights with which those go to each
    largest_weights: Float64s  # (n, m): the largest of these weights

    def with_others(self, mass: Float64s) -> _Named:
        """Count labels that the model does not have as retired, named with that mass or not."""
        n_retired = self.n_retired + MOST_LABELS
        return self._replace(removed=self.removed + mass, n_retired=n_retired)

    @property
    def hidden(self) -> Float64s:
        return np.asarray(np.maximum(1 - (self.removed + self.kept), 0.0))

    def gains(self, slack: float | Float64s) -> _Gains:
        """Bound the gains from the hidden mass, which is known up to some slack."""
        all_room = self.cap * (self.n_retired + self.n_retained)
        least, most = (np.minimum(self.hidden + off, all_room) for off in (-slack, slack))
        own = np.minimum(most * self.largest_weights, self.cap * self.weights)
        others_room = self.cap * np.maximum(self.n_retained - self.weights, 0.0)
        others = np.minimum(most, others_room)
        together = np.maximum(least - self.cap * self.n_retired, 0.0)
        return _Gains(np.maximum(together - others, 0.0), own, others, together)


def _add_up(fitted: OutputFilter, given: Floats, largest: bool) -> _Named:
    retired, retained = fitted.removed_columns, fitted.retained_columns
    is_named = ~np.isnan(given)
    rows = np.where(is_named, given, 0.0).astype(np.float64)
    kept, kept_named = rows.take(retained, axis=1), is_named.take(retained, axis=1)
    unnamed = (~kept_named).astype(np.float64)
    masses, are_named, weights, largest_weights = kept, kept_named, unnamed, unnamed
    if (merge := fitted.outcome.merge) is not None:
        weights = unnamed.take(merge.sources, axis=1) * merge.weights
        largest_weights = np.maximum.reduceat(weights, merge.starts, axis=1)
        weights = np.add.reduceat(weights, merge.starts, axis=1)
        masses = kept.take(merge.sources, axis=1) * merge.weights
        masses = np.add.reduceat(masses, merge.starts, axis=1)
        are_named = kept_named.take(merge.sources, axis=1)
        are_named = np.logical_or.reduceat(are_named, merge.starts, axis=1)
    return _Named(
        masses,
        are_named,
        removed=rows.take(retired, axis=1).sum(axis=1, keepdims=True),
        kept=kept.sum(axis=1, keepdims=True),
        cap=_cap(given, is_named, largest)[:, None],
        n_retired=np.count_nonzero(~is_named.take(retired, axis=1), axis=1, keepdims=True),
        n_retained=np.count_nonzero(~kept_named, axis=1, keepdims=True),
        weights=weights,
        largest_weights=largest_weights,
    )


def _filter_block(fitted: OutputFilter, given: Floats, named: _Named) -> PartialRows:
    has_answer = (named.kept > NOTHING)[:, 0]
    rounding = _rounding(given)
    lower, upper = _ends(named, rounding)
    lower[~has_answer] = upper[~has_answer] = np.nan
    top = np.where(named.are_named & has_answer[:, None], lower, -1.0).argmax(axis=1)
    certain = _are_certain(named, top, rounding) & has_answer
    top[~has_answer] = -1
    total = np.maximum(named.removed + named.kept, 1.0)
    most_removed = named.removed + np.minimum(named.hidden, named.cap * named.n_retired)
    partial = PartialRows(
        lower, upper, top, certain, (named.removed / total)[:, 0], (most_removed / total)[:, 0]
    )
    whole = np.flatnonzero((named.n_retired + named.n_retained)[:, 0] == 0)
    if whole.size:
        for out, values in zip(partial, _whole(fitted, given[whole]), strict=True):
            out[whole] = values
    return partial


def _rounding(given: Floats) -> Float64s:
    """Give the error of each row's sum: that of its type for short decimals, which are exact."""
    own = 8 * float(np.finfo(given.dtype).eps)
    units = np.where(np.isnan(given), 0.0, given).astype(np.float64) * SHORT_DECIMALS
    is_short = (np.abs(units - np.rint(units)) <= SHORT_DECIMALS * own).all(axis=1, keepdims=True)
    return np.where(is_short, own, max(SOFTMAX_ROUNDING, own))


def _ends(named: _Named, rounding: Float64s) -> tuple[Float64s, Float64s]:
    kept = np.where(named.kept > NOTHING, named.kept, 1.0)
    # Rounding decides about the ends where retired labels leave little of a row. Elsewhere it is
    # of no more importance than that of the scores themselves, and the ends are exact.
    slack = rounding * np.maximum(named.removed - (kept + named.hidden), 0.0)
    gains = named.gains(slack)
    upper = (named.masses + gains.most) / (kept + np.maximum(gains.most, gains.together_least))
    lower = (named.masses + gains.least) / (
        kept + np.maximum(gains.others_most, gains.together_least)
    )
    upper = np.where(named.are_named, np.minimum(upper, 1.0), np.nan)
    return np.minimum(lower, upper), upper


def _are_certain(named: _Named, top: Columns, rounding: Float64s) -> Booleans:
    """Tell for which rows no other label can have as much as the top one, wherever mass hides.

    More rows are certain than have separate ends: the ends of a row all depend on the same hidden
    mass, which cannot be in two places.
    """
    gains = named.gains(rounding)
    rivals = named.masses + gains.most
    np.put_along_axis(rivals, top[:, None], -1.0, axis=1)
    least = np.take_along_axis(named.masses + gains.least, top[:, None], axis=1)[:, 0]
    # Labels that are closer to each other can have the same in the whole row's result.
    return np.asarray(least * (1 - rounding[:, 0]) > rivals.max(axis=1))


def _whole(fitted: OutputFilter, rows: Floats) -> PartialRows:
    dtype = np.promote_types(rows.dtype, np.float32).type
    filtered = fitted.filter_checked(rows, with_mass=True, dtype=dtype)
    result, mass = filtered.rows, np.asarray(filtered.removed_mass)
    is_top = result == result.max(axis=1, keepdims=True)
    has_one_top = np.count_nonzero(is_top, axis=1) == 1
    return PartialRows(result, result, is_top.argmax(axis=1), has_one_top, mass, mass)
