"""The methods, sets and models that can be run, and how tables call them.

All register by the same three calls: those that come with the experiments in `research.builtin`,
others in files that `python -m research run --plugin` runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from research.settings import Recipe
from unlabel import UnlabelError

if TYPE_CHECKING:  # which need PyTorch
    from torch import nn

    from research.datasets import ImageSet
    from research.task import Outcome, Task

Labels = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Method:
    """A way to remove labels from a model: `run` takes a `Task` and returns an `Outcome`."""

    run: Callable[[Task], Outcome]
    title: str = ""  # in tables, by default the name
    outputs: Mapping[str, str] = field(default_factory=dict)  # several, by name, with their titles


@dataclass(frozen=True)
class Dataset:
    """A set of images with so many labels, and the labels to remove in F1, in F2 and so on."""

    load: Callable[..., ImageSet]
    labels: int
    forget: Sequence[Sequence[int]]
    title: str = ""
    in_files: bool = False  # `load` then takes the folder that `run --data` names


@dataclass(frozen=True)
class Model:
    """A network: `build` makes one for a number of labels; its last linear layer is its head."""

    build: Callable[[int], nn.Module]
    title: str = ""
    recipe: Recipe | None = None  # where no suite has one, by default that of `quick`
    # For a number of labels and what `run --weights` names.
    pretrained: Callable[[int, Path | None], nn.Module] | None = None


# What cells and tables have beside the methods: the base model, its settings, and the seed floor.
NO_METHODS = ("base", "training", "retrain_again")
METHODS: dict[str, Method] = {}
DATASETS: dict[str, Dataset] = {}
MODELS: dict[str, Model] = {}


def register_method(name: str, run: Callable[[Task], Outcome], **about: Any) -> None:
    """Register a method, which then runs on every cell; `about` it are attributes of `Method`."""
    method = Method(run, **about)
    if wrong := [each for each in method.outputs if not each.startswith(f"{name}_")]:
        raise UnlabelError(f"The method {name} has an output {wrong[0]}: name it {name}_...")
    outputs = (output for other in METHODS.values() for output in other.outputs)
    _add(METHODS, name, method, "method", taken=(*NO_METHODS, *outputs))


def register_dataset(name: str, load: Callable[..., ImageSet], **about: Any) -> None:
    """Register a set of images; `about` it are the attributes of `Dataset`."""
    dataset = Dataset(load, **about)
    for each in dataset.forget:
        if not isinstance(each, Sequence) or not all(isinstance(label, int) for label in each):
            raise UnlabelError(f"The set {name} forgets {each!r}: name sets of labels, [[0, 1]].")
    _add(DATASETS, name, dataset, "set")


def register_model(name: str, build: Callable[[int], nn.Module], **about: Any) -> None:
    """Register a network; `about` it are the attributes of `Model`."""
    _add(MODELS, name, Model(build, **about), "model")


def choose(options: Mapping[str, T], name: str, kind: str) -> T:
    """Return an option by its name.

    Examples
    --------
    >>> choose({"paper": 1, "quick": 2}, "quick", "suite")
    2
    """
    if name not in options:
        raise UnlabelError(f"There is no {kind} {name!r}: choose from {', '.join(options)}.")
    return options[name]


def check_removed(removed: Sequence[int], set: str) -> None:
    """Raise an error if a registered set lacks some of the labels to remove, or keeps none."""
    labels = choose(DATASETS, set, "set").labels
    text = ",".join(map(str, removed))
    if wrong := {*removed} - {*range(labels)}:
        raise UnlabelError(f"{set} has no label {min(wrong)} to remove, but 0 to {labels - 1}.")
    if len({*removed}) < len(removed):
        raise UnlabelError(f"{text} has a label of {set} twice: name each label to remove once.")
    if len(removed) == labels:
        raise UnlabelError(f"{text} are all labels of {set}: keep one at least.")


def _add(registered: dict[str, T], name: str, new: T, kind: str, taken: Sequence[str] = ()) -> None:
    if name in (*registered, *taken):
        raise UnlabelError(f"There is a {kind} {name!r} already: choose another name.")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):  # names are folders and parts of --only
        raise UnlabelError(f"The {kind} {name!r} needs a name of letters, digits, _ and -.")
    registered[name] = new
