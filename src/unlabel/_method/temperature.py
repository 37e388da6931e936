"""One temperature after the filter: fitted by log-loss, it changes no ranking."""

from __future__ import annotations

import numpy as np

from unlabel._method.split import BLOCK_ENTRIES, NOTHING, row_blocks
from unlabel._method.threads import on_threads, thread_limit
from unlabel._typing import Columns, Float64s
from unlabel.errors import UnlabelError

# With fewer rows the error of the one number that is fitted outweighs its use.
MIN_ROWS = 50
# A temperature beyond these bounds is a sign that the rows do not determine one.
COLDEST, HOTTEST = 1 / 64, 64.0
# Low enough to vanish at any temperature, yet finite: 0 times minus infinity is NaN.
LOG_OF_ZERO = -1e6


def at_temperature(probabilities: Float64s, temperature: float) -> Float64s:
    """Raise rows to the power 1/temperature and divide them by their sum.

    Examples
    --------
    >>> import numpy as np
    >>> at_temperature(np.array([[0.8, 0.2]]), 2.0).round(3)
    array([[0.667, 0.333]])
    """
    if temperature == 1:
        return probabilities
    # What counts as nothing stays nothing at any temperature.
    fine = probabilities > NOTHING
    logs = np.log(probabilities, where=fine, out=np.full_like(probabilities, -np.inf)) / temperature
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def fit_temperature(probabilities: Float64s, columns: Columns) -> float:
    """Find the temperature with the lowest log-loss for the true `columns`.

    A row that gives its true label no probability does so at every temperature, and is
    left out. The rows are overwritten.
    """
    from scipy.optimize import brentq  # slow to import, and not needed to apply a filter

    known = probabilities[np.arange(len(columns)), columns] > 0
    if known.sum() < MIN_ROWS:
        raise UnlabelError(
            f"calibrate needs at least {MIN_ROWS} reference rows of retained labels, with some "
            f"confidence in the true label, and found {known.sum()}: give more rows, or leave "
            "calibrate off."
        )
    if not known.all():
        probabilities, columns = probabilities[known], columns[known]
    for block in row_blocks(probabilities):
        with np.errstate(divide="ignore"):
            np.maximum(np.log(block), LOG_OF_ZERO, out=block)
        block -= block.max(axis=1, keepdims=True)  # so that no power is too large
    logs = probabilities, probabilities[np.arange(len(columns)), columns]
    cold, hot = 1 / 2, 2.0
    while _slope(1 / cold, *logs) <= 0:
        cold /= 2
        if cold < COLDEST:
            raise UnlabelError(
                "calibrate found no temperature: the filtered confidences are right in all, or "
                f"nearly all, of the {len(columns)} reference rows of retained labels. Give rows "
                "that the model was not trained on, or leave calibrate off."
            )
    while _slope(1 / hot, *logs) >= 0:
        hot *= 2
        if hot > HOTTEST:
            raise UnlabelError(
                "calibrate found no temperature: the filtered confidences are no better than "
                f"chance in the {len(columns)} reference rows of retained labels. Check that the "
                "true labels belong to these rows, or leave calibrate off."
            )
    # As arguments: a closure over the rows would keep them until garbage is collected.
    return 1 / float(brentq(_slope, 1 / hot, 1 / cold, args=logs, xtol=1e-13, rtol=1e-13))


def _slope(sharpness: float, logs: Float64s, truth: Float64s) -> float:
    """Derivative of the log-loss, which is convex in the sharpness 1/temperature."""
    size = max(1, BLOCK_ENTRIES // logs.shape[1])

    def expected(start: int) -> Float64s:
        block = logs[start : start + size]
        powers = np.exp(sharpness * block)
        return np.asarray(np.vecdot(powers, block) / powers.sum(axis=1))

    blocks = on_threads(expected, range(0, len(logs), size), thread_limit())
    return float((np.concatenate(blocks) - truth).mean())
