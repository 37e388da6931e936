"""The suites: how each model is trained and which methods are run on it."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial
from typing import Any, Literal

from research.grid import BASE, FORGET_SETS, Cell

VIT_SIDE = 128
METHODS = ("osr", "mask", "linear_filtration", "unsir", "nhle_cwm", "retrain")


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


@dataclass(frozen=True)
class Study:
    """An architecture on an image set, with all settings and seeds.

    Seeds in `seeds` train a base model and run every method; those in `retrained_only` only
    retrain, for the floor. Values use the first `judged_per_label` test rows of each label, or
    all of them if it is None.
    """

    set: str
    architecture: str
    recipe: Recipe
    unsir: Unsir
    nhle: Nhle
    seeds: tuple[int, ...] = (0,)
    retrained_only: tuple[int, ...] = ()
    judged_per_label: int | None = None
    pretraining: Pretraining | None = None

    def cells(self) -> list[Cell]:
        """List the cells, each base model before the cells that need it."""
        return [
            Cell(self.set, self.architecture, seed, f"F{number}")
            for seed in (*self.seeds, *self.retrained_only)
            for number in range(len(FORGET_SETS[self.set]))
            if seed in self.seeds or f"F{number}" != BASE
        ]

    def methods(self, cell: Cell) -> tuple[str, ...]:
        """Name the methods that a finished cell holds."""
        if cell.forget == BASE:
            return ("base",)
        return METHODS if cell.seed in self.seeds else ("retrain",)

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings of each part, as cells store them."""
        return {name: asdict(part) for name, part in self._parts().items()}

    def defaults(self) -> dict[str, dict[str, Any]]:
        """Return the settings that older results do not name, since there was no choice yet."""
        return {
            name: {
                field.name: field.default for field in fields(part) if field.default is not MISSING
            }
            for name, part in self._parts().items()
        }

    def _parts(self) -> dict[str, Recipe | Unsir | Nhle]:
        return {"training": self.recipe, "unsir": self.unsir, "nhle_cwm": self.nhle}


_CIFAR = Recipe(epochs=40, batch=512, rate=0.2)
_VIT = partial(
    Recipe,
    optimiser="adamw",
    weight_decay=0.05,
    warm_up=0.1,
    fall="cosine",
    clip=1.0,
    strong=Strong(),
    side=VIT_SIDE,
)
_TEN_LABELS = partial(Study, unsir=Unsir(), nhle=Nhle(rate=1e-3, clip=0.3), seeds=(0, 1))
_HUNDRED_LABELS = partial(Study, nhle=Nhle(rate=1e-4), retrained_only=(1,))
# Noise is half of the images that impair, and 500 images are all of a label. The other settings
# were found by trial, network by network.
_BALANCED = partial(Unsir, noise_share=0.5, retain_a_class=500, repair_rate=0.02, clip=1.0)

SUITES: dict[str, tuple[Study, ...]] = {
    "paper": (
        _TEN_LABELS("cifar10", "resnet18", _CIFAR),
        _TEN_LABELS("cifar10", "allcnn", _CIFAR),
        _HUNDRED_LABELS(
            "cifar100",
            "resnet18",
            _CIFAR,
            unsir=_BALANCED(noise_images=25, batch=128, impair_rate=0.25, repair_epochs=2),
            judged_per_label=20,
        ),
        _HUNDRED_LABELS(
            "cifar100",
            "mobilenet_v2",
            Recipe(
                epochs=5, batch=256, rate=0.05, start="ImageNet-1K", side=128, weight_decay=1e-4
            ),
            # A tenth of the noise: at 128 pixels even that takes as long as retraining.
            unsir=Unsir(noise_images=25, retain_a_class=100, batch=128),
            judged_per_label=20,
        ),
        _HUNDRED_LABELS(
            "faces",
            "resnet18",
            Recipe(epochs=60, batch=256, rate=0.1),
            unsir=_BALANCED(noise_images=100, batch=64, impair_rate=0.16, repair_epochs=6),
            judged_per_label=10,
        ),
        _HUNDRED_LABELS(
            "faces",
            "vit_b_16",
            _VIT(epochs=80, batch=512, rate=1e-3, start="CIFAR-100"),
            unsir=Unsir(noise_images=25, retain_a_class=500, batch=128, repair_epochs=2, clip=1.0),
            judged_per_label=10,
            pretraining=Pretraining("cifar100", _VIT(epochs=80, batch=1024, rate=1e-3)),
        ),
    ),
    "quick": (
        Study(
            "digits",
            "small",
            Recipe(epochs=12, batch=64, rate=0.1, padding=1, flip=False),
            Unsir(
                noise_images=64, retain_a_class=100, batch=16, impair_rate=0.05, repair_rate=0.03
            ),
            Nhle(rate=1e-3),
            seeds=(0, 1),
        ),
    ),
}
