"""The way to the compiled loops, for those who have installed the extra `fast`."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from warnings import warn

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unlabel._method.chain import Chain
    from unlabel._typing import Columns, Float64s, Floats

Scalar = TypeVar("Scalar", bound=np.generic)

# Threads take rows in chunks of about this many entries: few enough that a core that is busy
# otherwise holds nobody up, and as many as keep two threads out of the same large page of memory.
CHUNK_ENTRIES = 1 << 20

# Held while code is compiled. A fork waits for it: a child would inherit numba's own lock, held.
_compiling = threading.RLock()
_compiled: set[tuple[str, np.dtype[Any]]] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_compiling.acquire,
        after_in_parent=_compiling.release,
        after_in_child=_compiling.release,
    )


@cache
def is_available() -> bool:
    """Whether numba is installed and works; it is imported when it is first asked for."""
    try:
        import_module("unlabel._method.compiled.rows")
    except ModuleNotFoundError:
        return False
    except ImportError as error:
        warn(f"numba cannot be used, and unlabel is slower without: {error}", stacklevel=2)
        return False
    return True


def _run(module: str, name: str, dtype: np.dtype[Any], arguments: Sequence[Any]) -> Any:
    """Run a loop; the first time for a type of rows, that it be compiled."""
    loop = getattr(import_module(module), name)
    if (module, dtype) in _compiled:
        return loop(*arguments)
    with _compiling:
        try:
            result = loop(*arguments)
        except OSError:  # what was compiled could not be kept for the next process
            result = loop(*arguments)
    _compiled.add((module, dtype))
    return result


def redistribute(chain: Chain, rows: Floats, out: Floats, tolerance: float) -> bool:
    """Write the result of probability rows, and tell whether all of them are probabilities.

    Their sums may be off by `tolerance`. A row's result does not depend on the rows beside it,
    even where some of them are no probabilities.
    """
    exact = out.dtype  # wide enough for the rows, or theirs
    keep = np.zeros(rows.shape[1], dtype=exact)
    keep[chain.retained] = 1.0
    fixed = [
        chain.removed.astype(np.uintp),
        np.sort(chain.removed),
        chain.retained.astype(np.uintp),
        keep,
        _read_only(chain.means),
        _read_only(chain.fitted_shares),
        chain.numbers,
    ]
    cores = _cores() if rows.size > CHUNK_ENTRIES else 1
    size = max(1, min(CHUNK_ENTRIES // rows.shape[1], -(-len(rows) // cores)))

    def work(start: int) -> bool:
        # One layout and type, and with it the same machine code, for all that may come in.
        chunk = np.require(rows[start : start + size], dtype=exact, requirements=["C", "A"])
        given = (_read_only(chunk), out[start : start + size], *fixed, tolerance)
        return bool(_run("unlabel._method.compiled.rows", "redistribute", exact, given) < 0)

    starts = range(0, len(rows), size)
    if cores > 1:
        # Started anew each time: threads that are kept do not survive a fork.
        with (
            suppress(RuntimeError),  # an interpreter that is shutting down starts none
            ThreadPoolExecutor(min(cores, len(starts))) as threads,
        ):
            return all(list(threads.map(work, starts)))
    return all(list(map(work, starts)))


def fit_chain(
    references: Sequence[Floats], removed: Columns, rounding: float, largest: float
) -> tuple[Float64s, Float64s]:
    """Means and shares of some columns, in order, given each one's reference probabilities."""
    rows = np.concatenate(references, dtype=np.float64)
    starts = np.cumsum([0, *map(len, references)])
    means, shares = np.zeros((2, len(removed), rows.shape[1]))
    given = (
        _read_only(rows),
        starts,
        removed.astype(np.uintp),
        rounding,
        largest,
        means,
        shares,
        _read_only(means),
        _read_only(shares),
    )
    _run("unlabel._method.compiled.fitting", "fit", rows.dtype, given)
    return means, shares


def _read_only(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
