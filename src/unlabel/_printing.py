"""Plain text for terminals: safe characters, aligned columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH, GAP = 80, "  "


def printable(text: str) -> str:
    r"""Escape characters that a terminal would obey or hide, as `repr` does.

    Names of labels and files come from others: a control sequence in a name could rewrite the
    lines around it, and a line break or a change of direction could disguise it.

    Examples
    --------
    >>> printable("naïve \x1b[2J\n\u202e")
    'naïve \\x1b[2J\\n\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lay out rows of cells as lines, wrapping the last one."""
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for *cells, last in rows:
        start = "".join(c.ljust(w) + GAP for c, w in zip(cells, widths, strict=True))
        wrapped = textwrap.wrap(last, max(WIDTH - len(start), WIDTH // 2)) or [""]
        lines += [(start + wrapped[0]).rstrip(), *(" " * len(start) + w for w in wrapped[1:])]
    return lines
