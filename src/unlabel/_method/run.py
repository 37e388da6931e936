"""The one place that decides how a recipe is executed: compiled or plain, and on what threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from unlabel._method import compiled, plain
from unlabel._method.masses import BLOCK_ENTRIES
from unlabel._method.recipe import Recipe
from unlabel._typing import Booleans, Columns, Float64s, Floats, Kind
from unlabel.errors import UnlabelError

Result = TypeVar("Result")
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
    recipe: Recipe,
    rows: Floats,
    kind: Kind,
    dtype: npt.DTypeLike | None = None,
    *,
    masses: bool = True,
) -> Filtered:
    """Check and filter rows of any layout in float16, float32 or float64, in one pass.

    A row's answer depends on nothing but the row. The result has the dtype of the rows, if no
    other is given. The removed masses are an empty array if they are not asked for.
    """
    out = np.empty((len(rows), recipe.n_results), dtype=dtype or rows.dtype)
    mass = np.empty(len(rows) if masses else 0)
    is_compiled = compiled.is_available()
    loop = compiled.filter_rows if is_compiled else plain.filter_rows
    # The loops know float32 and float64; logarithms need the latter.
    exact = np.float64 if recipe.temperature != 1 or out.dtype == np.float16 else out.dtype

    def work(chunk: slice) -> int:
        given, result = rows[chunk], out[chunk]
        if is_compiled:
            if given.dtype != exact or not (given.flags.c_contiguous and given.flags.aligned):
                given = np.require(given, dtype=exact, requirements=["C", "A"])
            result = result if result.dtype == exact else np.empty(result.shape, dtype=exact)
        bad = loop(recipe, kind, given, result, mass[chunk] if masses else None)
        if result.base is not out:
            out[chunk] = result
        return bad if bad < 0 else chunk.start + bad

    found = in_chunks(work, rows.shape, copied=exact != rows.dtype)
    return Filtered(out, mass, min((bad for bad in found if bad >= 0), default=-1))


def restrict(rows: Floats, lists: Booleans, of_row: Columns, *, masses: bool = True) -> Float64s:
    """Leave rows of float32 or float64 only their allowed labels, in place.

    What is left is divided by its sum; where nothing is left, all allowed labels have the same.
    Returns the part of each row that was not allowed, or an empty array if it is not asked for.
    """
    not_allowed = np.empty(len(rows) if masses else 0)
    lists = np.ascontiguousarray(lists)
    loop = compiled.restrict if compiled.is_available() else plain.restrict

    def work(chunk: slice) -> None:
        loop(rows[chunk], lists, of_row[chunk], not_allowed[chunk] if masses else None)

    in_chunks(work, rows.shape)
    return not_allowed


def in_chunks(
    work: Callable[[slice], Result], shape: tuple[int, ...], *, copied: bool = False
) -> list[Result]:
    """Map chunks of the rows of an array, in any order, on several threads if it is large."""
    n_rows, width = shape
    is_large = n_rows * width > WORTH_A_THREAD and compiled.is_available()
    threads = thread_limit() if is_large else 1
    entries = BLOCK_ENTRIES if copied else CHUNK_ENTRIES  # copies stay in the cache
    size = max(1, min(entries // max(1, width), -(-n_rows // threads)))
    chunks = [slice(start, start + size) for start in range(0, n_rows, size)]
    if threads == 1 or len(chunks) == 1:
        return [*map(work, chunks)]
    waiting, found, errors = iter(chunks), list[Result](), list[BaseException]()

    def share() -> None:
        try:
            found.extend([work(chunk) for chunk in waiting])
        except BaseException as error:  # to be raised where the caller is
            errors.append(error)
            list(waiting)  # nothing is left for the other threads

    helpers = [Thread(target=share) for _ in range(min(threads, len(chunks)) - 1)]
    with suppress(RuntimeError):  # an interpreter that is shutting down starts none
        for helper in helpers:
            helper.start()
    share()
    for helper in filter(Thread.is_alive, helpers):
        helper.join()
    if errors:
        raise errors[0]
    return found


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
