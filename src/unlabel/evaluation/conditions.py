"""Conditions over the values of a summary, under which an evaluation fails.

A condition is ``[OUTPUT.]NAME SIGN NUMBER[%]``, such as ``regressed > 1%`` or
``mask.log_loss > .3``. It is taken apart by a regular expression and never run as code.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from unlabel.errors import UnlabelError
from unlabel.evaluation.impact import COUNTS_OF_TRUTH
from unlabel.evaluation.summary_layout import COUNTS, FIGURES, OUTPUTS, SHARE, Maybe
from unlabel.labels import COMPARED_LETTERS, SHORT

MOST_LETTERS = 200
CONDITION = re.compile(
    r"(?P<value>[^<>=!]+)(?P<sign><=|>=|==|!=|<|>)\s*"
    r"(?P<number>[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,2})?)\s*(?P<percent>%?)\s*",
    re.ASCII,
)
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _values(layout: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name of every value of an output, with its layout."""
    for key, part in layout.items():
        inner = part.layout if isinstance(part, Maybe) else part
        if isinstance(inner, dict):
            yield from _values(inner, f"{prefix}{key}.")
        else:
            yield prefix + key, inner


# The counts are named without the section that they are in.
NAMES = {
    name.removeprefix("impact."): layout
    for name, layout in _values(FIGURES)
    if name not in ("output", "temperature")
}
OF_ALL_ROWS = ("changed", "unknown")
OF_RETAINED_ROWS = COUNTS_OF_TRUTH[1:]


@dataclass(frozen=True)
class Condition:
    """A value of an output, and the number that it is compared with."""

    text: str
    output: str | None  # by default the one that is shown
    name: str
    sign: str
    number: Fraction
    is_percent: bool

    def failure(self, summary: dict[str, Any]) -> str | None:
        """Describe in a sentence how a summary meets the condition, None if it does not."""
        output = summary["shown"] if self.output is None else self.output
        entries = {entry["output"]: entry for entry in summary["figures"]}
        if output not in entries:
            known = ", ".join(map(repr, entries))
            raise self._mistake(f"there is no output {output!r} here, but {known}")
        value = _value_at(entries[output], self.name)
        if value is None:
            raise self._mistake(
                f"{output} has no {self.name!r} here, for which true labels, rows of removed "
                "labels, a rule for answers or retrained models may be missing"
            )
        rows, of = self._rows(summary)
        # Counts are compared exactly, and other values as the numbers that people read.
        found: Any = value
        wanted: Any = float(self.number)
        if self.name in COUNTS:
            found = Fraction(value, rows if self.is_percent else 1)
            wanted = self.number
        if not SIGNS[self.sign](found, wanted):
            return None
        unit = "%" if self.is_percent else ""
        apart = f"{abs(float(found - wanted)) * (100 if unit else 1):.4g}{unit}"
        if self.name in (*OF_ALL_ROWS, *OF_RETAINED_ROWS):
            said = f"{value:,} of {rows:,} {of} ({100 * value / rows:.4g}%)"
        elif self.name in COUNTS:
            said = f"{rows:,} {of}"
        else:
            said = f"{value * 100:.6g}%" if unit else f"{value:.6g}"
            said += f" on {rows:,} {of}"
        return f"{self.text!r} holds: {output} has {said}, a difference of {apart}."

    def _rows(self, summary: dict[str, Any]) -> tuple[int, str]:
        """Count the rows that the value is over, and name them."""
        rows = summary["rows"]
        if self.name in ("rows", *OF_ALL_ROWS):
            return rows["judged"], "rows"
        if self.name.endswith(".removed"):
            return rows["of_removed_labels"], "rows of removed labels"
        return rows["of_retained_labels"], "rows of retained labels"

    def _mistake(self, reason: str) -> UnlabelError:
        return UnlabelError(f"The condition {self.text!r} cannot be judged: {reason}.")


def parse_condition(text: str) -> Condition:
    """Take a condition apart, or raise an error that says what is wrong with it.

    Examples
    --------
    >>> parse_condition("mask.regressed > 1%").number
    Fraction(1, 100)
    >>> parse_condition("regresed > 1%")
    Traceback (most recent call last):
    unlabel.errors.UnlabelError: The condition 'regresed > 1%' does not name a known value: the \
nearest is 'regressed'.
    """
    shown = SHORT.repr(text)
    found = CONDITION.fullmatch(text) if len(text) <= MOST_LETTERS else None
    if found is None:
        raise UnlabelError(
            f"The condition {shown} cannot be read: write a name, one of < <= > >= == != and a "
            "number, such as 'regressed > 1%' or 'mask.log_loss > .3'."
        )
    output, name = _split(found["value"].strip(), shown)
    number, is_percent = Fraction(Decimal(found["number"])), bool(found["percent"])
    has_share = NAMES[name] is SHARE or name in (*OF_ALL_ROWS, *OF_RETAINED_ROWS)
    if is_percent and not has_share:
        raise UnlabelError(f"The condition {shown} is of a value without percent: leave out the %.")
    if is_percent:
        number /= 100
    elif name in COUNTS and number.denominator != 1:
        raise UnlabelError(
            f"The condition {shown} compares a count of rows with a fraction: give a whole number"
            f"{', or a share in %' * has_share}."
        )
    if (is_percent or NAMES[name] is SHARE) and not 0 <= number <= 1:
        raise UnlabelError(
            f"The condition {shown} compares a share with a number outside 0 to 1: give 0 to 1, "
            "or 0% to 100%."
        )
    return Condition(text, output, name, found["sign"], number, is_percent)


def _split(value: str, shown: str) -> tuple[str | None, str]:
    """Split the output from the name of its value."""
    if value in NAMES:
        return None, value
    known = {f"{output}.{name}": (output, name) for output in sorted(OUTPUTS) for name in NAMES}
    if value in known:
        return known[value]
    by_lower = {each.lower(): each for each in (*NAMES, *known)}
    start = value[: 2 * COMPARED_LETTERS].lower()
    longer = [each for each in by_lower if each.startswith(f"{start}.")]
    near = by_lower[(longer or difflib.get_close_matches(start, by_lower, n=1, cutoff=0.0))[0]]
    raise UnlabelError(
        f"The condition {shown} does not name a known value: the nearest is {near!r}."
    )


def _value_at(entry: dict[str, Any], name: str) -> Any:
    """Look up a value of an output, None if it has none."""
    value: Any = entry.get("impact", {}) if name in COUNTS else entry
    for key in name.split("."):
        value = (value or {}).get(key)
    return value
