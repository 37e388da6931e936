"""UNSIR (Tarun et al., TNNLS 2023, arXiv 2111.08947): noise that impairs, images that repair.

The published notebook differs from the paper, and this follows the paper: the notebook uses 3 of
the 256 noise images of a label (a loop over the channels), gives all noise the label 0, and
leaves the model in training mode while it makes noise, so that batch norm's statistics drift.
Noise here has its own label, all of it is used, and the model is frozen meanwhile. As in the
OSR paper, SGD takes the place of Adam for impairing and repairing, which Adam does far worse.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from scipy.special import softmax
from torch import Tensor, nn

from unlabel.bench.suites import Unsir
from unlabel.bench.task import Outcome, Task
from unlabel.bench.training import (
    Images,
    as_input,
    autocast,
    descend,
    generator,
    logits_of,
    timed,
)

NOISE_BATCH = 1024  # images made at a time, of several labels where each has few


def run(task: Task) -> Outcome:
    """Impair the base model with noise and repair it with images of retained labels.

    The result keeps an output for every label. Seconds: `noise`, `retain`, `impair`, `repair`.
    """
    settings, device = task.study.unsir, task.device
    model = copy.deepcopy(task.base.model)
    random = generator(task.seed, device)
    seconds: dict[str, float] = {}
    with timed(seconds, "noise", device):
        of_noise = torch.tensor(task.removed, device=device).repeat_interleave(
            settings.noise_images
        )
        shape = task.train_images.pixels.shape[1:3]
        noise = torch.cat(
            [make_noise(model, of, shape, settings, random) for of in of_noise.split(NOISE_BATCH)]
        )
    with timed(seconds, "retain", device):
        retained = retain_set(task)
    with timed(seconds, "impair", device):
        impair(model, noise, of_noise, retained, settings, random)
    with timed(seconds, "repair", device):
        repair(model, retained, settings, random)
    logits = logits_of(model, task.test_images)
    return Outcome(
        confidences={"unsir": softmax(logits, axis=1)},
        seconds=seconds,
        config=asdict(settings) | {"retained_images": len(retained)},
        logits={"unsir": logits},
    )


def make_noise(
    model: nn.Module,
    labels: Tensor,
    shape: tuple[int, int],
    settings: Unsir,
    random: torch.Generator,
) -> Tensor:
    """One image for each label, which the model least takes for it, under a penalty on its size.

    The images are the model's input, of the set's height and width, and do not depend on each
    other. The model is not changed.
    """
    model.eval().requires_grad_(False)
    noise = torch.randn(
        len(labels), 3, *shape, generator=random, device=random.device
    ).requires_grad_()
    optimiser = torch.optim.Adam([noise], lr=settings.noise_rate)
    for _ in range(settings.noise_steps):
        with autocast(random.device):
            taken = F.cross_entropy(model(noise), labels)
        penalty = noise.square().sum(dim=(1, 2, 3)).mean()
        (settings.noise_penalty * penalty - taken).backward()
        optimiser.step()
        optimiser.zero_grad()
    model.requires_grad_(True)
    return noise.detach()


def retain_set(task: Task) -> Images:
    """Some training images of each retained label, which impair and repair both use."""
    wanted = task.study.unsir.retain_a_class
    return task.train_images.some_of_each(task.retained, wanted, task.seed)


def impair(
    model: nn.Module,
    noise: Tensor,
    of_noise: Tensor,
    retained: Images,
    settings: Unsir,
    random: torch.Generator,
) -> None:
    """One epoch over the noise, several times, and the retained images, shuffled together."""
    inputs = torch.cat([noise, as_input(retained.pixels)])
    labels = torch.cat([of_noise, retained.labels])
    numbers = torch.arange(len(inputs), device=inputs.device)
    pool = torch.cat([numbers[: len(noise)].repeat(settings.noise_copies), numbers[len(noise) :]])

    def loss(rows: Tensor) -> Tensor:
        return F.cross_entropy(model(inputs[pool[rows]]), labels[pool[rows]])

    _descend(model, loss, len(pool), settings.impair_rate, settings, random)


def repair(model: nn.Module, retained: Images, settings: Unsir, random: torch.Generator) -> None:
    """One epoch over the retained images alone, with a new optimiser."""

    def loss(rows: Tensor) -> Tensor:
        return F.cross_entropy(model(as_input(retained.pixels[rows])), retained.labels[rows])

    _descend(model, loss, len(retained), settings.repair_rate, settings, random)


def _descend(
    model: nn.Module,
    loss: Callable[[Tensor], Tensor],
    n: int,
    rate: float,
    settings: Unsir,
    random: torch.Generator,
) -> None:
    model.train()
    descend(model, loss, n, random, batch=settings.batch, rate=rate, momentum=settings.momentum)
