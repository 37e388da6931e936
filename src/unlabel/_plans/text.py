"""Plain text for terminals: aligned columns, and destinations in words."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from unlabel._plans.parts import Parts
from unlabel.labels import SHORT

WIDTH, GAP = 80, "  "


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lay out rows of cells as lines, wrapping the last one."""
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for *cells, last in rows:
        start = "".join(c.ljust(w) + GAP for c, w in zip(cells, widths, strict=True))
        wrapped = textwrap.wrap(last, max(WIDTH - len(start), WIDTH // 2)) or [""]
        lines += [(start + wrapped[0]).rstrip(), *(" " * len(start) + w for w in wrapped[1:])]
    return lines


def in_words(parts: Parts) -> str:
    """Return where a label goes, in words."""
    if len(parts) < 2:
        return SHORT.repr(parts[0][0]) if parts else "removed"
    if any(weight is None for _, weight in parts):
        return ", ".join(SHORT.repr(to) for to, _ in parts) + " (without weights)"
    return ", ".join(f"{weight:.4g} {SHORT.repr(to)}" for to, weight in parts)
