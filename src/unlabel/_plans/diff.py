"""Two plans compared."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unlabel._plans.outcome import matched
from unlabel._plans.parts import Parts, in_words, parts_of
from unlabel._printing import aligned
from unlabel._typing import Label
from unlabel.labels import SHORT

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

Labels = tuple[Label, ...]


@dataclass(frozen=True)
class PlanDiff:
    """The differences between two plans; ``str(diff)`` is a table for people.

    A destination is a tuple of labels and weights, empty if the label is removed.

    Attributes
    ----------
    dropped : tuple of (label, destination)
        Labels that the first plan changes and the second keeps.
    changed : tuple of (label, first destination, second destination)
    added : tuple of (label, destination)
        Labels that the second plan changes and the first keeps.
    order : pair of tuples of labels, or None
        The labels that both plans remove, in the order of each, where the orders differ.
    unlisted : pair of str, or None
        What becomes of labels that are not listed, where that differs.
    """

    dropped: tuple[tuple[Label, Parts], ...]
    changed: tuple[tuple[Label, Parts, Parts], ...]
    added: tuple[tuple[Label, Parts], ...]
    order: tuple[Labels, Labels] | None
    unlisted: tuple[str, str] | None

    def __bool__(self) -> bool:
        return any(asdict(self).values())

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain data that JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        if not self:
            return "The plans make the same changes."
        rows = [(f"- {SHORT.repr(label)}", in_words(parts)) for label, parts in self.dropped]
        rows += [
            (f"~ {SHORT.repr(label)}", f"{in_words(first)} -> {in_words(second)}")
            for label, first, second in self.changed
        ]
        rows += [(f"+ {SHORT.repr(label)}", in_words(parts)) for label, parts in self.added]
        if self.order:
            rows.append(("~ order of removal", " -> ".join(map(str, self.order))))
        if self.unlisted:
            rows.append(("~ labels not listed", " -> ".join(self.unlisted)))
        counts = map(len, (self.dropped, self.changed, self.added))
        total = "{:,} dropped, {:,} changed, {:,} added.".format(*counts)
        return "\n".join([*aligned(rows), total])


def diff_of(a: LabelPlan, b: LabelPlan) -> PlanDiff:
    """Compare two plans: destinations, the order of removal, and the rule for unlisted labels."""
    labels = [label for listed, parts in parts_of(a) for label in (listed, *dict(parts))]
    first, second = (dict(parts_of(matched(plan, labels))) for plan in (a, b))
    dropped, changed, added = [], [], []
    for label in dict.fromkeys([*first, *second]):
        stays: Parts = ((label, 1.0),)
        before, after = (
            parts.get(label, () if plan.unlisted == "remove" else stays)
            for parts, plan in ((first, a), (second, b))
        )
        if before == after:
            continue
        if after == stays:
            dropped.append((label, before))
        elif before == stays:
            added.append((label, after))
        else:
            changed.append((label, before, after))
    removed = [
        tuple(label for label, parts in one.items() if not parts and other.get(label) == ())
        for one, other in ((first, second), (second, first))
    ]
    return PlanDiff(
        dropped=tuple(dropped),
        changed=tuple(changed),
        added=tuple(added),
        order=(removed[0], removed[1]) if removed[0] != removed[1] else None,
        unlisted=(a.unlisted, b.unlisted) if a.unlisted != b.unlisted else None,
    )
