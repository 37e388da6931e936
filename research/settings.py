"""The settings of trainings and methods; PyTorch is not needed to read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VIT_SIDE = 128


@dataclass(frozen=True)
class Strong:
    """Strong augmentation, for networks that would learn few training images by heart.

    Crops of at least `smallest_area`, relative to the image, are resized to the network's side.
    Brightness, contrast and saturation vary by up to `jitter`. Then each batch is mixed with
    itself, by mixup or cutmix with equal odds; both numbers are parameters of Beta distributions.
    """

    smallest_area: float = 0.5
    jitter: float = 0.3
    mixup: float = 0.8
    cutmix: float = 1.0
    smoothing: float = 0.1  # of the labels


@dataclass(frozen=True)
class Recipe:
    """Training settings of a model.

    The learning rate rises linearly over the fraction `warm_up` of the steps, then falls to 0.
    """

    epochs: int
    batch: int
    rate: float
    # SGD with Nesterov momentum of 0.9, or AdamW with betas of 0.9 and 0.98
    optimiser: Literal["sgd", "adamw"] = "sgd"
    weight_decay: float = 5e-4
    warm_up: float = 0.2
    fall: Literal["linear", "cosine"] = "linear"
    clip: float | None = None  # the largest norm of the gradient
    padding: int = 4  # crops reach this far beyond the edge, where the image is mirrored
    flip: bool = True
    strong: Strong | None = None  # its crops replace those of `padding`
    start: Literal["scratch", "ImageNet-1K", "CIFAR-100"] = "scratch"
    side: int | None = None  # images are resized to this side on the device


@dataclass(frozen=True)
class Pretraining:
    """The training on another set that all models of a study start from."""

    set: str
    recipe: Recipe


@dataclass(frozen=True)
class Unsir:
    """Settings of UNSIR; `research.methods.unsir` describes the method."""

    noise_images: int = 256
    noise_steps: int = 40
    noise_rate: float = 0.1
    noise_penalty: float = 0.1
    noise_copies: int = 20
    noise_share: float | None = None  # of the images that impair; replaces `noise_copies`
    retain_a_class: int = 1000
    batch: int = 256
    momentum: float = 0.9
    impair_rate: float = 0.02
    repair_rate: float = 0.01
    repair_epochs: int = 1
    clip: float | None = None  # the largest norm of the gradient


@dataclass(frozen=True)
class Nhle:
    """Settings of NHLE-CWM; `research.methods.nhle_cwm` describes the method."""

    rate: float
    images_a_class: int = 100
    batch: int = 32
    momentum: float = 0.9
    clip: float = 0.1
    epochs: int = 10
    epochs_of_many: int = 3  # with more than 20 removed labels


CIFAR = Recipe(epochs=40, batch=512, rate=0.2)
QUICK = Recipe(epochs=12, batch=64, rate=0.1, padding=1, flip=False)
