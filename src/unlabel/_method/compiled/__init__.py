"""The compiled loops, built when unlabel was installed where there was a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from unlabel._method.chain import Recipe
from unlabel._typing import Float64s, Floats, InputKind

try:
    from unlabel._method.compiled import _loops
except ImportError:
    _loops: Any = None  # type: ignore[no-redef]


def is_available() -> bool:
    """Whether the loops could be built."""
    return _loops is not None


def filter_rows(
    recipe: Recipe,
    rows: Floats,
    out: Floats,
    mass: Float64s | None,
    input: InputKind,
    temperature: float,
    tolerance: float,
) -> int:
    """Filter contiguous rows, as `unlabel._method.plain.filter_rows` does."""
    gaps = np.sort(recipe.removed)
    found: int = _loops.filter_rows(
        rows,
        out,
        mass,
        recipe.order,
        gaps,
        recipe.pulls,
        recipe.shares,
        recipe.numbers,
        rows.itemsize,
        input == "logits",
        temperature,
        tolerance,
    )
    return found
