"""The compiled loops, built when unlabel was installed where there was a compiler."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from unlabel._method.chain import Recipe, Task
from unlabel._typing import Booleans, Columns, Float64s, Floats

_loops: Any
try:
    _loops = import_module("unlabel._method.compiled._loops")
except ImportError:  # there was no compiler
    _loops = None


def is_available() -> bool:
    """Whether the loops could be built."""
    return _loops is not None


def filter_rows(task: Task, rows: Floats, out: Floats, mass: Float64s | None) -> int:
    """Filter contiguous rows, as `unlabel._method.plain.filter_rows` does."""
    recipe, input, *options = task
    order = recipe.order.astype(np.int64, copy=False)
    arrays = (order, recipe.pulls, recipe.shares, recipe.numbers, *_merge(recipe))
    numbers = (len(recipe.removed), rows.itemsize, input == "logits")
    found: int = _loops.filter_rows(rows, out, mass, *arrays, *numbers, *options)
    return found


def _merge(recipe: Recipe) -> tuple[Any, Any, Any]:
    """Give the sources, starts and weights of a recipe's merge, or None for each."""
    merge = recipe.merge
    if merge is None:
        return None, None, None
    ends = np.append(merge.starts, len(merge.sources))
    sources, starts = (x.astype(np.int64, copy=False) for x in (merge.sources, ends))
    return sources, starts, merge.weights


def restrict(
    rows: Floats, lists: Booleans, of_row: Columns, mass: Float64s | None, absolute: bool
) -> None:
    """Do what `unlabel._method.restrict.restrict` does, to contiguous rows."""
    numbers = of_row.astype(np.int64, copy=False)
    _loops.restrict(rows, lists.view(np.uint8), numbers, mass, rows.itemsize, absolute)


def mean_and_direction(rows: Float64s, rounding: float) -> tuple[Float64s, Float64s]:
    """Do what `unlabel._method.statistics.mean_and_direction` does."""
    mean, direction = np.empty((2, rows.shape[1]))
    _loops.statistics(rows, mean, direction, rounding)
    return mean, direction
