"""What the compiled loops have in common.

Whether compiled code in the cache is stale numba tells by the file of the function alone. So
after a change to this file, or to another that a loop is inlined from, delete the `.nbi` and
`.nbc` files beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# A row that a share is added to is held times this power of 2, which rounds nothing: entries
# at the end of the range of numbers keep their digits.
LIFT = 2.0**500
# Rows that are followed together: their sums wait for memory and for each other no longer.
TILE = 32
# A residual is ruled out with this much to spare, far more than rounding takes.
SPARE = 1 - 1e-9
# The columns of `unlabel.osr.Chain.numbers`.
DIAGONAL, PULL, QUIET, WEIGHT = range(4)


def compiled(function: Function) -> Function:
    """Compile a function, once for this machine where a folder for that can be written to."""
    return _compile(function)


def inlined(function: Function) -> Function:
    """Compile a part of a function.

    It takes whole arrays with a row's number: a call or a slice would count references, which
    threads would wait for.
    """
    return _compile(function, forceinline=True)


def summing(function: Function) -> Function:
    """Compile a part whose sums may be reordered, to lie in vector registers.

    It must write to no array: whether a loop that does is reordered hangs on where its arrays
    lie in memory, and with it the last digit.
    """
    return _compile(function, forceinline=True, fastmath={"reassoc"})


def _compile(function: Function, **options: Any) -> Function:
    options |= {"nogil": True, "error_model": "numpy"}
    try:
        result: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is no such folder
        result = numba.njit(**options)(function)
    return result
