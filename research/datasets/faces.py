"""Faces in one folder per identity, as in VGGFace2."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps

from research.datasets import ImageSet
from unlabel import UnlabelError

IDENTITIES = 100
SIDE = 64
# One image in this many is held out if test and train have different identities.
HELD_OUT = 5

LabelledFiles = list[tuple[Path, int]]


def load_identities(folder: Path) -> ImageSet:
    """Read ``FOLDER/{train,test}/n000000/0001.jpg``: 100 identities, drawn if there are more.

    VGGFace2 itself has different identities in test and train. In that case every fifth image of
    an identity in train is held out.
    """
    train, test = _identities(folder / "train"), _identities(folder / "test")
    shared = sorted({*train} & {*test})
    names = _drawn(shared or train, folder)
    train_files: LabelledFiles = []
    test_files: LabelledFiles = []
    for label, name in enumerate(names):
        files = _files(folder / "train" / name)
        held_out = _files(folder / "test" / name) if shared else files[::HELD_OUT]
        train_files += [(file, label) for file in files if file not in held_out]
        test_files += [(file, label) for file in held_out]
    images = _decoded([file for file, _ in (*train_files, *test_files)])
    return ImageSet(
        torch.from_numpy(images[: len(train_files)]),
        torch.tensor([label for _, label in train_files]),
        torch.from_numpy(images[len(train_files) :]),
        torch.tensor([label for _, label in test_files]),
    )


def _identities(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise UnlabelError(
            f"{folder} could not be read ({error.strerror}): give the folder that holds train and "
            "test, each with one folder per identity."
        ) from error


def _drawn(names: list[str], folder: Path) -> tuple[str, ...]:
    if len(names) < IDENTITIES:
        raise UnlabelError(
            f"{folder} has too few identities in train and test: {len(names)} of {IDENTITIES}."
        )
    drawn = np.random.default_rng(0).choice(len(names), IDENTITIES, replace=False)
    return tuple(names[i] for i in np.sort(drawn))


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.jpg"))
    if not files:
        raise UnlabelError(f"{folder} has no .jpg images: add some, or remove it.")
    return files


def _decoded(files: list[Path]) -> npt.NDArray[np.uint8]:
    images = np.empty((len(files), 3, SIDE, SIDE), dtype=np.uint8)
    with ThreadPoolExecutor() as pool:
        for i, image in enumerate(pool.map(_image, files)):
            images[i] = image.transpose(2, 0, 1)
    return images


def _image(file: Path) -> npt.NDArray[np.uint8]:
    try:
        with Image.open(file) as image:
            return np.asarray(ImageOps.fit(image.convert("RGB"), (SIDE, SIDE)))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UnlabelError(f"{file} could not be read as an image: {error}.") from error
