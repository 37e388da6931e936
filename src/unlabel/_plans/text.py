"""Plain text for terminals: aligned columns, and destinations in words."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from unlabel.labels import SHORT
from unlabel._plans.parts import Parts

WIDTH, WIDEST = 80, 26
GAP = "  "


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lay out rows of cells as lines, wrapping cells that are too wide."""
    columns = [*zip(*rows, strict=True)]
    widths = [min(max(map(len, column)), WIDEST) for column in columns[:-1]]
    widths.append(WIDTH - sum(widths) - len(GAP) * len(widths))
    lines = []
    for row in rows:
        cells = [textwrap.wrap(cell, w) or [""] for cell, w in zip(row, widths, strict=True)]
        for pieces in zip_longest(*cells, fillvalue=""):
            padded = (piece.ljust(w) for piece, w in zip(pieces, widths, strict=True))
            lines.append(GAP.join(padded).rstrip())
    return lines


def in_words(parts: Parts) -> str:
    """Describe where a label goes."""
    if not parts:
        return "retired"
    if len(parts) == 1:
        return SHORT.repr(parts[0][0])
    return ", ".join(
        SHORT.repr(to) if weight is None else f"{weight:.4g} {SHORT.repr(to)}"
        for to, weight in parts
    ) + (" (without weights)" if parts[0][1] is None else "")
