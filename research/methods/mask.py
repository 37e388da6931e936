"""Mask and renormalise, the baseline that needs no data."""

from __future__ import annotations

from research import filters
from research.task import Outcome, Task
from research.training import timed


def run(task: Task) -> Outcome:
    """Drop the entries of removed labels and divide by the sum of the rest.

    Nothing is stored: the tables do the same to the base model's logits. Seconds: `redistribution`.
    """
    test = task.base.test_logits
    fitted = filters.mask(task.classes, task.removed)
    seconds: dict[str, float] = {}
    with timed(seconds, "redistribution", task.device):
        confidences = fitted.apply(test)
    return Outcome(confidences={"mask": confidences}, seconds=seconds, logits={})
