"""The compiled loops, built when unlabel was installed where there was a compiler."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from unlabel._method.masses import SUM_TOLERANCE
from unlabel._method.recipe import Recipe
from unlabel._typing import Booleans, Columns, Float64s, Floats, Kind

_loops: Any
try:
    _loops = import_module("unlabel._method.compiled._loops")
except ImportError:  # there was no compiler
    _loops = None


def is_available() -> bool:
    """Whether the loops could be built."""
    return _loops is not None


def filter_rows(
    recipe: Recipe, kind: Kind, rows: Floats, out: Floats, mass: Float64s | None
) -> int:
    """Filter contiguous rows, as `unlabel._method.plain.filter_rows` does."""
    numbers = len(recipe.removed), rows.itemsize, kind == "logits", recipe.temperature
    found: int = _loops.filter_rows(rows, out, mass, *recipe.buffers, *numbers, SUM_TOLERANCE)
    return found


def restrict(rows: Floats, lists: Booleans, of_row: Columns, not_allowed: Float64s | None) -> None:
    """Restrict contiguous rows, as `unlabel._method.plain.restrict` does."""
    numbers = of_row.astype(np.int64, copy=False)
    _loops.restrict(rows, lists.view(np.uint8), numbers, not_allowed, rows.itemsize)
