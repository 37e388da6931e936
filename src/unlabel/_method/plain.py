"""The recipe executed in plain NumPy, block by block."""

from __future__ import annotations

import numpy as np

from unlabel._method.chain import Task, redistribute
from unlabel._method.split import row_blocks, split
from unlabel._method.temperature import at_temperature
from unlabel._typing import Float64s, Floats


def filter_rows(task: Task, rows: Floats, out: Floats, mass: Float64s | None) -> int:
    """Write the filtered rows into `out`, and each row's removed mass into `mass`, if given.

    Returns
    -------
    int
        The first row that is not a row of probabilities or logits, or -1. Such rows become NaN.
    """
    recipe, input, temperature, tolerance = task
    first_bad, start = -1, 0
    for block, result in zip(row_blocks(rows), row_blocks(out, rows.shape[1]), strict=True):
        with np.errstate(invalid="ignore", over="ignore"):
            masses = split(block, recipe.removed, recipe.retained, input)
            whole = masses.retired.sum(axis=1) + masses.total
            if input == "logits":
                valid = np.isfinite(whole) & (whole > 0)
            else:
                valid = np.abs(whole - 1) <= tolerance
                for part in (masses.retired, masses.retained):
                    if part.size and not part.min() >= 0:
                        valid &= (part >= 0).all(axis=1)
        bad = np.flatnonzero(~valid)
        if bad.size:
            first_bad = start + int(bad[0]) if first_bad < 0 else first_bad
            # In the place of invalid rows, some that can be worked on.
            masses.retired[bad] = 0.0
            masses.retained[bad] = masses.scale[bad] = 1.0
            masses.kept[bad] = masses.retained.shape[1]
        redistributed = redistribute(recipe, masses)
        if recipe.merge is not None:
            redistributed = recipe.merge.add_up(redistributed)
        result[:] = at_temperature(redistributed, temperature)
        result[bad] = np.nan
        if mass is not None:
            mass[start : start + len(block)] = masses.removed_mass
            mass[start + bad] = np.nan
        start += len(block)
    return first_bad
