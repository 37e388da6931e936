"""The changes of labels, in groups as the page and the terminal show them."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from unlabel._typing import Label
from unlabel.evaluation.summary import Summary
from unlabel.report.formatting import count, name

MOST_DRAWN, MOST_LISTED = 10, 1000
# A row of the table shows this many labels, fewer if they are long.
MOST_SHOWN, MOST_LETTERS = 6, 120
# A headline names its labels if they are few and short.
MOST_NAMED, LONGEST_TITLE, MOST_CLAUSES = 8, 90, 3


class Part(NamedTuple):
    """A label that confidence goes to, and the share of it that goes there."""

    label: Label
    weight: float


class ChangedLabels(NamedTuple):
    """Labels that change in the same way: those removed, merged into one, renamed or split."""

    kind: str
    labels: list[Label]
    to: list[Part]


class Row(NamedTuple):
    """A row of the table of changes: the labels that are shown, and those that are folded away."""

    kind: str
    first: list[Label]
    rest: list[Label]
    to: list[Part]
    more_parts: int


def group(summary: Summary) -> list[ChangedLabels]:
    """Group the changes: removed labels first, then by destination, the largest group first."""
    leaving = {change["from"] for change in summary["labels"]["changes"]}
    sources = Counter({*summary["labels"]["model"]} - leaving)
    for change in summary["labels"]["changes"]:
        sources.update(part["label"] for part in change["to"])
    removed = ChangedLabels("removed", summary["labels"]["removed"], [])
    groups: dict[tuple[str, Label], ChangedLabels] = {}
    for change in summary["labels"]["changes"]:
        label, to = change["from"], [Part(**part) for part in change["to"]]
        if len(to) > 1:
            groups["split", label] = ChangedLabels("split", [label], to)
        elif to:
            kind = "merged" if sources[to[0].label] > 1 else "renamed"
            into = groups.setdefault(("into", to[0].label), ChangedLabels(kind, [], to))
            into.labels.append(label)
    others = sorted(groups.values(), key=lambda group: -len(group.labels))
    return [removed, *others] if removed.labels else others


def describe(summary: Summary) -> dict[str, Any]:
    """Gather what the page says of the changes."""
    groups = group(summary)
    labels = [label for each in groups for label in (*each.labels, *(to for to, _ in each.to))]
    letters = sum(len(name(label)) for label in labels[: MOST_NAMED + 1])
    by_size = sorted(groups, key=lambda each: -len(each.labels))
    return {
        "only_removed": all(each.kind == "removed" for each in groups),
        "named": len(labels) <= MOST_NAMED
        and letters <= LONGEST_TITLE
        and len(groups) <= MOST_CLAUSES,
        "groups": groups,
        "counts": _counts(groups),
        "drawn": [*map(_row, by_size[:MOST_DRAWN])],
        "more": [*map(_row, by_size[MOST_DRAWN : MOST_DRAWN + MOST_LISTED])],
        "left_out": len(by_size[MOST_DRAWN + MOST_LISTED :]),
    }


def _row(changed: ChangedLabels) -> Row:
    first = _fitting(changed.labels)
    parts = _fitting([to for to, _ in changed.to])
    labels, to = changed.labels, changed.to
    return Row(changed.kind, labels[:first], labels[first:], to[:parts], len(to[parts:]))


def _fitting(labels: list[Label]) -> int:
    """Count the first labels that fit into a row, at least one."""
    letters = 0
    for number, label in enumerate(labels[:MOST_SHOWN]):
        letters += len(name(label))
        if letters > MOST_LETTERS:
            return max(number, 1)
    return min(len(labels), MOST_SHOWN)


def _counts(groups: list[ChangedLabels]) -> list[str]:
    """Count the labels that change, one clause for each kind.

    Examples
    --------
    >>> pet = ChangedLabels("merged", ["cat", "dog"], [Part("pet", 1.0)])
    >>> _counts([pet, ChangedLabels("renamed", ["ship"], [Part("boat", 1.0)])])
    ['2 labels merged into 1', '1 renamed']
    """
    clauses: list[str] = []
    for kind in ("removed", "merged", "renamed", "split"):
        of_kind = [each for each in groups if each.kind == kind]
        if n_labels := sum(len(each.labels) for each in of_kind):
            noun = "" if clauses else " label" if n_labels == 1 else " labels"
            into = ""
            if kind == "merged":
                into = " into another" if n_labels == 1 else f" into {count(len(of_kind))}"
            clauses.append(f"{count(n_labels)}{noun} {kind}{into}")
    return clauses
