"""The suites: how each model is trained and with which settings the methods run on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

from research.grid import BASE, Cell
from research.registry import DATASETS, METHODS, MODELS, Labels, choose
from research.settings import CIFAR, QUICK, VIT_SIDE, Nhle, Pretraining, Recipe, Strong, Unsir
from unlabel import UnlabelError

RETRAIN = "retrain"  # the method that all others are compared with


@dataclass(frozen=True)
class Study:
    """An architecture on an image set, with all settings and seeds.

    `settings` has a dataclass for each method that takes one. Seeds in `seeds` train a base model
    and run the methods; those in `retrained_only` only retrain, for the floor. Values
    use the first `judged_per_label` test rows of each label, or all of them if it is None. The
    labels in `forget` are removed in place of those that the set is registered with, and `methods`
    are run in place of all that are registered.
    """

    set: str
    architecture: str
    recipe: Recipe
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    seeds: Labels = (0,)
    retrained_only: Labels = ()
    judged_per_label: int | None = None
    pretraining: Pretraining | None = None
    forget: tuple[Labels, ...] = ()
    methods: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """List the cells, each base model before the cells that need it."""
        forget = self.forget or choose(DATASETS, self.set, "set").forget
        return [
            Cell(self.set, self.architecture, seed, f"F{number}", tuple(sorted(removed)))
            for seed in (*self.seeds, *self.retrained_only)
            for number, removed in enumerate(((), *forget))
            if seed in self.seeds or removed
        ]

    def methods_of(self, cell: Cell) -> tuple[str, ...]:
        """Name the methods that a finished cell holds."""
        if cell.forget == BASE:
            return ("base",)
        return (self.methods or tuple(METHODS)) if cell.seed in self.seeds else (RETRAIN,)

    def difference(self, config: Mapping[str, Any]) -> str | None:
        """Describe the first setting in which a cell's stored config differs from the study.

        Settings that older results do not name had no choice yet: they ran with the default.
        """
        for part, settings in {"training": self.recipe, **self.settings}.items():
            own = asdict(settings)
            for each in fields(settings) if part in config else ():
                stored = config[part].get(each.name, each.default)
                if stored != own[each.name]:
                    return f"{part}: {each.name} is {stored}, not {own[each.name]}"
        return None


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
_TEN_LABELS = partial(
    Study, settings={"unsir": Unsir(), "nhle_cwm": Nhle(rate=1e-3, clip=0.3)}, seeds=(0, 1)
)
_ON_DIGITS = Unsir(
    noise_images=64, retain_a_class=100, batch=16, impair_rate=0.05, repair_rate=0.03
)
# Noise is half of the images that impair, and 500 images are all of a label. The other settings
# were found by trial, network by network.
_BALANCED = partial(Unsir, noise_share=0.5, retain_a_class=500, repair_rate=0.02, clip=1.0)


def _hundred_labels(
    set: str, architecture: str, recipe: Recipe, unsir: Unsir, **options: Any
) -> Study:
    settings = {"unsir": unsir, "nhle_cwm": Nhle(rate=1e-4)}
    return Study(set, architecture, recipe, settings, retrained_only=(1,), **options)


SUITES: dict[str, tuple[Study, ...]] = {
    "paper": (
        _TEN_LABELS("cifar10", "resnet18", CIFAR),
        _TEN_LABELS("cifar10", "allcnn", CIFAR),
        _hundred_labels(
            "cifar100",
            "resnet18",
            CIFAR,
            unsir=_BALANCED(noise_images=25, batch=128, impair_rate=0.25, repair_epochs=2),
            judged_per_label=20,
        ),
        _hundred_labels(
            "cifar100",
            "mobilenet_v2",
            Recipe(
                epochs=5, batch=256, rate=0.05, start="ImageNet-1K", side=128, weight_decay=1e-4
            ),
            unsir=_BALANCED(noise_images=25, batch=128, impair_rate=0.1, repair_epochs=2),
            judged_per_label=20,
        ),
        _hundred_labels(
            "faces",
            "resnet18",
            Recipe(epochs=60, batch=256, rate=0.1),
            unsir=_BALANCED(noise_images=100, batch=64, impair_rate=0.16, repair_epochs=6),
            judged_per_label=10,
        ),
        _hundred_labels(
            "faces",
            "vit_b_16",
            _VIT(epochs=80, batch=512, rate=1e-3, start="CIFAR-100"),
            unsir=Unsir(noise_images=25, retain_a_class=500, batch=128, repair_epochs=2, clip=1.0),
            judged_per_label=10,
            pretraining=Pretraining("cifar100", _VIT(epochs=80, batch=1024, rate=1e-3)),
        ),
    ),
    "quick": (
        _TEN_LABELS(
            "digits", "small", QUICK, settings={"unsir": _ON_DIGITS, "nhle_cwm": Nhle(rate=1e-3)}
        ),
    ),
}


def chosen(
    suite: str, study: Sequence[str] = (), forget: Sequence[str] = (), seeds: str | None = None
) -> list[Study]:
    """Return the studies of a suite, changed as the options of `run` say.

    A `study` such as "digits/small" takes the place of the suite: its model is trained with its own
    recipe, if it has one, and all else is as in the suite `quick`.
    """
    studies = [*map(_study_of, study)] or [*choose(SUITES, suite, "suite")]
    if forget:
        removed = tuple(tuple(sorted(_numbers("--forget", labels))) for labels in forget)
        _check_once("--forget", removed)
        studies = [replace(each, forget=removed) for each in studies]
    if seeds is not None:
        own = _numbers("--seeds", seeds)
        _check_once("--seeds", own)
        studies = [replace(each, seeds=own, retrained_only=()) for each in studies]
    return studies


def _study_of(name: str) -> Study:
    set, _, architecture = name.partition("/")
    choose(DATASETS, set, "set")
    (quick,) = SUITES["quick"]
    recipe = choose(MODELS, architecture, "model").recipe or quick.recipe
    return replace(quick, set=set, architecture=architecture, recipe=recipe)


def _check_once(option: str, values: Sequence[Any]) -> None:
    if len({*values}) < len(values):
        raise UnlabelError(f"{option} repeats {max(values, key=values.count)}: name each once.")


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UnlabelError(f"{option} {text} has to be numbers with commas between them: 0,4.")
    return tuple(map(int, parts))
