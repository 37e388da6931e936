"""Retraining, the gold standard: a fresh model that never saw an image of a removed label."""

from __future__ import annotations

import torch
from scipy.special import softmax

from research.task import Outcome, Task
from research.training import Images, logits_of, train


def run(task: Task) -> Outcome:
    """Train a fresh model with the base model's recipe on the images of retained labels.

    It has one output per retained label, in ascending order. Seconds: `epoch` (the mean) and
    `total`.
    """
    retained = torch.tensor(task.retained, device=task.device)
    kept = task.train_images.at(torch.isin(task.train_images.labels, retained))
    columns = torch.searchsorted(retained, kept.labels)
    model = task.build(len(retained), task.seed)
    seconds = train(model, Images(kept.pixels, columns), task.study.recipe, task.seed)
    logits = logits_of(model, task.test_images)
    return Outcome(
        confidences={"retrain": softmax(logits, axis=1)},
        seconds=seconds,
        config={"images": len(kept)},
        logits={"retrain": logits},
    )
