"""Two plans, one after the other, as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.labels import as_classes, known_columns, label_key, nearest
from unlabel._plans.outcome import changes_by_column, outcome, shares_of
from unlabel._typing import Label
from unlabel.errors import UnlabelError

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

Shares = list[tuple[Label, float]]


def composed(
    first: LabelPlan, second: LabelPlan, labels: Iterable[Any] | None, *, by_text: bool
) -> list[tuple[Label, Any]]:
    """Give the changes that two plans make together: retired labels first, in their order."""
    classes = as_classes([*first] if labels is None else labels)
    with _in_plan("first"):
        first = first.matched(classes, by_text=by_text)
        between = outcome(first, classes).classes
    second = second.matched(between, by_text=by_text)
    hint = "; or give all labels of the model (labels=[...], --classes)" if labels is None else ""
    _refuse_other_labels(second, between, hint)
    with _in_plan("second"):
        outcome(second, between)
    earlier, later = changes_by_column(first, classes), changes_by_column(second, between)
    later_by_key = {label_key(between[column]): parts for column, parts in later.items()}
    retired = [classes[column] for column, parts in earlier.items() if not parts]
    retired_later: dict[str, list[Label]] = {
        key: [] for key, parts in later_by_key.items() if not parts
    }
    moved: list[tuple[Label, Any]] = []
    for column, label in enumerate(classes):
        parts = earlier.get(column, ((label, 1.0),))
        if not parts:
            continue
        gone = [to for to, _ in parts if label_key(to) in retired_later]
        if gone and len(parts) > 1:
            raise UnlabelError(
                f"The first plan sends a part of {label!r} to {gone[0]!r}, which the second "
                f"retires: one plan cannot retire a part, so do not split {label!r}, or do not "
                f"retire {gone[0]!r}."
            )
        if gone:
            retired_later[label_key(gone[0])].append(label)
            continue
        keys = [label_key(to) for to, _ in parts]
        if column in earlier or any(key in later_by_key for key in keys):
            moved.append((label, _destination(shares_of(parts), later_by_key)))
    retired += [label for labels in retired_later.values() for label in labels]
    return [(label, None) for label in retired] + moved


def _destination(shares: Shares, later: dict[str, Any]) -> Label | Shares:
    """Send the parts of a label on, and add up those that meet again."""
    names: dict[str, Label] = {}
    weights: dict[str, list[float]] = {}
    for label, share in shares:
        parts = later.get(label_key(label), ((label, 1.0),))
        for to, part in shares_of(parts):
            names.setdefault(label_key(to), to)
            weights.setdefault(label_key(to), []).append(share * part)
    if len(names) == 1:
        return next(iter(names.values()))
    return [(to, math.fsum(weights[key])) for key, to in names.items()]


def _refuse_other_labels(second: LabelPlan, between: Sequence[Label], hint: str) -> None:
    columns = known_columns(second, between)
    if (columns < 0).any():
        label = [*second][int(np.argmin(columns))]
        raise UnlabelError(
            f"The second plan changes {label!r}, which the first plan does not leave: the nearest "
            f"is {nearest(label, between)!r}{hint}."
        )


@contextmanager
def _in_plan(which: str) -> Iterator[None]:
    try:
        yield
    except UnlabelError as error:
        raise UnlabelError(f"In the {which} plan: {error}") from error
