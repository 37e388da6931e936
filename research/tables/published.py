"""What the OSR paper prints, under the names that the experiments use."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from research.grid import Cell
from research.registry import DATASETS

FORGET = ("F1", "F2", "F3", "F4")


class Key(NamedTuple):
    """The identity of a value."""

    set: str
    architecture: str
    method: str
    component: str
    metric: str
    forget: str


def _lines(name: str) -> list[dict[str, str]]:
    text = (files("research.tables") / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def paper_values() -> dict[Key, str]:
    """Read all values of the paper's tables, as printed there; one is ``<0.0001``.

    `inf` is the coverage of labels that are no longer in the output.

    Examples
    --------
    >>> paper_values()[Key("cifar10", "resnet18", "osr", "", "A_R", "F1")]
    '0.9352'
    """
    return {
        Key._make([*(line[name] for name in Key._fields[:-1]), forget]): line[forget]
        for line in _lines("paper-tables.csv")
        for forget in FORGET
    }


@cache
def paper_settings() -> dict[tuple[str, str, str], str]:
    """Read the settings that the paper states, by set, part and name.

    Examples
    --------
    >>> paper_settings()["faces", "unsir", "noise_penalty"]
    '0.001'
    """
    return {
        (set, line["part"], line["setting"]): line["value"]
        for line in _lines("paper-settings.csv")
        for set in line["sets"].split()
    }


def as_in_paper(cell: Cell) -> bool:
    """Whether a cell removes the labels that the paper removes, so that values compare."""
    forget = DATASETS[cell.set].forget if cell.set in DATASETS else ()
    return (cell.forget, cell.removed) in zip(FORGET, map(tuple, forget), strict=False)
