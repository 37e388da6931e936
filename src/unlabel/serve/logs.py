"""The log: one line of JSON per event, without confidences."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec

LONGEST = 300  # characters of a text


class Log:
    """A log, by default on standard error."""

    def __init__(self, to: BinaryIO | None = None) -> None:
        if to is None and sys.stderr is not None:  # which may have been closed
            to = sys.stderr.buffer
        self._to = to

    def write(self, event: str, **facts: Any) -> None:
        """Write a line; facts that are None are left out."""
        if self._to is None:
            return
        second, fraction = divmod(time.time(), 1)
        line = {"time": f"{_second(int(second))}.{int(fraction * 1000):03}Z", "event": event}
        for name, fact in facts.items():
            if fact is not None:
                line[name] = fact[:LONGEST] if isinstance(fact, str) else fact
        with suppress(OSError):  # requests are answered even if nobody reads the log any longer
            self._to.write(msgspec.json.encode(line) + b"\n")
            self._to.flush()


@lru_cache(maxsize=1)
def _second(number: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(number))
