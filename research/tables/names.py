"""What tables call methods and networks, and in which order they show them.

Titles are those that were registered; what is not registered is shown under its own name.
"""

from __future__ import annotations

from collections.abc import Iterable

from research.registry import DATASETS, MODELS, output_titles, title_of

FLOOR = "retrain_again"

Network = tuple[str, str]


def network(set: str, architecture: str) -> str:
    """Return the title of a network on a set.

    Examples
    --------
    >>> network("cifar100", "mobilenet_v2"), network("cifar100", "my_own")
    ('CIFAR-100, MobileNetV2', 'CIFAR-100, my_own')
    """
    return f"{title_of(DATASETS, set)}, {title_of(MODELS, architecture)}"


def in_order(networks: Iterable[Network]) -> list[Network]:
    """Sort networks as their sets and models were registered, others at the end."""
    sets, models = list(DATASETS), list(MODELS)
    return sorted(networks, key=lambda pair: (_place(sets, pair[0]), _place(models, pair[1])))


def method(name: str) -> str:
    """Return the title of a method, an output of one or a part of the settings."""
    return _titles().get(name, name)


def method_order(name: str) -> tuple[int, str]:
    """Return the key to sort methods by: what others are judged by, then as registered."""
    return _place(list(_titles()), name)


def _titles() -> dict[str, str]:
    ours = {"training": "training", "base": "base model", "retrain": "retrained"}
    return ours | {FLOOR: "seed floor: retrained again"} | output_titles()


def _place(known: list[str], name: str) -> tuple[int, str]:
    return (known.index(name), "") if name in known else (len(known), name)
