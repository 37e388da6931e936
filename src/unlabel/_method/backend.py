"""The one place that decides how a recipe is executed: compiled or plain, and on what threads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unlabel._method import compiled, plain
from unlabel._method.chain import Recipe, Task
from unlabel._method.split import BLOCK_ENTRIES
from unlabel._method.threads import on_threads, thread_limit
from unlabel._typing import Columns, Float64s, Floats, InputKind

# Threads take rows in chunks of about this many entries: few enough that a core that is busy
# otherwise holds nobody up.
CHUNK_ENTRIES = 1 << 20
# Arrays of fewer entries are not worth the start of a thread.
WORTH_A_THREAD = 1 << 20


class Filtered(NamedTuple):
    """Filtered rows, NaN where they are not valid."""

    rows: Floats
    removed_mass: Float64s | None
    all_valid: bool
    not_allowed: Float64s | None = None  # the part of each row's result that was not allowed


def filter_rows(
    recipe: Recipe,
    rows: Floats,
    input: InputKind,
    *,
    temperature: float = 1.0,
    tolerance: float = np.inf,
    with_mass: bool = False,
    at: Columns | None = None,
    dtype: type[np.floating] | None = None,
) -> Filtered:
    """Filter rows of any layout in float16, float32 or float64, or those `at` some places.

    A row's answer depends on nothing but the row. Probabilities may sum to 1 more or less a
    `tolerance`. The result has the dtype of the rows, if no other is given.
    """
    n_rows = len(rows) if at is None else len(at)
    out = np.empty((n_rows, recipe.n_results), dtype=dtype or rows.dtype)
    mass = np.empty(n_rows) if with_mass else None
    task = Task(recipe, input, temperature, tolerance)
    is_compiled = compiled.is_available()
    loop = compiled.filter_rows if is_compiled else plain.filter_rows
    # The loops know float32 and float64; powers need the latter.
    exact = np.float64 if temperature != 1 or out.dtype == np.float16 else out.dtype
    threads = thread_limit() if is_compiled and n_rows * rows.shape[1] > WORTH_A_THREAD else 1
    # Copies stay in the cache.
    entries = CHUNK_ENTRIES if exact == rows.dtype and at is None else BLOCK_ENTRIES
    size = max(1, min(entries // rows.shape[1], -(-n_rows // threads)))

    def work(start: int) -> bool:
        chunk = slice(start, start + size)
        given, result = rows[chunk if at is None else at[chunk]], out[chunk]
        if is_compiled:
            if given.dtype != exact or not (given.flags.c_contiguous and given.flags.aligned):
                given = np.require(given, dtype=exact, requirements=["C", "A"])
            result = result if result.dtype == exact else np.empty(result.shape, dtype=exact)
        masses = None if mass is None else mass[chunk]
        bad = loop(task, given, result, masses)
        if result.base is not out:
            out[chunk] = result
        return bad < 0

    return Filtered(out, mass, all(on_threads(work, range(0, n_rows, size), threads)))
