"""Make text safe to print on a terminal."""

from __future__ import annotations

import json
from typing import Any


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


def as_json(value: Any) -> str:
    """Write a value as JSON in ASCII, so that a label cannot hold what a terminal obeys."""
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")
