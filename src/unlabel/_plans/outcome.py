"""The outcome of a plan for a model's labels, and the reasons why there is none."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from unlabel._method.merge import Merge
from unlabel._plans.parts import Destination, Parts, parts_of, shares_of
from unlabel._typing import Booleans, Columns, Label
from unlabel.errors import UnlabelError
from unlabel.labels import INT64, known_columns, listing, no_such_label

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

REMOVED, SPLIT = -1, -2
INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)  # "0123" stays text


@dataclass(frozen=True, eq=False)
class Outcome:
    """What becomes of a model's labels by a plan."""

    removed: Columns  # (k,): the columns of the removed labels, in the order of removal
    retained: Columns  # (n - k,): the other columns, in ascending order
    classes: tuple[Label, ...]  # the result's labels
    merge: Merge | None  # None if the retained labels are the result's, perhaps renamed
    # (n,): the result's column of each label of the model, REMOVED or SPLIT if there is not one
    columns: Columns

    def has_changed(self, before: Columns, after: Columns) -> Booleans:
        """Whether answers changed, given columns of the model's labels and of the result's.

        An answer has changed if the new one is not the destination of the old one.
        """
        to = self.columns[before]
        changed = to != after
        if self.merge is not None and (to == SPLIT).any():
            width = len(self.classes)
            parts = self.retained[self.merge.sources] * width + self.merge.targets
            at = np.flatnonzero(to == SPLIT)
            changed[at] = ~np.isin(before[at] * width + after[at], parts)
        return np.asarray(changed)


def digest_of(plan: LabelPlan) -> str:
    """Return the SHA-256 of the changes as texts, the same in every file that holds them."""
    changes = [[str(label), [[str(to), w] for to, w in parts]] for label, parts in parts_of(plan)]
    content = json.dumps([plan.unlisted, changes], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def matched(plan: LabelPlan, classes: Sequence[Label]) -> LabelPlan:
    """Return the plan with the model's own labels in the place of labels of the same text.

    Where all labels of the model are whole numbers, new labels that are written as one become
    whole numbers too.
    """
    by_text = {str(label): label for label in classes}
    are_integers = all(type(label) is int for label in classes)

    def match(label: Label) -> Label:
        text = str(label)
        is_integer = are_integers and INTEGER.fullmatch(text) and -INT64 <= int(text) < INT64
        return by_text.setdefault(text, int(text) if is_integer else label)

    def sent(to: Destination) -> Destination:
        if isinstance(to, str | int):
            return match(to)
        if to is None or isinstance(to, tuple):
            return to and tuple(map(match, to))
        return {match(each): weight for each, weight in to.items()}  # type: ignore[union-attr]

    return replace(plan, changes={match(label): sent(to) for label, to in plan.changes.items()})


def outcome_of(plan: LabelPlan, classes: Sequence[Label]) -> Outcome:
    """Work out what becomes of a model's labels, or raise why the plan does not fit them."""
    plan, classes = matched(plan, classes), tuple(classes)
    changes = changes_by_column(plan, classes)
    for error in problems(plan, classes, changes):
        raise error
    removed = np.array([column for column, parts in changes.items() if not parts], dtype=np.intp)
    retained = np.delete(np.arange(len(classes)), removed)
    columns = np.full(len(classes), REMOVED)
    if len(removed) == len(changes):  # nothing is renamed, merged or split
        columns[retained] = np.arange(len(retained))
        return Outcome(removed, retained, tuple(classes[c] for c in retained), None, columns)
    results: dict[Label, int] = {}
    entries: list[tuple[int, int, float]] = []
    for source, column in enumerate(retained.tolist()):
        shares = shares_of(changes.get(column, ((classes[column], 1.0),)))
        for label, share in shares:
            entries.append((source, results.setdefault(label, len(results)), share))
        columns[column] = results[shares[0][0]] if len(shares) == 1 else SPLIT
    sources, targets, weights = zip(*entries, strict=True)
    merge = Merge.of_entries(np.array(sources), np.array(targets), np.array(weights))
    return Outcome(removed, retained, tuple(results), merge, columns)


def changes_by_column(plan: LabelPlan, classes: Sequence[Label]) -> dict[int, Parts]:
    """Return the parts of each column that is changed, in the order of the matched plan.

    Columns that the plan removes because it does not list them come last. Labels that the
    model does not have are left out.
    """
    columns = known_columns(plan.changes, classes).tolist()
    listed = zip(columns, parts_of(plan), strict=True)
    changes = {column: parts for column, (_, parts) in listed if column >= 0}
    if plan.unlisted == "remove":
        changes |= {column: () for column in range(len(classes)) if column not in changes}
    return changes


def problems(
    plan: LabelPlan, classes: tuple[Label, ...], changes: dict[int, Parts]
) -> Iterator[UnlabelError]:
    """Yield the reasons why a plan cannot be fitted to a model, as errors to raise."""
    columns = known_columns(plan.changes, classes)
    if (columns < 0).any():
        yield no_such_label([*plan.changes][int(np.argmin(columns))], classes)
    unlisted = [label for column, label in enumerate(classes) if column not in changes]
    if unlisted and plan.unlisted == "error":
        yield UnlabelError(f"The plan does not list {listing(unlisted)}: list all labels.")
    removed = {str(classes[column]) for column, parts in changes.items() if not parts}
    yield from map(UnlabelError, sent_to_removed(parts_of(plan), removed))
    if len(removed) == len(classes):
        yield UnlabelError(f"All {len(classes)} labels would be removed: keep at least one.")
    undecided = [
        classes[column]
        for column, parts in changes.items()
        if any(weight is None for _, weight in parts)
    ]
    if undecided:
        problem = f"The plan splits {listing(undecided)} without weights: give each part a weight."
        yield UnlabelError(problem)


def sent_to_removed(changes: Iterable[tuple[Label, Parts]], removed: Set[str]) -> Iterator[str]:
    """Yield a sentence for each label that is sent to one of the removed labels."""
    for label, parts in changes:
        for to, _ in parts:
            if str(to) in removed:
                yield (
                    f"The plan sends {label!r} to {to!r} and removes {to!r}: send {label!r} "
                    f"elsewhere, or keep {to!r}."
                )
