"""What every loader gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Progress = Callable[[float], None]


@dataclass(frozen=True)
class ImageSet:
    """Images with labels: bytes of shape (n_images, 3, height, width), and whole numbers."""

    name: str
    classes: tuple[str, ...]
    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def nothing_to_show(part: float) -> None:
    """Progress that nobody looks at."""
