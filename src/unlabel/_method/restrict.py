"""Filtered rows restricted to the labels that each of them may have."""

from __future__ import annotations

import numpy as np

from unlabel._method import compiled
from unlabel._method.backend import CHUNK_ENTRIES, WORTH_A_THREAD
from unlabel._method.split import NOTHING, row_blocks
from unlabel._method.threads import on_threads, thread_limit
from unlabel._typing import Booleans, Columns, Float64s, Floats


def restrict(
    rows: Floats, lists: Booleans, of_row: Columns, *, absolute: bool, with_mass: bool = False
) -> Float64s | None:
    """Leave rows of float32 or float64 only their allowed labels, in place.

    What is left is divided by its sum, or all the same if nothing is left; `absolute` rows stay as
    they are. Gives the part of each row that was not allowed, if it is asked for.
    """
    mass = np.empty(len(rows)) if with_mass else None
    size = max(1, min(CHUNK_ENTRIES, rows.size) // max(1, rows.shape[1]))
    threads = thread_limit() if compiled.is_available() and rows.size > WORTH_A_THREAD else 1
    lists = np.ascontiguousarray(lists)

    def work(start: int) -> None:
        chunk = slice(start, start + size)
        masses = None if mass is None else mass[chunk]
        loop = compiled.restrict if compiled.is_available() else _restrict
        loop(rows[chunk], lists, of_row[chunk], masses, absolute)

    on_threads(work, range(0, len(rows), size), threads)
    return mass


def _restrict(
    rows: Floats, lists: Booleans, of_row: Columns, mass: Float64s | None, absolute: bool
) -> None:
    start = 0
    for block in row_blocks(rows):
        here = slice(start, start + len(block))
        allowed = lists[of_row[here]]
        kept = np.where(allowed, block, 0.0).sum(axis=1, dtype=np.float64)
        lost = np.where(allowed, 0.0, block).sum(axis=1, dtype=np.float64)
        if mass is not None:
            mass[here] = lost / (lost + kept)
        block *= allowed
        if not absolute:
            none = kept <= NOTHING
            block[none] = allowed[none]
            kept[none] = allowed[none].sum(axis=1)
            block[:] = block / kept[:, None]
        start += len(block)
