"""Filtered rows restricted to the labels that each of them may have."""

from __future__ import annotations

import numpy as np

from unlabel._method.masses import NOTHING, row_blocks
from unlabel._typing import Booleans, Columns, Float64s


def restrict(rows: Float64s, lists: Booleans, of_row: Columns) -> Float64s:
    """Leave rows only their allowed labels, in place, and return the mass that was not allowed.

    What is left is divided by its sum; where nothing is left, all allowed labels have the same.
    """
    not_allowed = np.empty(len(rows))
    start = 0
    for block in row_blocks(rows):
        here = slice(start, start + len(block))
        allowed = lists[of_row[here]]
        lost = np.where(allowed, 0.0, block).sum(axis=1)
        block *= allowed
        kept = block.sum(axis=1)
        none = kept <= NOTHING
        block[none] = allowed[none]
        not_allowed[here] = np.where(none, 1.0, lost / (lost + kept))
        kept[none] = allowed[none].sum(axis=1)
        block /= kept[:, None]
        start = here.stop
    return not_allowed
