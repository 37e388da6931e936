"""OSR, output space redistribution: the library's method."""

from __future__ import annotations

import numpy as np

from research import filters
from research.task import Outcome, Task
from research.training import timed

ROWS_PER_LABEL = 500


def run(task: Task) -> Outcome:
    """Fit a filter on the base model's logits and apply it to all test rows.

    The reference rows are those of the first `ROWS_PER_LABEL` training images of each removed
    label, or of all its images if there are fewer. Seconds: `projection` (fitting the filter) and
    `redistribution` (applying it).
    """
    labels = task.base.train_labels
    reference = np.concatenate(
        [np.flatnonzero(labels == label)[:ROWS_PER_LABEL] for label in task.removed]
    )
    rows, test = task.base.train_logits[reference], task.base.test_logits
    seconds: dict[str, float] = {}
    with timed(seconds, "projection", task.device):
        fitted = filters.osr(rows, labels[reference], task.removed)
    with timed(seconds, "redistribution", task.device):
        confidences = fitted.apply(test)
    return Outcome(
        confidences={"osr": confidences},
        seconds=seconds,
        config={
            "input": "logits",
            "reference": "training images",
            "rows_a_label_at_most": ROWS_PER_LABEL,
        },
        logits={},  # the tables apply the filter to the base model's
        filter=fitted,
    )
