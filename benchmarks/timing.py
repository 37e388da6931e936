"""Time contenders in turns, with or without the compiled loops; filters without remarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from unlabel import OutputFilter
from unlabel._method import compiled
from unlabel.fitting import fit_filter

Times = dict[str, list[float]]

LONG_ENOUGH = 3.0  # seconds that one comparison takes at least, if 20 times the repeats do not


def timed(contenders: dict[str, Callable[[], object]], repeats: int) -> Times:
    """Time every repeat, the contenders taking turns; more of them where they are short."""
    times: Times = {name: [] for name in contenders}
    begun = time.perf_counter()
    for turn in range(20 * repeats):
        if turn >= repeats and time.perf_counter() - begun > LONG_ENOUGH:
            break
        for name, work in contenders.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return times


def ratio(ours: Callable[[], object], line: Callable[[], object], repeats: int) -> float:
    """Divide our best time by that of a plain line."""
    times = timed({"ours": ours, "line": line}, repeats)
    return min(times["ours"]) / min(times["line"])


def fitted(rows: Any, labels: Any, **settings: Any) -> OutputFilter:
    """Fit a filter, whose few reference rows are no matter here."""
    return OutputFilter(**fit_filter(rows, labels, **settings).state)


@contextmanager
def numpy_alone() -> Iterator[None]:
    """Do without the compiled loops, as where there was no compiler."""
    is_available = compiled.is_available
    compiled.is_available = lambda: False
    try:
        yield
    finally:
        compiled.is_available = is_available


def in_numpy(applied: OutputFilter, rows: Any) -> None:
    """Apply a filter without the compiled loops."""
    with numpy_alone():
        applied.apply(rows)
