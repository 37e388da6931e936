"""A stratified sample of rows, drawn from any number of them in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unlabel._typing import Booleans, Columns, Floats

SEED = 0
UNKNOWN = -1  # the column of a true label that is not known


def strata_of(rows: Floats, truth: Columns | None) -> Columns:
    """Number the strata of rows: by true label where it is known, else by the model's answer.

    Examples
    --------
    >>> strata_of(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([1, -1])).tolist()
    [1, 3]
    """
    by_answer = rows.shape[1] + rows.argmax(axis=1)
    return by_answer if truth is None else np.where(truth >= 0, truth, by_answer)


def allocate(sizes: npt.ArrayLike, total: int) -> Columns:
    """Share a number of rows out to strata, in proportion to their sizes.

    Remainders go to the largest ones. A stratum that has rows gets at least one, or, if there are
    more strata than rows to share out, the largest strata get one each.

    Examples
    --------
    >>> allocate([600, 398, 2, 0], 10).tolist()
    [5, 4, 1, 0]
    >>> allocate([600, 398, 2, 0], 2).tolist()
    [1, 1, 0, 0]
    """
    sizes = np.asarray(sizes, dtype=np.int64)
    if total >= sizes.sum():
        return sizes.astype(np.intp)
    given = np.zeros(len(sizes), dtype=np.intp)
    if total < np.count_nonzero(sizes):
        given[np.argsort(-sizes, kind="stable")[:total]] = 1
        return given
    is_open = sizes > 0
    while True:  # one row for each stratum whose proportion is less; then others have less, too
        left, size = total - given.sum(), sizes[is_open].sum()
        is_small = is_open & (sizes * left < size)
        if not is_small.any():
            break
        given[is_small] = 1
        is_open &= ~is_small
    shares = np.where(is_open, sizes * left, 0)
    given += shares // size
    most_left = np.argsort(-(shares % size), kind="stable")
    given[most_left[: total - given.sum()]] += 1
    return given


class Draw:
    """Draws rows of every stratum at random, while parts of a table pass by.

    Every row gets a random number, and those with the smallest stay. So the draw depends on the
    order of the rows alone, and not on the parts in which they come.

    Examples
    --------
    >>> draw = Draw([1, 2])
    >>> draw.add(np.array([0, 0, 0, 1]))
    (array([], dtype=bool), array([2, 3]))
    >>> draw.add(np.array([1, 1, 1]))
    (array([ True,  True]), array([2]))
    """

    def __init__(self, allotted: npt.ArrayLike) -> None:
        """Take the number of rows to draw of each stratum."""
        self._allotted = np.asarray(allotted)
        self._random = np.random.default_rng(SEED)
        self._strata = np.empty(0, dtype=np.intp)
        self._keys = np.empty(0)

    def add(self, strata: Columns) -> tuple[Booleans, Columns]:
        """Draw from a part: return which of the drawn rows stay, and which of the part's join them.

        Drawn rows are in the order in which they came.
        """
        before = len(self._strata)
        strata = np.concatenate([self._strata, strata])
        keys = np.concatenate([self._keys, self._random.random(len(strata) - before)])
        order = np.lexsort((keys, strata))
        ordered = strata[order]
        rank = np.empty(len(strata), dtype=np.intp)  # within the stratum
        rank[order] = np.arange(len(strata)) - np.searchsorted(ordered, ordered)
        is_drawn = rank < self._allotted[strata]
        self._strata, self._keys = strata[is_drawn], keys[is_drawn]
        return is_drawn[:before], np.flatnonzero(is_drawn[before:])


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a table: their confidences, true columns, row numbers and ids."""

    rows: Floats
    truth: Columns | None
    numbers: Columns
    ids: Sequence[str] | None

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, places: Columns) -> Sample:
        """Return some of the rows."""
        return Sample(
            self.rows[places],
            None if self.truth is None else self.truth[places],
            self.numbers[places],
            None if self.ids is None else [self.ids[place] for place in places.tolist()],
        )

    def followed_by(self, other: Sample) -> Sample:
        """Return these rows and then those of another sample."""
        truths = [each for each in (self.truth, other.truth) if each is not None]
        return Sample(
            np.concatenate([self.rows, other.rows]),
            np.concatenate(truths) if truths else None,
            np.concatenate([self.numbers, other.numbers]),
            None if self.ids is None or other.ids is None else [*self.ids, *other.ids],
        )

    def thinned(self, total: int) -> Sample:
        """Draw fewer rows, in the same proportions."""
        strata = strata_of(self.rows, self.truth)
        return self.at(Draw(allocate(np.bincount(strata), total)).add(strata)[1])
