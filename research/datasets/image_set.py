"""The result of every loader."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ImageSet:
    """Images as bytes of shape (n_images, 3, height, width), with integer labels."""

    name: str
    classes: tuple[str, ...]
    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor
