"""The handwritten digits that come with scikit-learn: 8 by 8 pixels, no download."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits as from_sklearn
from sklearn.model_selection import train_test_split

from research.datasets import ImageSet

BRIGHTEST = 16


def load_digits() -> ImageSet:
    """Read the digits as grey images of three channels; a fixed third of each is for testing."""
    digits = from_sklearn()
    grey = np.rint(digits.images * (255 / BRIGHTEST)).astype(np.uint8)
    images = np.repeat(grey[:, None], 3, axis=1)
    train, test = train_test_split(
        np.arange(len(images)), test_size=1 / 3, random_state=0, stratify=digits.target
    )
    train.sort()
    test.sort()
    labels = digits.target.astype(np.int64)
    return ImageSet(
        torch.from_numpy(images[train]),
        torch.from_numpy(labels[train]),
        torch.from_numpy(images[test]),
        torch.from_numpy(labels[test]),
    )
