"""CIFAR-10 and CIFAR-100, from their published binary versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from research.datasets import ImageSet
from unlabel import UnlabelError

ADDRESS = "https://www.cs.toronto.edu/~kriz/"
SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class Layout:
    """The layout of a set on disk: records of label bytes, whose last one counts, and pixels."""

    archive: str
    folder: str
    label_bytes: int
    train: Mapping[str, int]  # records in each file
    test: Mapping[str, int]


CIFAR10 = Layout(
    archive="cifar-10-binary.tar.gz",
    folder="cifar-10-batches-bin",
    label_bytes=1,
    train={f"data_batch_{i}.bin": 10_000 for i in range(1, 6)},
    test={"test_batch.bin": 10_000},
)
CIFAR100 = Layout(
    archive="cifar-100-binary.tar.gz",
    folder="cifar-100-binary",
    label_bytes=2,
    train={"train.bin": 50_000},
    test={"test.bin": 10_000},
)


def load_cifar(layout: Layout, data: Path) -> ImageSet:
    """Read the set from the folder of its unpacked archive."""
    train, test = (
        np.concatenate([_records(layout, data, name, count) for name, count in files.items()])
        for files in (layout.train, layout.test)
    )
    return ImageSet(*_images_and_labels(layout, train), *_images_and_labels(layout, test))


load_cifar10, load_cifar100 = partial(load_cifar, CIFAR10), partial(load_cifar, CIFAR100)


def _records(layout: Layout, data: Path, name: str, count: int) -> npt.NDArray[np.uint8]:
    file, size = data / layout.folder / name, layout.label_bytes + PIXELS
    advice = f"unpack {ADDRESS}{layout.archive} in {data}"
    try:
        content = np.fromfile(file, dtype=np.uint8)
    except OSError as error:
        raise UnlabelError(f"{file} could not be read ({error.strerror}): {advice}.") from error
    if len(content) != count * size:
        raise UnlabelError(
            f"{file} has {len(content):,} bytes instead of {count * size:,}: it is truncated or "
            f"another file; {advice}."
        )
    return content.reshape(count, size)


def _images_and_labels(
    layout: Layout, records: npt.NDArray[np.uint8]
) -> tuple[torch.Tensor, torch.Tensor]:
    images = np.ascontiguousarray(records[:, layout.label_bytes :]).reshape(-1, 3, SIDE, SIDE)
    labels = records[:, layout.label_bytes - 1].astype(np.int64)
    return torch.from_numpy(images), torch.from_numpy(labels)
