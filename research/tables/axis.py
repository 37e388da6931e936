"""Axes with round ticks, and positions on them in percent."""

from __future__ import annotations

import math
from typing import NamedTuple

MOST_STEPS = 4
SMALLEST_SPAN = 0.001


class Tick(NamedTuple):
    """A labelled value on an axis, and its position in percent."""

    value: float
    at: float
    text: str


def axis(low: float, high: float) -> list[Tick]:
    """Choose round ticks around a range, the first at 0 percent and the last at 100.

    Examples
    --------
    >>> [(tick.text, tick.at) for tick in axis(0.872, 0.976)]
    [('0.85', 0.0), ('0.90', 33.33), ('0.95', 66.67), ('1.00', 100.0)]
    """
    low = min(low, max(high - SMALLEST_SPAN, 0.0))
    high = max(high, low + SMALLEST_SPAN)
    power = 10.0 ** math.floor(math.log10((high - low) / MOST_STEPS))
    for step in (power * size for size in (1, 2, 2.5, 5, 10, 20)):
        first = math.floor(low / step + 1e-9)
        steps = max(math.ceil(high / step - 1e-9) - first, 1)
        if steps <= MOST_STEPS:
            break
    decimals = next((d for d in range(9) if math.isclose(round(step, d), step)), 9)
    values = [(first + i) * step for i in range(steps + 1)]
    return [Tick(v, percent(i / steps), f"{v:.{decimals}f}") for i, v in enumerate(values)]


def place(value: float | None, ticks: list[Tick]) -> float | None:
    """Compute the position of a value on an axis; None for None."""
    if value is None:
        return None
    low, high = ticks[0].value, ticks[-1].value
    return percent((value - low) / (high - low))


def percent(share: float) -> float:
    """Turn a share into percent, as precisely as a screen can show it."""
    return round(100 * share, 2)
