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


def tiny(value: float | None) -> str:
    """Write four decimals, or one digit of what is smaller, down to a millionth.

    Examples
    --------
    >>> tiny(0.0123), tiny(0.0000072), tiny(3e-11)
    ('.0123', '7e-06', '<1e-06')
    """
    if value is None or value == 0 or value >= 0.0001:
        return score(value)
    return f"{value:.0e}" if value >= 1e-6 else "<1e-06"


def signed(value: float | None) -> str:
    """Write four decimals with a sign.

    Examples
    --------
    >>> signed(0.0123), signed(-0.004), signed(0.00001)
    ('+.0123', '\N{MINUS SIGN}.0040', '0')
    """
    if value is None or abs(value) < 0.00005:
        return NOTHING if value is None else "0"
    return ("+" if value > 0 else "\N{MINUS SIGN}") + score(abs(value))


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


def written(ours: str, spread: str = "", paper: str = "", best: bool = False) -> str:
    """Write a cell of a Markdown table: our value, its spread and the paper's value.

    Examples
    --------
    >>> written(".9367", "±.0012", ".9352", best=True)
    '**.9367** ±.0012 (.9352)'
    """
    parts = (f"**{ours}**" if best else ours, spread, f"({paper})" if paper else "")
    return " ".join(filter(None, parts))
