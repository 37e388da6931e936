"""The outcome of a plan for a model's labels, and the reasons why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unlabel.labels import columns_of, known_columns, label_key, listing, no_such_label
from unlabel._method.merge import Merge
from unlabel._plans.parts import Parts
from unlabel._typing import Columns, Label
from unlabel.errors import UnlabelError

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

RETIRED, SPLIT = -1, -2


@dataclass(frozen=True, eq=False)
class Outcome:
    """What becomes of a model's labels by a plan."""

    removed: Columns  # (k,): the columns of the retired labels, in the order of retirement
    retained: Columns  # (n - k,): the other columns, in ascending order
    classes: tuple[Label, ...]  # the result's labels
    merge: Merge | None  # None if the retained labels are the result's, perhaps renamed
    # (n,): the result's column of each label of the model, RETIRED or SPLIT if there is not one
    columns: Columns


def outcome(plan: LabelPlan, classes: tuple[Label, ...]) -> Outcome:
    """Work out what becomes of a model's labels, or say why the plan does not fit them."""
    changes = changes_by_column(plan, classes)
    for problem in problems(plan, classes, changes):
        raise UnlabelError(problem)
    removed = np.array([column for column, parts in changes.items() if not parts], dtype=np.intp)
    retained = np.delete(np.arange(len(classes)), removed)
    columns = np.full(len(classes), RETIRED)
    if len(removed) == len(changes):  # nothing is renamed, merged or split
        columns[retained] = np.arange(len(retained))
        return Outcome(removed, retained, tuple(classes[c] for c in retained), None, columns)
    numbers: dict[str, int] = {}
    names: list[Label] = []
    entries: list[tuple[int, int, float]] = []
    known = columns_of(classes)
    for source, column in enumerate(retained.tolist()):
        shares = shares_of(changes.get(column, ((classes[column], 1.0),)))
        for label, share in shares:
            key = label_key(label)
            if key not in numbers:
                numbers[key] = len(names)
                names.append(classes[known[key]] if key in known else label)
            entries.append((source, numbers[key], share))
        columns[column] = numbers[label_key(shares[0][0])] if len(shares) == 1 else SPLIT
    sources, targets, weights = zip(*entries, strict=True)
    merge = Merge.of_entries(np.array(sources), np.array(targets), np.array(weights))
    return Outcome(removed, retained, tuple(names), merge, columns)


def changes_by_column(plan: LabelPlan, classes: Sequence[Label]) -> dict[int, Parts]:
    """Give the parts of each column that is changed, in the plan's order.

    Columns that the plan retires because it does not list them come last. Labels that the
    model does not have are left out.
    """
    columns = known_columns(plan, classes).tolist()
    changes = {
        column: parts for column, (_, parts) in zip(columns, plan.parts, strict=True) if column >= 0
    }
    if plan.unlisted == "retire":
        changes |= {column: () for column in range(len(classes)) if column not in changes}
    return changes


def shares_of(parts: Parts) -> list[tuple[Label, float]]:
    """Make the weights that people wrote sum to 1; they must be given."""
    weights = [weight for _, weight in parts if weight is not None]
    total = math.fsum(weights)
    return [(label, weight / total) for (label, _), weight in zip(parts, weights, strict=True)]


def problems(
    plan: LabelPlan, classes: tuple[Label, ...], changes: dict[int, Parts]
) -> Iterator[str]:
    """Say why a plan cannot be fitted to a model, in one sentence per reason."""
    if plan._header is not None:
        first, sentence = plan._header
        if first in map(str, classes):
            yield sentence
    if plan.unlisted == "retire" or len(changes) < len(plan):  # otherwise all are known
        columns = known_columns(plan, classes)
        if (columns < 0).any():
            yield str(no_such_label([*plan][int(np.argmin(columns))], classes))
    unlisted = [label for column, label in enumerate(classes) if column not in changes]
    if unlisted and plan.unlisted == "error":
        yield f"The plan does not list {listing(unlisted)}: list every label of the model."
    retired = {label_key(classes[column]) for column, parts in changes.items() if not parts}
    yield from sent_to_retired(plan.parts, retired)
    if len(retired) == len(classes):
        yield f"All {len(classes)} labels would be retired: at least one must remain."
    if not any(isinstance(label, bool) for label in classes):
        for label, parts in plan.parts:
            for to in (to for to, _ in parts if isinstance(to, bool)):
                yield f"The plan sends {label!r} to {to!r}: to retire it, give None."
    for column, parts in changes.items():
        if any(weight is None for _, weight in parts):
            yield (
                f"The plan splits {classes[column]!r} among {listing([to for to, _ in parts])} "
                "without weights: give each of them a weight."
            )


def sent_to_retired(changes: Iterable[tuple[Label, Parts]], retired: Set[str]) -> Iterator[str]:
    """Say which labels are sent to labels that are retired, which are given by their keys."""
    for label, parts in changes:
        for to, _ in parts:
            if label_key(to) in retired:
                yield (
                    f"The plan sends {label!r} to {to!r}, which it retires: send it elsewhere, "
                    f"or do not retire {to!r}."
                )
