"""Batches of training images, made on the device: cropped, mirrored, normalised, mixed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F  # noqa: N812 (its name everywhere)
from torch import Tensor

from research.settings import Recipe, Strong
from research.torchvision_cpu import CutMix, MixUp, RandomChoice

# ImageNet's, for every set: pretrained weights expect them, other models adapt to them, and they
# do not depend on images of removed labels.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
GREY = (0.299, 0.587, 0.114)  # the weights of red, green and blue
LARGEST_RATIO = 4 / 3  # of a crop's sides

Mixing = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def as_input(pixels: Tensor) -> Tensor:
    """Turn pixels into network input: normalised, (rows, 3, height, width), channels last."""
    mean, deviation = (_constant(values, pixels.device) * 255 for values in (MEAN, DEVIATION))
    return ((pixels - mean) / deviation).permute(0, 3, 1, 2)


@cache  # copying them to the device for every batch would mean waiting for it
def _constant(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)


def training_inputs(
    pixels: Tensor, rows: Tensor, recipe: Recipe, random: torch.Generator
) -> Tensor:
    """Make the network inputs of a batch: some of the images, augmented as the recipe says."""
    if recipe.strong is None:
        return as_input(augmented(pixels, rows, recipe, random))
    coloured = jittered(pixels[rows].float(), recipe.strong.jitter, random)
    shape = recipe.side or pixels.shape[1], recipe.strong.smallest_area
    return resized_crops(as_input(coloured), *shape, recipe.flip, random)


def augmented(pixels: Tensor, rows: Tensor, recipe: Recipe, random: torch.Generator) -> Tensor:
    """Crop each of the given images and mirror about half of them, in one gather."""
    height, width = pixels.shape[1:3]
    at_rows = _crops(len(rows), height, recipe, random)
    at_columns = _crops(len(rows), width, recipe, random)
    if recipe.flip:
        flip = torch.rand(len(rows), 1, generator=random, device=pixels.device) < 0.5
        at_columns = torch.where(flip, at_columns.flip(1), at_columns)
    return pixels[rows[:, None, None], at_rows[:, :, None], at_columns[:, None, :]]


def _crops(n: int, side: int, recipe: Recipe, random: torch.Generator) -> Tensor:
    """Draw the pixel positions of `n` crops along one axis, mirrored beyond the edge."""
    draw = torch.rand(n, 1, generator=random, device=random.device)
    start = (draw * (2 * recipe.padding + 1)).floor().long() - recipe.padding
    at = start + torch.arange(side, device=random.device)
    return (side - 1) - ((side - 1) - at.abs()).abs()


def jittered(pixels: Tensor, strength: float, random: torch.Generator) -> Tensor:
    """Change the brightness, contrast and saturation of each image, (rows, height, width, 3)."""
    draw = torch.rand(3, len(pixels), 1, 1, 1, generator=random, device=pixels.device)
    brightness, contrast, saturation = 1 + strength * (2 * draw - 1)
    pixels = brightness * pixels
    pixels = torch.lerp(pixels.mean(dim=(1, 2, 3), keepdim=True), pixels, contrast)
    grey = (pixels * _constant(GREY, pixels.device)).sum(dim=3, keepdim=True)
    return torch.lerp(grey.expand_as(pixels), pixels, saturation).clamp(0, 255)


def resized_crops(
    inputs: Tensor, side: int, smallest_area: float, flip: bool, random: torch.Generator
) -> Tensor:
    """Crop each input, resize the crops to squares, and mirror about half of them."""
    draw = torch.rand(5, len(inputs), generator=random, device=inputs.device)
    area = smallest_area + (1 - smallest_area) * draw[0]
    stretch = torch.exp(math.log(LARGEST_RATIO) * (draw[1] - 0.5))
    width, height = (area.sqrt() * stretch).clamp(max=1), (area.sqrt() / stretch).clamp(max=1)
    mirror = torch.where(draw[4] < 0.5, -1.0, 1.0) if flip else torch.ones_like(area)
    nothing = torch.zeros_like(area)
    across = [mirror * width, nothing, (1 - width) * (2 * draw[2] - 1)]
    upwards = [nothing, height, (1 - height) * (2 * draw[3] - 1)]
    where = torch.stack([*across, *upwards], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(where, [len(inputs), 3, side, side], align_corners=False)
    return F.grid_sample(inputs, grid, padding_mode="border", align_corners=False)


def mixing(strong: Strong, classes: int) -> Mixing:
    """Return a function that mixes a batch with itself; its labels become probabilities."""
    mixup = MixUp(alpha=strong.mixup, num_classes=classes)
    cutmix = CutMix(alpha=strong.cutmix, num_classes=classes)
    chosen: Mixing = RandomChoice([mixup, cutmix])
    return chosen
