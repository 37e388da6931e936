"""Progress on the error stream: a bar on a terminal, one line per step elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[float], None]  # called with the fraction that is done

WIDTH = 30
SECONDS_BETWEEN = 0.1


def no_progress(fraction: float) -> None:
    """Ignore the progress."""


class Bar:
    """A bar over steps of different weights, with the time left."""

    def __init__(self, total: float) -> None:
        self.total = max(total, 1e-9)
        self.done = 0.0
        self.started = time.monotonic()
        self._drawn = -1.0
        self._terminal = sys.stderr.isatty()

    @contextmanager
    def step(self, text: str, weight: float) -> Iterator[Progress]:
        """Show a step, and yield a function to report its progress to."""

        def report(fraction: float) -> None:
            self._draw(text, self.done + weight * fraction)

        report(0.0)
        try:
            yield report
        finally:
            self.done += weight

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self.clear()
        print(line, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Erase the bar."""
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self._drawn = -1.0

    def _draw(self, text: str, done: float) -> None:
        spent = time.monotonic() - self.started
        if not self._terminal or 0 <= spent - self._drawn < SECONDS_BETWEEN:
            return
        self._drawn = spent
        fraction = min(1.0, done / self.total)
        left = f", {_duration(spent / fraction - spent)} left" if fraction > 0.01 else ""
        full = "█" * round(fraction * WIDTH)
        bar = f"\r\x1b[K{full:░<{WIDTH}} {fraction:4.0%}{left}  {text}"
        print(bar, end="", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
