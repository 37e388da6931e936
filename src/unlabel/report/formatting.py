"""Numbers and labels as the page writes them."""

from __future__ import annotations

import re
import unicodedata

from unlabel._typing import Label

NOTHING = "\N{EN DASH}"
MOST_CHARACTERS = 80


def score(value: float | None) -> str:
    """Write four decimals, without the zero before the point.

    Examples
    --------
    >>> score(0.93674), score(8.01394), score(0), score(2e-5)
    ('.9367', '8.0139', '0', '<.0001')
    """
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    return "<.0001" if abs(value) < 0.00005 else f"{value:.4f}".removeprefix("0")


def percent(share: float | None) -> str:
    """Write a share in percent; only 0 and 1 become 0% and 100%.

    Examples
    --------
    >>> percent(0.015), percent(0.0001), percent(0.9999), percent(1), percent(0)
    ('1.5%', '<0.1%', '>99.9%', '100%', '0%')
    """
    if share is None:
        return NOTHING
    if share in (0, 1):
        return f"{share:.0%}"
    if share < 0.0005:
        return "<0.1%"
    return ">99.9%" if share >= 0.9995 else f"{share:.1%}"


def ratio(value: float | None) -> str:
    """Write a ratio with three digits and a multiplication sign."""
    if value is None:
        return NOTHING
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}\N{MULTIPLICATION SIGN}"


def signed(value: float | None) -> str:
    """Write a change with its sign.

    Examples
    --------
    >>> signed(0.012), signed(0)
    ('+.0120', '0')
    """
    if value is None:
        return NOTHING
    if abs(value) < 0.00005:
        return "0"
    return ("+" if value > 0 else "\N{MINUS SIGN}") + score(abs(value))


def count(number: int) -> str:
    """Write a whole number with thousands separators."""
    return f"{number:,}"


def name(label: Label) -> str:
    """Write a label in at most 80 characters that a page can hold.

    Examples
    --------
    >>> name(3), name(""), len(name("x" * 1000))
    ('3', '(empty)', 80)
    >>> name("a label with a long name, of which the beginning is " + 40 * "-" + " the same 7")
    'a label with a long name, of which the b…---------------------------- the same 7'
    """
    text = shortened(clean(str(label)), MOST_CHARACTERS)
    return text if text.strip() else "(empty)"


def shortened(text: str, most: int) -> str:
    """Leave out the middle of a long text: names that begin alike differ at their ends."""
    half = most // 2
    return text if len(text) <= most else text[:half] + "\N{HORIZONTAL ELLIPSIS}" + text[1 - half :]


def clean(text: str) -> str:
    """Replace control characters and lone surrogates, which UTF-8 cannot encode."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text
    )


def pieces(label: Label) -> list[str]:
    """Divide a label's name where a line may end: after the signs that join its words.

    Examples
    --------
    >>> pieces("top_up.by-card <1>")
    ['top_', 'up.', 'by-', 'card <1>']
    """
    return re.split(r"(?<=[_.:/-])(?=[^\W_])", name(label))


def mark(output: str) -> str:
    """Choose an output's style, its colour and the shape of its points, the same everywhere."""
    known = {"base model": "base", "mask": "mask", "retrained": "goal", "retrained again": "again"}
    return known.get(output.removesuffix(", calibrated"), "osr")


FILTERS = (name, pieces, clean, score, percent, ratio, signed, count, mark)
