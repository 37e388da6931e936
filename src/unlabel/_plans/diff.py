"""Two plans compared."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unlabel._plans.outcome import matched
from unlabel._plans.parts import Parts, parts_of
from unlabel._plans.text import aligned, in_words
from unlabel._typing import Label
from unlabel.labels import SHORT, listing

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

Labels = tuple[Label, ...]
DROPPED, CHANGED, ADDED = "-~+"


@dataclass(frozen=True)
class Difference:
    """A label whose destination differs between two plans.

    A destination is a tuple of labels and weights, empty if the label is removed. It is the label
    itself where a plan keeps it.
    """

    label: Label
    first: Parts
    second: Parts

    @property
    def sign(self) -> str:
        """Whether the second plan drops a change, makes another one or adds one."""
        stays = ((self.label, 1.0),)
        return DROPPED if self.second == stays else ADDED if self.first == stays else CHANGED


@dataclass(frozen=True)
class PlanDiff:
    """The differences between two plans; ``str(diff)`` is a table for people.

    Attributes
    ----------
    destinations : tuple of Difference
        The labels whose destinations differ, those of the first plan first.
    order : pair of tuples of labels, or None
        The labels that both plans remove, in the order of each, where the orders differ.
    unlisted : pair of str, or None
        What becomes of labels that are not listed, where that differs.
    """

    destinations: tuple[Difference, ...]
    order: tuple[Labels, Labels] | None
    unlisted: tuple[str, str] | None

    def __bool__(self) -> bool:
        return bool(self.destinations or self.order or self.unlisted)

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain data that JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        if not self:
            return "The plans make the same changes."
        rows = []
        for each in self.destinations:
            words = {DROPPED: in_words(each.first), ADDED: in_words(each.second)}
            both = f"{in_words(each.first)} -> {in_words(each.second)}"
            rows.append((f"{each.sign} {SHORT.repr(each.label)}", words.get(each.sign, both)))
        if self.order:
            rows.append((f"{CHANGED} order of removal", " -> ".join(map(listing, self.order))))
        if self.unlisted:
            rows.append((f"{CHANGED} labels not listed", " -> ".join(self.unlisted)))
        counts = Counter(each.sign for each in self.destinations)
        dropped = f"{counts[DROPPED]:,} change{'s' * (counts[DROPPED] != 1)} dropped"
        total = f"{dropped}, {counts[CHANGED]:,} changed, {counts[ADDED]:,} added."
        return "\n".join([*aligned(rows), total])


def diff_of(a: LabelPlan, b: LabelPlan) -> PlanDiff:
    """Compare two plans: destinations, the order of removal, and the rule for unlisted labels."""
    labels = [label for listed, parts in parts_of(a) for label in (listed, *dict(parts))]
    first, second = (dict(parts_of(matched(plan, labels))) for plan in (a, b))
    differences = []
    for label in dict.fromkeys([*first, *second]):
        stays: Parts = ((label, 1.0),)
        before, after = (
            parts.get(label, () if plan.unlisted == "remove" else stays)
            for parts, plan in ((first, a), (second, b))
        )
        if before != after:
            differences.append(Difference(label, before, after))
    removed = [
        tuple(label for label, parts in one.items() if not parts and other.get(label) == ())
        for one, other in ((first, second), (second, first))
    ]
    return PlanDiff(
        destinations=tuple(differences),
        order=(removed[0], removed[1]) if removed[0] != removed[1] else None,
        unlisted=(a.unlisted, b.unlisted) if a.unlisted != b.unlisted else None,
    )
