"""Mask and renormalise, the baseline that needs no data."""

from __future__ import annotations

from research.task import Outcome, Task
from research.training import timed
from unlabel.fitting import fit_filter


def run(task: Task) -> Outcome:
    """Drop the entries of retired labels and divide by the sum of the rest.

    Seconds: `redistribution`.
    """
    test = task.base.test_logits
    fitted = fit_filter(
        test[:1], classes=range(task.classes), remove=task.removed, method="mask", input="logits"
    )
    seconds: dict[str, float] = {}
    with timed(seconds, "redistribution", task.device):
        confidences = fitted.apply(test)
    return Outcome(confidences={"mask": confidences}, seconds=seconds)
