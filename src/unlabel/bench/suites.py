"""The suites: which models are trained how, and what is run on each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from unlabel.bench.grid import BASE, FORGET_SETS, Cell

METHODS = ("osr", "mask", "linear_filtration", "unsir", "nhle_cwm", "retrain")


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    The learning rate rises linearly over `warm_up` of all steps and falls linearly to 0.
    """

    epochs: int
    batch: int
    rate: float
    optimiser: Literal["sgd", "adamw"] = "sgd"  # SGD with Nesterov's momentum of 0.9
    weight_decay: float = 5e-4
    warm_up: float = 0.2
    clip: float | None = None  # the gradient's largest norm
    padding: int = 4  # crops reach this far over the edge, which mirrors the image
    smallest_crop: float = 1.0  # the least height and width of a crop, as a share of the image's
    flip: bool = True
    start: Literal["scratch", "ImageNet-1K"] = "scratch"
    side: int | None = None  # images are brought to this side on the device


@dataclass(frozen=True)
class Unsir:
    """Settings of UNSIR; `unlabel.bench.methods.unsir` describes the method."""

    noise_images: int = 256
    noise_steps: int = 40
    noise_rate: float = 0.1
    noise_penalty: float = 0.1
    noise_copies: int = 20
    retain_a_class: int = 1000
    batch: int = 256
    momentum: float = 0.9
    impair_rate: float = 0.02
    repair_rate: float = 0.01


@dataclass(frozen=True)
class Nhle:
    """Settings of NHLE-CWM; `unlabel.bench.methods.nhle_cwm` describes the method."""

    rate: float
    images_a_class: int = 100
    batch: int = 32
    momentum: float = 0.9
    clip: float = 0.1
    epochs: int = 10
    epochs_of_many: int = 3  # where more than 20 labels go


@dataclass(frozen=True)
class Study:
    """A set with an architecture, and all that is run on it.

    Seeds in `seeds` train a base model and run every method; those in `retrained_only` only
    retrain, for the floor. Figures use the first `judged_a_label` test rows of each label, all
    of them where it is None.
    """

    set: str
    architecture: str
    recipe: Recipe
    unsir: Unsir
    nhle: Nhle
    seeds: tuple[int, ...] = (0,)
    retrained_only: tuple[int, ...] = ()
    judged_a_label: int | None = None

    def cells(self) -> list[Cell]:
        """The cells, a base model before what is made from it."""
        forget = [f"F{number}" for number in range(len(FORGET_SETS[self.set]))]
        return [
            Cell(self.set, self.architecture, seed, of)
            for seed in (*self.seeds, *self.retrained_only)
            for of in forget
            if seed in self.seeds or of != BASE
        ]

    def methods(self, cell: Cell) -> tuple[str, ...]:
        """What a cell holds when it is done."""
        if cell.forget == BASE:
            return ("base",)
        return METHODS if cell.seed in self.seeds else ("retrain",)

    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of each part, as cells store them."""
        parts = {"training": self.recipe, "unsir": self.unsir, "nhle_cwm": self.nhle}
        return {name: vars(of) for name, of in parts.items()}


_CIFAR = Recipe(epochs=40, batch=512, rate=0.2)
_OF_TEN = partial(Study, unsir=Unsir(), nhle=Nhle(rate=1e-3, clip=0.3), seeds=(0, 1))
_OF_A_HUNDRED = partial(
    Study,
    unsir=Unsir(retain_a_class=100, batch=128),
    nhle=Nhle(rate=1e-4),
    retrained_only=(1,),
)

SUITES: dict[str, tuple[Study, ...]] = {
    "paper": (
        _OF_TEN("cifar10", "resnet18", _CIFAR),
        _OF_TEN("cifar10", "allcnn", _CIFAR),
        _OF_A_HUNDRED("cifar100", "resnet18", _CIFAR, judged_a_label=20),
        _OF_A_HUNDRED(
            "cifar100",
            "mobilenet_v2",
            Recipe(
                epochs=5, batch=256, rate=0.05, start="ImageNet-1K", side=128, weight_decay=1e-4
            ),
            # A tenth of the noise: at 128 pixels even that takes as long as retraining.
            unsir=Unsir(noise_images=25, retain_a_class=100, batch=128),
            judged_a_label=20,
        ),
        _OF_A_HUNDRED(
            "faces", "resnet18", Recipe(epochs=60, batch=256, rate=0.1), judged_a_label=10
        ),
        _OF_A_HUNDRED(
            "faces",
            "vit_b_16",
            Recipe(
                epochs=40,
                batch=256,
                rate=2e-4,
                optimiser="adamw",
                weight_decay=0.05,
                clip=1.0,
                smallest_crop=0.7,
            ),
            judged_a_label=10,
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
