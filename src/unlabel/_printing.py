"""Make text safe to print on a terminal."""

from __future__ import annotations


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
