"""Two plans compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unlabel.labels import SHORT, label_key, listing
from unlabel._plans.parts import Parts
from unlabel._plans.text import aligned, in_words
from unlabel._typing import Label

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan


@dataclass(frozen=True)
class Difference:
    """A label whose destination differs between two plans.

    A destination is a tuple of labels and weights, empty if the label is retired, and None if
    the plan does not list the label.
    """

    label: Label
    first: Parts | None
    second: Parts | None


@dataclass(frozen=True)
class PlanDiff:
    """The differences between two plans; ``str(diff)`` is a table for people.

    Attributes
    ----------
    destinations : tuple of Difference
        The labels whose destinations differ, those of the first plan first.
    retirement : pair of tuples of labels, or None
        The labels that both plans retire, in the order of each, where the orders differ.
    unlisted : pair of str, or None
        What becomes of labels that are not listed, where that differs.
    """

    destinations: tuple[Difference, ...]
    retirement: tuple[tuple[Label, ...], tuple[Label, ...]] | None
    unlisted: tuple[str, str] | None

    def __bool__(self) -> bool:
        return bool(self.destinations or self.retirement or self.unlisted)

    def as_dict(self) -> dict[str, Any]:
        """Give the content as plain data, which JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        if not self:
            return "The plans make the same changes."
        rows = [("label", "first plan", "second plan")]
        rows += [
            (SHORT.repr(each.label), _in_words(each.first), _in_words(each.second))
            for each in self.destinations
        ]
        if self.retirement:
            first, second = map(listing, self.retirement)
            rows.append(("retired in the order", first, second))
        if self.unlisted:
            rows.append(("labels not listed", *self.unlisted))
        return "\n".join(aligned(rows))


def diff(a: LabelPlan, b: LabelPlan) -> PlanDiff:
    """Compare two plans: destinations, the order of retirement, and the rule for unlisted labels.

    Examples
    --------
    >>> from unlabel import LabelPlan
    >>> print(diff(LabelPlan({"cat": None, "lynx": "other"}), LabelPlan({"cat": "other"})))
    label   first plan  second plan
    'cat'   retired     'other'
    'lynx'  'other'     not listed
    """
    first, second = ({label_key(label): parts for label, parts in p.parts} for p in (a, b))
    labels = {label_key(label): label for label in (*b, *a)}
    ordered = dict.fromkeys([*first, *second])
    retired = [
        tuple(labels[key] for key, parts in one.items() if not parts and other.get(key) == ())
        for one, other in ((first, second), (second, first))
    ]
    return PlanDiff(
        destinations=tuple(
            Difference(labels[key], first.get(key), second.get(key))
            for key in ordered
            if not _same(first.get(key), second.get(key))
        ),
        retirement=(retired[0], retired[1]) if retired[0] != retired[1] else None,
        unlisted=(a.unlisted, b.unlisted) if a.unlisted != b.unlisted else None,
    )


def _same(one: Parts | None, other: Parts | None) -> bool:
    if one is None or other is None:
        return one is other
    return [(label_key(to), w) for to, w in one] == [(label_key(to), w) for to, w in other]


def _in_words(parts: Parts | None) -> str:
    return "not listed" if parts is None else in_words(parts)
