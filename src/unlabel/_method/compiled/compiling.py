"""What the compiled loops have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

from unlabel._method.chain import SPARE
from unlabel._method.mixture import LIFT

Function = TypeVar("Function", bound=Callable[..., Any])

# The inverse of what is smaller may not be finite.
SMALLEST = 1e-300
# Rows that are followed together: their sums wait for memory and for each other no longer.
TILE = 32
# The columns of `unlabel._method.chain.Chain.numbers`.
DIAGONAL, PULL, QUIET, WEIGHT, COMPLEMENT = range(5)


def compiled(function: Function) -> Function:
    """Compile a function, once for this machine where a folder for that can be written to.

    Whether what it kept is stale numba tells by the file of the function alone. The name it is
    kept under tells of all files, as code is inlined from one into another.
    """
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    sources += repr((LIFT, SPARE)).encode()  # theirs are the files of the plain form
    function.__qualname__ += f"-{hashlib.sha256(sources).hexdigest()[:12]}"
    try:
        return _compile(function, cache=True)
    except RuntimeError:  # there is no such folder
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
    result: Function = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return result
