"""The suites: how each model is trained and which methods are run on it."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial
from typing import Any

from research.grid import BASE, Cell
from research.registry import DATASETS
from research.settings import CIFAR, QUICK, VIT_SIDE, Nhle, Pretraining, Recipe, Strong, Unsir

METHODS = ("osr", "mask", "linear_filtration", "unsir", "nhle_cwm", "retrain")


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
            Cell(self.set, self.architecture, seed, f"F{number}", removed)
            for seed in (*self.seeds, *self.retrained_only)
            for number, removed in enumerate(((), *DATASETS[self.set].forget))
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
        _TEN_LABELS("cifar10", "resnet18", CIFAR),
        _TEN_LABELS("cifar10", "allcnn", CIFAR),
        _HUNDRED_LABELS(
            "cifar100",
            "resnet18",
            CIFAR,
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
            QUICK,
            Unsir(
                noise_images=64, retain_a_class=100, batch=16, impair_rate=0.05, repair_rate=0.03
            ),
            Nhle(rate=1e-3),
            seeds=(0, 1),
        ),
    ),
}
