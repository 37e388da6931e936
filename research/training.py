"""Training and evaluation with images that stay on the device as bytes.

Nothing in the loop waits for the device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from torch import Tensor, nn

from research.arrays import Float32s
from research.augmentation import as_input, mixing, training_inputs
from research.models import head
from research.progress import track
from research.settings import Nhle, Recipe, Unsir

EVALUATION_BATCH = 1000


@dataclass(frozen=True, eq=False)
class Images:
    """Images on a device, with their labels."""

    pixels: Tensor  # uint8, (rows, height, width, 3)
    labels: Tensor  # int64

    @classmethod
    def from_tensors(cls, images: Tensor, labels: Tensor, device: torch.device) -> Images:
        """Move images of shape (rows, 3, height, width) to a device."""
        return cls(images.to(device).permute(0, 2, 3, 1).contiguous(), labels.to(device).long())

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, rows: Tensor) -> Images:
        """Select some of the images."""
        return Images(self.pixels[rows], self.labels[rows])

    def sample_per_label(self, labels: tuple[int, ...], n: int, seed: int) -> Images:
        """Draw at most `n` images of each of the given labels at random."""
        order = torch.randperm(len(self), generator=generator(seed)).to(self.labels.device)
        return self.at(torch.cat([order[self.labels[order] == label][:n] for label in labels]))


def generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Make a seeded generator of random numbers."""
    return torch.Generator(device).manual_seed(seed)


def resize_inputs(model: nn.Module, side: int) -> None:
    """Make a model resize its inputs to one height and width first."""
    model.register_forward_pre_hook(partial(_resized, side))


def _resized(side: int, model: nn.Module, inputs: tuple[Tensor]) -> Tensor:
    return F.interpolate(inputs[0], size=(side, side), mode="bilinear", align_corners=False)


def train(model: nn.Module, images: Images, recipe: Recipe, seed: int) -> dict[str, float]:
    """Train a model in place; return the seconds per epoch and in total."""
    device = images.pixels.device
    random = generator(seed, device)
    batch = min(recipe.batch, len(images))
    steps = len(images) // batch
    optimiser = _optimiser(model, recipe)
    rate = partial(_one_cycle, total=steps * recipe.epochs, recipe=recipe)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate)
    mix = mixing(recipe.strong, head(model).out_features) if recipe.strong else None
    smoothing = recipe.strong.smoothing if recipe.strong else 0.0
    started = now(device)
    model.train()
    torch.backends.cudnn.benchmark = True  # pays off here, where shapes never change
    with seeded(seed):
        for _ in track(range(recipe.epochs), "Training", recipe.epochs):
            order = torch.randperm(len(images), generator=random, device=device)
            for step in range(steps):
                rows = order[step * batch : (step + 1) * batch]
                inputs = training_inputs(images.pixels, rows, recipe, random)
                targets = images.labels[rows]
                if mix is not None:
                    inputs, targets = mix(inputs, targets)
                with autocast(device):
                    loss = F.cross_entropy(model(inputs), targets, label_smoothing=smoothing)
                loss.backward()
                if recipe.clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
                optimiser.step()
                optimiser.zero_grad()
                schedule.step()
    torch.backends.cudnn.benchmark = False
    model.eval()
    total = now(device) - started
    return {"epoch": total / recipe.epochs, "total": total}


def descend(
    model: nn.Module,
    loss_of: Callable[[Tensor], Tensor],
    n: int,
    random: torch.Generator,
    settings: Unsir | Nhle,
    *,
    rate: float,
    epochs: int = 1,
) -> None:
    """Train a model in place by SGD; `loss_of` takes the rows of a batch, out of `n`."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=settings.momentum)
    with seeded(random.initial_seed()):  # for dropout
        for _ in range(epochs):
            order = torch.randperm(n, generator=random, device=random.device)
            for rows in order.split(settings.batch):
                with autocast(random.device):
                    loss = loss_of(rows)
                loss.backward()
                if settings.clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
                optimiser.step()
                optimiser.zero_grad()


def logits_of(model: nn.Module, images: Images) -> Float32s:
    """Compute a model's logits in float32."""
    model.eval()
    # Eagerly: blocks that were compiled for training would be compiled once more.
    with torch.compiler.set_stance("force_eager"), torch.inference_mode():
        batches = images.pixels.split(EVALUATION_BATCH)
        logits = torch.cat([model(as_input(batch)).float() for batch in batches])
    result: Float32s = logits.cpu().numpy()
    result.setflags(write=False)  # methods share those of the base model
    return result


def _optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    options: dict[str, Any] = {"lr": recipe.rate, "weight_decay": recipe.weight_decay}
    options["fused"] = next(model.parameters()).is_cuda
    if recipe.optimiser == "adamw":
        return torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), **options)
    return torch.optim.SGD(model.parameters(), momentum=0.9, nesterov=True, **options)


def _one_cycle(step: int, total: int, recipe: Recipe) -> float:
    """Return the learning rate of a step, relative to the largest."""
    rise = max(1.0, total * recipe.warm_up)
    left = (total - step) / max(1.0, total - rise)
    if recipe.fall == "cosine" and left < 1:
        left = 0.5 - 0.5 * math.cos(math.pi * left)
    return min((step + 1) / rise, left)


def autocast(device: torch.device) -> torch.autocast:
    """Use bfloat16 where that is fast."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch's own generator, which draws weights and dropout; restore it afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread: with small networks several only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def now(device: torch.device) -> float:
    """Return the time in seconds once the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@contextmanager
def timed(seconds: dict[str, float], component: str, device: torch.device) -> Iterator[None]:
    """Store the seconds that a block takes, work on the device included."""
    started = now(device)
    yield
    seconds[component] = now(device) - started
