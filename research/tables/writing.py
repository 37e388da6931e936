"""Numbers as the tables show them."""

from __future__ import annotations

NOTHING = "\N{EN DASH}"


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
