"""UNSIR (Tarun et al., TNNLS 2023, arXiv 2111.08947): noise that impairs, images that repair.

This follows the paper, from which the published notebook differs: the notebook uses 3 of the 256
noise images of a label (a loop over the channels), gives all noise the label 0, and leaves the
model in training mode while it makes noise, so that batch norm's statistics drift. Here all noise
is used, with its own label, and the model is frozen meanwhile. As in the OSR paper, SGD replaces
Adam, which impairs and repairs far worse.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from scipy.special import softmax
from torch import Tensor, nn

from research.augmentation import as_input
from research.settings import Unsir
from research.task import Outcome, Task
from research.training import Images, autocast, descend, generator, logits_of, timed

NOISE_BATCH = 1024  # images made at a time; one batch can hold several labels


def run(task: Task) -> Outcome:
    """Impair the base model with noise and repair it with images of retained labels.

    The result keeps one output per label. Seconds: `noise`, `retain`, `impair`, `repair`.
    """
    settings, device = task.study.settings["unsir"], task.device
    model = copy.deepcopy(task.base.model)
    random = generator(task.seed, device)
    seconds: dict[str, float] = {}
    with timed(seconds, "noise", device):
        noise, noise_labels = noise_of(task, model, random)
    with timed(seconds, "retain", device):
        retained = retain_set(task)
    with timed(seconds, "impair", device):
        impair(model, noise, noise_labels, retained, settings, random)
    with timed(seconds, "repair", device):
        repair(model, retained, settings, random)
    logits = logits_of(model, task.test_images)
    return Outcome(
        confidences={"unsir": softmax(logits, axis=1)},
        seconds=seconds,
        config={"retained_images": len(retained)},
        logits={"unsir": logits},
    )


def noise_of(task: Task, model: nn.Module, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """Make the noise of all removed labels; return it with its labels."""
    settings = task.study.settings["unsir"]
    labels = torch.tensor(task.removed, device=task.device).repeat_interleave(settings.noise_images)
    shape = task.train_images.pixels.shape[1:3]
    batches = labels.split(NOISE_BATCH)
    noise = [make_noise(model, batch, shape, settings, random) for batch in batches]
    return torch.cat(noise), labels


def make_noise(
    model: nn.Module,
    labels: Tensor,
    shape: tuple[int, int],
    settings: Unsir,
    random: torch.Generator,
) -> Tensor:
    """Make one noise image per given label that raises the model's loss on that label.

    A penalty keeps the noise small. The images have the set's height and width and do not depend
    on each other. The model is not changed.
    """
    model.eval().requires_grad_(False)
    noise = torch.randn(
        len(labels), 3, *shape, generator=random, device=random.device
    ).requires_grad_()
    optimiser = torch.optim.Adam([noise], lr=settings.noise_rate)
    for _ in range(settings.noise_steps):
        with autocast(random.device):
            cross_entropy = F.cross_entropy(model(noise), labels)
        penalty = noise.square().sum(dim=(1, 2, 3)).mean()
        (settings.noise_penalty * penalty - cross_entropy).backward()
        optimiser.step()
        optimiser.zero_grad()
    model.requires_grad_(True)
    return noise.detach()


def retain_set(task: Task) -> Images:
    """Draw the training images of retained labels that impair and repair both use."""
    per_label = task.study.settings["unsir"].retain_a_class
    return task.train_images.sample_per_label(task.retained, per_label, task.seed)


def impair(
    model: nn.Module,
    noise: Tensor,
    noise_labels: Tensor,
    retained: Images,
    settings: Unsir,
    random: torch.Generator,
) -> None:
    """Train for one epoch on copies of the noise and the retained images, shuffled together."""
    inputs = torch.cat([noise, as_input(retained.pixels)])
    labels = torch.cat([noise_labels, retained.labels])
    noise_rows, retained_rows = torch.arange(len(inputs), device=inputs.device).tensor_split(
        [len(noise)]
    )
    pool = torch.cat([_copies(noise_rows, len(retained), settings), retained_rows])

    def loss(rows: Tensor) -> Tensor:
        return F.cross_entropy(model(inputs[pool[rows]]), labels[pool[rows]])

    model.train()
    descend(model, loss, len(pool), random, settings, rate=settings.impair_rate)


def _copies(noise_rows: Tensor, n_retained: int, settings: Unsir) -> Tensor:
    """Repeat the noise a fixed number of times, or until it is a share of all images."""
    share = settings.noise_share
    if share is None:
        return noise_rows.repeat(settings.noise_copies)
    wanted = round(n_retained * share / (1 - share))
    return noise_rows[torch.arange(wanted, device=noise_rows.device) * len(noise_rows) // wanted]


def repair(model: nn.Module, retained: Images, settings: Unsir, random: torch.Generator) -> None:
    """Train on the retained images alone, with a new optimiser."""

    def loss(rows: Tensor) -> Tensor:
        return F.cross_entropy(model(as_input(retained.pixels[rows])), retained.labels[rows])

    model.train()
    rate, epochs = settings.repair_rate, settings.repair_epochs
    descend(model, loss, len(retained), random, settings, rate=rate, epochs=epochs)
