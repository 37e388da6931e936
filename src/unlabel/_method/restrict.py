"""Filtered rows restricted to the labels that each of them may have."""

from __future__ import annotations

import numpy as np

from unlabel._method import compiled
from unlabel._method.masses import NOTHING, row_blocks
from unlabel._method.run import in_chunks
from unlabel._typing import Booleans, Columns, Float64s, Floats


def restrict(rows: Floats, lists: Booleans, of_row: Columns) -> Float64s:
    """Leave rows of float32 or float64 only their allowed labels, in place.

    What is left is divided by its sum; where nothing is left, all allowed labels have the same.
    Returns the part of each row that was not allowed.
    """
    not_allowed = np.empty(len(rows))
    lists = np.ascontiguousarray(lists)
    loop = compiled.restrict if compiled.is_available() else restrict_plain
    in_chunks(lambda chunk: loop(rows[chunk], lists, of_row[chunk], not_allowed[chunk]), rows.shape)
    return not_allowed


def restrict_plain(rows: Floats, lists: Booleans, of_row: Columns, not_allowed: Float64s) -> None:
    """Restrict rows in NumPy, block by block."""
    start = 0
    for block in row_blocks(rows):
        here = slice(start, start + len(block))
        allowed = lists[of_row[here]]
        kept = np.where(allowed, block, 0.0).sum(axis=1, dtype=np.float64)
        lost = np.where(allowed, 0.0, block).sum(axis=1, dtype=np.float64)
        block *= allowed
        none = kept <= NOTHING
        block[none] = allowed[none]
        kept[none] = allowed[none].sum(axis=1)
        not_allowed[here] = np.where(none, 1.0, lost / (lost + kept))
        block[:] = block / kept[:, None]
        start = here.stop
