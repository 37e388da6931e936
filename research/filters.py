"""OSR and mask of the library, on labels that are the numbers of their columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal

from research.arrays import Floats
from unlabel import LabelPlan, OutputFilter

Kind = Literal["probabilities", "logits"]


def osr(
    confidences: Floats,
    labels: Any,
    removed: Sequence[int],
    *,
    kind: Kind = "logits",
    calibrate: bool = False,
) -> OutputFilter:
    """Fit OSR on reference rows and their true labels."""
    with warnings.catch_warnings():
        # The experiments fit on few rows and on training rows, and say so themselves.
        warnings.simplefilter("ignore", UserWarning)
        return OutputFilter.fit(
            confidences, labels, remove=list(removed), kind=kind, calibrate=calibrate
        )


def mask(n_labels: int, removed: Sequence[int], *, kind: Kind = "logits") -> OutputFilter:
    """Make the filter that drops labels and divides by the sum of the rest."""
    return OutputFilter.from_plan(LabelPlan(list(removed)), classes=range(n_labels), kind=kind)


def softmax(logits: Floats) -> Floats:
    """Turn logits into probabilities, in the rounding of the filters that they are beside."""
    return mask(logits.shape[1], ()).apply(logits)
