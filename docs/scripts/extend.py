"""Registers two methods, a set and a model, for `python -m research run --plugin`."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from scipy.special import softmax
from sklearn.datasets import load_digits
from torch import nn

from research import register_dataset, register_method, register_model
from research.augmentation import as_input
from research.datasets import ImageSet
from research.settings import Recipe
from research.task import Outcome, Task
from research.training import generator, logits_of


def even(task: Task) -> Outcome:
    """Spread the confidence in removed labels evenly over the others."""
    confidences = softmax(task.base.test_logits, axis=1)
    kept = confidences[:, task.retained]
    lost = 1 - kept.sum(axis=1, keepdims=True)
    return Outcome({"even": kept + lost / len(task.retained)})


def finetuned(task: Task) -> Outcome:
    """Train the base model for an epoch on a few images of retained labels."""
    model = task.base.model
    images = task.train_images.sample_per_label(task.retained, 20, task.seed)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    random = generator(task.seed, task.device)
    for rows in torch.randperm(len(images), generator=random, device=task.device).split(32):
        loss = F.cross_entropy(model(as_input(images.pixels[rows])), images.labels[rows])
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return Outcome({"finetuned": softmax(logits_of(model, task.test_images), axis=1)})


def turned_digits() -> ImageSet:
    """Return the digits, upright (labels 0 to 9) and on their side (10 to 19)."""
    digits = load_digits()
    upright = torch.from_numpy(digits.images * (255 / 16)).byte()
    grey = torch.cat([upright, upright.rot90(dims=(1, 2))])
    images = grey[:, None].expand(-1, 3, -1, -1)
    labels = torch.from_numpy(digits.target).repeat(2)
    labels[len(upright) :] += 10
    test = torch.arange(len(labels)) % 3 == 0
    return ImageSet(images[~test], labels[~test], images[test], labels[test])


def tiny(labels: int) -> nn.Module:
    """Return a network of one convolution."""
    features = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(features, nn.Flatten(), nn.Linear(32 * 4 * 4, labels))


register_method("even", even, title="spread evenly")
register_method("finetuned", finetuned, title="fine-tuned on retained labels")
register_dataset("turned", turned_digits, labels=20, forget=[[10], range(10, 20)])
register_model("tiny", tiny, recipe=Recipe(epochs=5, batch=64, rate=0.05, padding=1, flip=False))
