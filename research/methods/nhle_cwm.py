"""NHLE-CWM (Wang et al., Scientific Reports 2026, doi 10.1038/s41598-026-40379-9).

A reconstruction: the full text was not available. Negative-hot labels say what an image is
not: -1 at the label to forget, 0 elsewhere, under cross-entropy. That is an ascent on an
unbounded loss. So the gradient's norm is clipped, and a batch no longer counts once its labels
are no likelier than chance, by their mean log-probability; otherwise the model diverges. The
class weight mask then sets the forgotten labels' rows of the last layer to 0.
"""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from scipy.special import softmax
from torch import Tensor, nn

from research.augmentation import as_input
from research.models import head
from research.registry import Labels
from research.settings import Nhle
from research.task import Outcome, Task
from research.training import Images, descend, generator, logits_of, timed

MANY = 20


def run(task: Task) -> Outcome:
    """Fine-tune the base model away from some forgotten images, then mask its last layer.

    The result keeps one output per label; the logits of forgotten labels are 0, which can still
    be the largest. Seconds: `finetune`, `masking`.
    """
    settings, device = task.study.settings["nhle_cwm"], task.device
    model = copy.deepcopy(task.base.model)
    images = task.train_images.sample_per_label(task.removed, settings.images_a_class, task.seed)
    epochs = settings.epochs_of_many if len(task.removed) > MANY else settings.epochs
    seconds: dict[str, float] = {}
    with timed(seconds, "finetune", device):
        finetune(model, images, epochs, settings, generator(task.seed, device))
    with timed(seconds, "masking", device):
        mask_head(model, task.removed)
    logits = logits_of(model, task.test_images)
    return Outcome(
        confidences={"nhle_cwm": softmax(logits, axis=1)},
        seconds=seconds,
        config={"epochs_run": epochs, "images": len(images)},
        logits={"nhle_cwm": logits},
    )


def finetune(
    model: nn.Module, images: Images, epochs: int, settings: Nhle, random: torch.Generator
) -> None:
    """Lower the log-probability of the true label, as negative-hot labels do.

    Batch norm keeps its statistics: those of forgotten images alone would ruin the model.
    """

    def loss(rows: Tensor) -> Tensor:
        logits = model(as_input(images.pixels[rows]))
        cross_entropy = F.cross_entropy(logits, images.labels[rows])
        return -cross_entropy.clamp(max=math.log(logits.shape[1]))

    model.eval()
    descend(model, loss, len(images), random, settings, rate=settings.rate, epochs=epochs)


def mask_head(model: nn.Module, removed: Labels) -> None:
    """Set the rows of removed labels in the last layer's weight and bias to 0."""
    layer = head(model)
    with torch.no_grad():
        layer.weight[list(removed)] = 0
        layer.bias[list(removed)] = 0
