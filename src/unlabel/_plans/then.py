"""Two plans, one after the other, as one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel._plans.outcome import changes_by_column, matched, outcome_of
from unlabel._plans.parts import Parts, shares_of
from unlabel._typing import Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import known_columns, no_such_label

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan


def composed(
    first: LabelPlan, second: LabelPlan, classes: Sequence[Label] | None
) -> dict[Label, Any]:
    """Return the changes that two plans make together: removed labels first, in their order."""
    names = tuple(first.changes if classes is None else classes)
    first = matched(first, names)
    with located(row="the first plan"):
        between = outcome_of(first, names).classes
    second = matched(second, between)
    with located(row="the second plan"):
        columns = known_columns(second.changes, between)
        if (columns < 0).any():
            label = [*second.changes][int(np.argmin(columns))]
            argument = "classes" if classes is None else None  # it may stay what it is
            raise no_such_label(label, between, owner="first plan's result", argument=argument)
        outcome_of(second, between)
    earlier = changes_by_column(first, names)
    later = {between[at]: parts for at, parts in changes_by_column(second, between).items()}
    removed_later: dict[Label, list[Label]] = {to: [] for to, parts in later.items() if not parts}
    moved: dict[Label, Any] = {}
    for column, label in enumerate(names):
        parts = earlier.get(column, ((label, 1.0),))
        gone = [to for to, _ in parts if to in removed_later]
        if gone and len(parts) > 1:
            raise UnlabelError(
                f"The first plan sends a part of {label!r} to {gone[0]!r}, and the second removes "
                f"{gone[0]!r}: one plan cannot remove a part, so do not split {label!r}, or keep "
                f"{gone[0]!r}."
            )
        if gone:
            removed_later[gone[0]].append(label)
        elif parts and (column in earlier or any(to in later for to, _ in parts)):
            moved[label] = _sent_on(parts, later)
    removed = [names[column] for column, parts in earlier.items() if not parts]
    removed += [label for labels in removed_later.values() for label in labels]
    return dict.fromkeys(removed) | moved


def _sent_on(parts: Parts, later: dict[Label, Parts]) -> Label | dict[Label, float]:
    """Send the parts of a label on, and add up those that meet again."""
    weights: dict[Label, list[float]] = defaultdict(list)
    for label, share in shares_of(parts):
        for to, part in shares_of(later.get(label, ((label, 1.0),))):
            weights[to].append(share * part)
    if len(weights) == 1:
        return next(iter(weights))
    return {to: math.fsum(each) for to, each in weights.items()}
