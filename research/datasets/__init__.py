"""The image sets of the experiments, as tensors of bytes.

A folder holds them as they are published: CIFAR's binary archives, unpacked, and one folder
per identity, as in VGGFace2. The digits come with scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from research.registry import DATASETS, choose
from unlabel import UnlabelError


@dataclass(frozen=True)
class ImageSet:
    """Images as bytes of shape (n_images, 3, height, width), with integer labels."""

    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def load_set(name: str, folder: Path) -> ImageSet:
    """Load a registered set of images.

    Parameters
    ----------
    name : str
    folder : path
        The folder that holds the sets that are in files.

    Examples
    --------
    >>> digits = load_set("digits", Path())
    >>> digits.train_images.shape, digits.train_images.dtype
    (torch.Size([1198, 3, 8, 8]), torch.uint8)
    """
    dataset = choose(DATASETS, name, "set")
    loaded = dataset.load(folder) if dataset.in_files else dataset.load()
    train = "train", loaded.train_images, loaded.train_labels
    for part, images, labels in (train, ("test", loaded.test_images, loaded.test_labels)):
        kind, shape = images.dtype, (*images.shape,)
        if kind != torch.uint8 or len(shape) != 4 or shape[1] != 3:
            raise UnlabelError(
                f"The {part} images of {name} are {kind} of shape {shape}: return torch.uint8, "
                "from 0 to 255, of shape (n, 3, height, width)."
            )
        if (*labels.shape,) != shape[:1]:
            raise UnlabelError(f"{name} has {shape[0]} {part} images, but {len(labels)} labels.")
        if wrong := {*labels.tolist()} - {*range(dataset.labels)}:
            raise UnlabelError(
                f"The {part} images of {name} have a label {min(wrong)}: it was registered with "
                f"the labels 0 to {dataset.labels - 1}."
            )
    return loaded
