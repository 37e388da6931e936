"""The parts of a destination: the labels that a label's confidence goes to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from unlabel.labels import as_labels
from unlabel._typing import Label
from unlabel.errors import UnlabelError

# The labels that a label's confidence goes to, with their weights: none for a retired label.
Parts = tuple[tuple[Label, float | None], ...]
# By how much weights that people wrote may miss a sum of 1.
WEIGHT_TOLERANCE = 1e-5


def as_parts(label: Label, destination: Any) -> Parts:
    """Check a destination, and give the labels that it consists of."""
    if destination is None:
        return ()
    where = f"the destination of {label!r}"
    if not isinstance(destination, Mapping | list | tuple):
        return ((as_labels([destination], where)[0], 1.0),)
    if not destination:
        raise UnlabelError(f"The plan names nothing as {where}: to retire it, give None.")
    given = [*(destination.items() if isinstance(destination, Mapping) else destination)]
    pairs = [each if isinstance(each, tuple) and len(each) == 2 else (each, None) for each in given]
    labels = as_labels([to for to, _ in pairs], where)
    weights: list[Any] = [w.item() if isinstance(w, np.generic) else w for _, w in pairs]
    if all(weight is None for weight in weights):
        return tuple((to, None if len(labels) > 1 else 1.0) for to in labels)
    for to, weight in zip(labels, weights, strict=True):
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not (is_number and 0 < weight <= 1 + WEIGHT_TOLERANCE):
            raise UnlabelError(
                f"The plan sends {label!r} to {to!r} with the weight {weight!r}: give a number "
                "above 0 and up to 1."
            )
    if abs(math.fsum(weights) - 1) > WEIGHT_TOLERANCE:
        raise UnlabelError(
            f"The weights of {label!r} sum to {math.fsum(weights):.6g}: make them sum to 1."
        )
    if len(labels) == 1:  # files hold such a label without its weight
        return ((labels[0], 1.0),)
    return tuple(zip(labels, map(float, weights), strict=True))
