"""The one place that decides how a recipe is executed: compiled or plain, and on what threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from unlabel._method import compiled, plain
from unlabel._method.masses import BLOCK_ENTRIES
from unlabel._method.recipe import Recipe
from unlabel._typing import Float64s, Floats, Kind
from unlabel.errors import UnlabelError

# Threads take rows in chunks of about this many entries: small enough that one slow core does not
# stall the rest.
CHUNK_ENTRIES = 1 << 20
# Arrays of fewer entries are not worth the start of a thread.
WORTH_A_THREAD = 1 << 20


class Filtered(NamedTuple):
    """Filtered rows, NaN where they are not valid."""

    rows: Floats
    removed_mass: Float64s
    first_bad: int  # the first row that is not valid, or -1


def run(
    recipe: Recipe, rows: Floats, kind: Kind, dtype: type[np.floating] | None = None
) -> Filtered:
    """Check and filter rows of any layout in float16, float32 or float64, in one pass.

    A row's answer depends on nothing but the row. The result has the dtype of the rows, if no
    other is given.
    """
    out = np.empty((len(rows), recipe.n_results), dtype=dtype or rows.dtype)
    mass = np.empty(len(rows))
    is_compiled = compiled.is_available()
    loop = compiled.filter_rows if is_compiled else plain.filter_rows
    # The loops know float32 and float64; logarithms need the latter.
    exact = np.float64 if recipe.temperature != 1 or out.dtype == np.float16 else out.dtype
    is_large = is_compiled and rows.size > WORTH_A_THREAD
    threads = thread_limit() if is_large else 1
    # Copies stay in the cache.
    entries = CHUNK_ENTRIES if exact == rows.dtype else BLOCK_ENTRIES
    size = max(1, min(entries // rows.shape[1], -(-len(rows) // threads)))

    def work(start: int) -> int:
        chunk = slice(start, start + size)
        given, result = rows[chunk], out[chunk]
        if is_compiled:
            if given.dtype != exact or not (given.flags.c_contiguous and given.flags.aligned):
                given = np.require(given, dtype=exact, requirements=["C", "A"])
            result = result if result.dtype == exact else np.empty(result.shape, dtype=exact)
        bad = loop(recipe, kind, given, result, mass[chunk])
        if result.base is not out:
            out[chunk] = result
        return bad if bad < 0 else start + bad

    starts = range(0, len(rows), size)
    if threads == 1 or len(starts) == 1:
        found = [*map(work, starts)]
    else:
        with ThreadPoolExecutor(min(threads, len(starts))) as pool:
            found = [*pool.map(work, starts)]
    return Filtered(out, mass, min((bad for bad in found if bad >= 0), default=-1))


def thread_limit() -> int:
    """Return the number of threads to use: the processor's cores, or UNLABEL_THREADS."""
    wanted = os.environ.get("UNLABEL_THREADS")
    if wanted is not None:
        if not wanted.isdecimal() or int(wanted) == 0:
            raise UnlabelError(f"UNLABEL_THREADS is {wanted!r}: set it to a positive integer")
        return int(wanted)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
