"""The image sets of the experiments, as tensors of bytes.

A folder holds them as they are published: CIFAR's binary archives, packed or unpacked, and one
folder per identity, as in VGGFace2. The digits come with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from research.datasets.cifar import CIFAR10, CIFAR100, load_cifar
from research.datasets.digits import load_digits
from research.datasets.faces import load_identities
from research.datasets.image_set import ImageSet
from research.progress import Progress, no_progress
from research.registry import choose

__all__ = ["SETS", "ImageSet", "load_set"]

SETS: dict[str, Callable[[Path, Progress], ImageSet]] = {
    "cifar10": lambda folder, progress: load_cifar(CIFAR10, folder, progress),
    "cifar100": lambda folder, progress: load_cifar(CIFAR100, folder, progress),
    "faces": load_identities,
    "digits": lambda folder, progress: load_digits(),
}


def load_set(name: str, folder: Path, progress: Progress = no_progress) -> ImageSet:
    """Load an image set.

    Parameters
    ----------
    name : {"cifar10", "cifar100", "faces", "digits"}
        The set.
    folder : path
        The folder that holds the set, or that CIFAR is downloaded to. Unused for the digits.
    progress : callable
        Called now and then with the fraction of the download, or of the images, that is done.

    Examples
    --------
    >>> digits = load_set("digits", Path())
    >>> digits.train_images.shape, digits.train_images.dtype
    (torch.Size([1198, 3, 8, 8]), torch.uint8)
    """
    return choose(SETS, name, "set")(folder, progress)
