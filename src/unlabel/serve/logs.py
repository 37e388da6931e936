"""The log: one line of JSON per event, without confidences."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any, BinaryIO

import msgspec

LONGEST = 300  # characters of a text


class Log:
    """A log, by default on standard error."""

    def __init__(self, to: BinaryIO | None = None) -> None:
        self._to = sys.stderr.buffer if to is None else to

    def write(self, event: str, **facts: Any) -> None:
        """Write a line; facts that are None are left out."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        for name, fact in facts.items():
            if fact is not None:
                line[name] = fact[:LONGEST] if isinstance(fact, str) else fact
        self._to.write(msgspec.json.encode(line) + b"\n")
        self._to.flush()
