"""CIFAR-10 and CIFAR-100, from their published binary versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from research.datasets.archives import Archive, unpacked
from research.datasets.image_set import ImageSet
from research.progress import Progress
from unlabel import UnlabelError

SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class Layout:
    """The layout of a set on disk: records of label bytes, whose last one counts, and pixels."""

    name: str
    archive: Archive
    classes: int
    label_bytes: int
    names: str
    train: Mapping[str, int]  # records in each file
    test: Mapping[str, int]


CIFAR10 = Layout(
    name="cifar10",
    archive=Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
        "cifar-10-batches-bin",
    ),
    classes=10,
    label_bytes=1,
    names="batches.meta.txt",
    train={f"data_batch_{i}.bin": 10_000 for i in range(1, 6)},
    test={"test_batch.bin": 10_000},
)
CIFAR100 = Layout(
    name="cifar100",
    archive=Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        "cifar-100-binary",
    ),
    classes=100,
    label_bytes=2,
    names="fine_label_names.txt",
    train={"train.bin": 50_000},
    test={"test.bin": 10_000},
)


def load_cifar(layout: Layout, folder: Path, progress: Progress) -> ImageSet:
    """Read the set from its folder, its archive or, failing both, its address."""
    source = unpacked(layout.archive, folder, progress)
    train, test = (
        [_records(layout, source / file, count) for file, count in files.items()]
        for files in (layout.train, layout.test)
    )
    return ImageSet(
        layout.name,
        _class_names(layout, source / layout.names),
        *_images_and_labels(layout, np.concatenate(train)),
        *_images_and_labels(layout, np.concatenate(test)),
    )


def _records(
    layout: Layout, file: Path, count: int
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    size = layout.label_bytes + PIXELS
    try:
        content = np.fromfile(file, dtype=np.uint8)
    except OSError as error:
        raise _unreadable(layout, file, error) from error
    if len(content) != count * size:
        raise UnlabelError(
            f"{file} has {len(content):,} bytes instead of {count * size:,}: it is truncated or "
            f"another file; unpack {layout.archive.name} again."
        )
    records = content.reshape(count, size)
    labels = records[:, layout.label_bytes - 1]
    if labels.max() >= layout.classes:
        image = int(np.argmax(labels >= layout.classes))
        raise UnlabelError(
            f"{file}: image {image} has the label {labels[image]}, but labels end at "
            f"{layout.classes - 1}; unpack {layout.archive.name} again."
        )
    return records


def _images_and_labels(
    layout: Layout, records: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
) -> tuple[torch.Tensor, torch.Tensor]:
    images = np.ascontiguousarray(records[:, layout.label_bytes :]).reshape(-1, 3, SIDE, SIDE)
    labels = records[:, layout.label_bytes - 1].astype(np.int64)
    return torch.from_numpy(images), torch.from_numpy(labels)


def _class_names(layout: Layout, file: Path) -> tuple[str, ...]:
    try:
        names = tuple(file.read_text(encoding="ascii").split())
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(layout, file, error) from error
    if len(names) != layout.classes:
        raise UnlabelError(
            f"{file} names {len(names)} labels, not {layout.classes}: unpack "
            f"{layout.archive.name} again."
        )
    return names


def _unreadable(layout: Layout, file: Path, error: OSError | UnicodeDecodeError) -> UnlabelError:
    reason = error.strerror if isinstance(error, OSError) else "it is not text"
    return UnlabelError(f"{file} could not be read ({reason}): unpack {layout.archive.name} again.")
