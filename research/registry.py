"""The methods, sets and models that can be run, and how tables call them.

All register by the same three calls: those that come with the experiments in `research.builtin`,
others in files that `python -m research run --plugin` runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from research.settings import Recipe
from unlabel import UnlabelError

if TYPE_CHECKING:  # which need PyTorch
    from torch import nn

    from research.task import Outcome, Task

Labels = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Method:
    """A way to remove labels from a model, as `register_method` describes it."""

    run: Callable[[Task], Outcome]
    title: str
    outputs: Mapping[str, str]
    cost: float


@dataclass(frozen=True)
class Dataset:
    """Images with labels, as `register_dataset` describes them."""

    load: Callable[..., Any]
    title: str
    labels: int
    forget: tuple[Labels, ...]
    in_files: bool


@dataclass(frozen=True)
class Model:
    """A network, as `register_model` describes it."""

    build: Callable[[int], nn.Module]
    title: str
    recipe: Recipe | None
    pretrained: Callable[[int, Path], nn.Module] | None


METHODS: dict[str, Method] = {}
DATASETS: dict[str, Dataset] = {}
MODELS: dict[str, Model] = {}


def register_method(
    name: str,
    run: Callable[[Task], Outcome],
    *,
    title: str | None = None,
    outputs: Mapping[str, str] | None = None,
    cost: float = 0.02,
) -> None:
    """Register a method, which then runs on every cell.

    Parameters
    ----------
    name : str
    run : callable
        Takes a `research.task.Task` and returns a `research.task.Outcome`.
    title : str, optional
        The name in tables.
    outputs : mapping of str to str, optional
        The titles of its outputs, if there are several: each name begins with that of the method
        and an underscore.
    cost : float, default=0.02
        The rough duration, as a fraction of the time to train the base model.
    """
    _add(METHODS, name, Method(run, title or name, outputs or {}, cost), "method")


def register_dataset(
    name: str,
    load: Callable[..., Any],
    *,
    labels: int,
    forget: Sequence[Sequence[int]],
    title: str | None = None,
    in_files: bool = False,
) -> None:
    """Register a set of images.

    Parameters
    ----------
    name : str
    load : callable
        Returns a `research.datasets.ImageSet`. If the set is `in_files`, it is called with the
        folder of sets and a function to report the fraction to that is done.
    labels : int
        The number of labels, which are counted from 0.
    forget : sequence of sequences of int
        The sets of labels to remove, F1 first, which `run --forget` replaces.
    title : str, optional
        The name in tables.
    in_files : bool, default=False
        Whether `run` needs the folder of sets, `--data`.
    """
    checked = tuple(removable(one, labels, name) for one in forget)
    _add(DATASETS, name, Dataset(load, title or name, labels, checked, in_files), "set")


def register_model(
    name: str,
    build: Callable[[int], nn.Module],
    *,
    title: str | None = None,
    recipe: Recipe | None = None,
    pretrained: Callable[[int, Path], nn.Module] | None = None,
) -> None:
    """Register a model.

    Parameters
    ----------
    name : str
    build : callable
        Takes the number of labels and returns an untrained `torch.nn.Module` for normalised
        images, whose last linear layer computes the logits.
    title : str, optional
        The name in tables.
    recipe : research.settings.Recipe, optional
        How it is trained where no suite has a recipe for it; by default as the suite `quick`
        trains.
    pretrained : callable, optional
        Takes the number of labels and a file of ImageNet weights, which `run --weights` names.
    """
    _add(MODELS, name, Model(build, title or name, recipe, pretrained), "model")


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


def removable(removed: Sequence[int], labels: int, name: str) -> Labels:
    """Return labels to remove in ascending order, if a set has them and keeps others.

    Examples
    --------
    >>> removable([4, 0], 10, "digits")
    (0, 4)
    """
    if wrong := [label for label in removed if not 0 <= label < labels]:
        raise UnlabelError(
            f"The set {name} has no label {wrong[0]}: its labels are 0 to {labels - 1}."
        )
    if twice := [label for label in removed if removed.count(label) > 1]:
        raise UnlabelError(f"Label {twice[0]} of the set {name} is to be removed twice: name once.")
    if len(removed) in (0, labels):
        raise UnlabelError(
            f"{'All' if removed else 'None'} of the {labels} labels of the set {name} are to be "
            "removed: remove some and keep some."
        )
    return tuple(sorted(removed))


def title_of(registered: Mapping[str, Dataset] | Mapping[str, Model], name: str) -> str:
    """Return the title of a set or a model, or its name if it is not registered."""
    return registered[name].title if name in registered else name


def output_titles() -> dict[str, str]:
    """Return the titles of all methods and of their outputs, by name."""
    titles: dict[str, str] = {}
    for name, method in METHODS.items():
        titles |= {name: method.title, **method.outputs}
    return titles


def _add(registered: dict[str, T], name: str, new: T, kind: str) -> None:
    if name in registered or (kind, name) == ("method", "base"):
        raise UnlabelError(f"There is a {kind} {name!r} already: choose another name.")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):  # names are folders and parts of --only
        raise UnlabelError(f"The {kind} {name!r} needs a name of letters, digits, _ and -.")
    registered[name] = new
