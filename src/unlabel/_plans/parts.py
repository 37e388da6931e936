"""The parts of a destination: the labels that a label's confidence goes to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel._typing import Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import SHORT, as_labels

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

# None if the label is removed; a label; weights of labels; or the parts of a split without weights.
Destination = Label | Mapping[Label, float] | Sequence[Label] | None
# The labels that a label's confidence goes to, with their weights: none for a removed label.
Parts = tuple[tuple[Label, float | None], ...]
# By how much weights that people rounded may miss a sum of 1.
WEIGHT_TOLERANCE = 1e-3


def parts_of(plan: LabelPlan) -> list[tuple[Label, Parts]]:
    """Return each label that a plan lists with the parts of its destination."""
    return [(label, _parts(to)) for label, to in plan.changes.items()]


def _parts(destination: Destination) -> Parts:
    if destination is None:
        return ()
    if isinstance(destination, Mapping):
        return tuple(destination.items())
    if isinstance(destination, tuple):
        return tuple((to, None) for to in destination)
    return ((destination, 1.0),)  # type: ignore[return-value]


def as_destination(label: Label, destination: Any) -> Destination:
    """Return a destination in its plain form, which cannot be changed, or raise an error."""
    if destination is None:
        return None
    with located(row=f"the destination of {label!r}"):
        if not isinstance(destination, Mapping | list | tuple):
            return as_labels([destination], "changes")[0]
        labels = as_labels([*destination], "changes")
        if not labels:
            raise UnlabelError("It is empty: to remove the label, give None.", argument="changes")
        if isinstance(destination, Mapping):
            _check_weights(labels, [*destination.values()])
        if len(labels) == 1:  # files hold such a label without its weight
            return labels[0]
        if not isinstance(destination, Mapping):
            return labels
        return MappingProxyType(dict(zip(labels, map(float, destination.values()), strict=True)))


def _check_weights(labels: Sequence[Label], weights: Sequence[Any]) -> None:
    for to, weight in zip(labels, weights, strict=True):
        is_number = isinstance(weight, int | float | np.number) and not isinstance(weight, bool)
        if not (is_number and 0 < weight < 1e4):
            problem = f"The weight of {to!r} is {SHORT.repr(weight)}: give a number above 0."
            raise UnlabelError(problem, argument="changes")
    total = math.fsum(weights)
    if abs(total - 1) > WEIGHT_TOLERANCE:
        problem = f"The weights sum to {total:.6g}: make them sum to 1."
        raise UnlabelError(problem, argument="changes")


def shares_of(parts: Parts) -> list[tuple[Label, float]]:
    """Divide the weights that people wrote by their sum; they must be given."""
    weights = [weight for _, weight in parts if weight is not None]
    total = math.fsum(weights)
    return [(label, weight / total) for (label, _), weight in zip(parts, weights, strict=True)]


def in_words(parts: Parts) -> str:
    """Return where a label goes, in words."""
    if len(parts) < 2:
        return SHORT.repr(parts[0][0]) if parts else "removed"
    if any(weight is None for _, weight in parts):
        return ", ".join(SHORT.repr(to) for to, _ in parts) + " (without weights)"
    return ", ".join(f"{weight:.4g} {SHORT.repr(to)}" for to, weight in parts)
