"""Writes the table of the paper's claims and what became of them, from the committed results.

PYTHONPATH=. python docs/scripts/verdict.py
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import reproduced
from research.grid import BASE
from research.tables.aggregate import Gathered, gather
from research.tables.intervals import Spread
from research.tables.names import Network, in_order
from research.tables.published import FORGET, Key, paper_values

Values = npt.NDArray[np.float64]

FILE = reproduced.DOCS / "tables" / "verdict.md"
NETWORKS = in_order({key[:2] for key in paper_values()})
CIFAR10, VIT = slice(0, 2), NETWORKS.index(("faces", "vit_b_16"))
LARGE = slice(2, None)  # the networks for 100 labels
TRAINED = ("unsir", "nhle_cwm")
ALL_ENTRIES = "all entries"


class Ours:
    """Our values by network and set of labels; differences also have intervals."""

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered

    def __call__(self, method: str, metric: str, component: str = "") -> Values:
        """Return a method's values of a metric."""
        return np.array([[s.mean for s in row] for row in self.rows(method, metric, component)])

    def rows(self, method: str, metric: str, component: str = "") -> list[list[Spread]]:
        """Return a method's values of a metric, with their spread."""
        spreads = self.gathered.spreads
        return [
            [spreads[Key(*network, method, component, metric, forget)] for forget in FORGET]
            for network in NETWORKS
        ]

    def apart(self, method: str) -> tuple[int, int]:
        """Count the intervals of OSR less a method that are above 0, and below."""
        found = [s for row in self.rows(method, "A_R_less") for s in row if s.excludes_0]
        above = sum(spread.mean > 0 for spread in found)
        return above, len(found) - above

    def base(self, network: Network) -> float:
        """Return the base model's accuracy over all labels and all test images."""
        return float(
            np.mean(
                [
                    facts["full_precision"]["base"]["A_R"]
                    for cell, facts in self.gathered.facts.items()
                    if (cell.set, cell.architecture, cell.forget) == (*network, BASE)
                ]
            )
        )


def printed(method: str, metric: str, component: str = "") -> Values:
    """Return what the paper prints."""
    values = paper_values()
    return np.array(
        [
            [
                float(values[Key(*network, method, component, metric, forget)].lstrip("<"))
                for forget in FORGET
            ]
            for network in NETWORKS
        ]
    )


def short(value: float, digits: int = 2) -> str:
    """Write a value without the zero before the point."""
    least = 10.0**-digits
    if 0 < value < least / 2:
        return f"<{least:.{digits}f}".replace("0.", ".")
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def between(values: Values, digits: int = 2) -> str:
    """Write the least and the largest value."""
    return f"{short(values.min(), digits)} to {short(values.max(), digits)}"


def by_size(values: Values) -> str:
    """Write the range on CIFAR-10 and on the sets of 100 labels."""
    return f"{between(values[CIFAR10])}; {between(values[LARGE])}"


def base_models(accuracy: list[float]) -> str:
    """Write the accuracies of the two networks of each set."""
    first, second, *rest = (short(value) for value in accuracy)
    return f"{first} {second}; {rest[0]} {rest[1]}; {rest[2]} {rest[3]}"


def rows(gathered: Gathered) -> list[tuple[str, str, str, str]]:
    """Return each claim, whether we could reproduce it, our numbers and the paper's."""
    ours = Ours(gathered)
    cells = len(NETWORKS) * len(FORGET)

    def lead(source: Ours | type, method: str = "retrain") -> Values: ...

    return []
