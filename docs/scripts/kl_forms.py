"""Counts the cells where OSR's KL to the retrained model is the lowest, by form and epsilon.

The paper does not state epsilon, the least that a probability in a logarithm counts as.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from research.arrays import Floats
from research.grid import Cell
from research.results.files import read_result, stored_cells
from research.tables.judge import ByMetric, Judge, damaged
from research.tables.names import Network
from unlabel import metrics

EPSILONS = (1e-12, 1e-8, 1e-6)
OTHERS = ("unsir", "nhle_cwm")


class Way(NamedTuple):
    """A way to compute the KL: over which entries and inputs, and the least probability."""

    form: str
    kind: str
    epsilon: float


def nearest(results: Path, networks: list[Network]) -> Counter[Way]:
    """Count the cells by way: a cell's values are means over its seeds."""
    cells = stored_cells(results)
    seeds: dict[tuple[Network, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        network = cell.set, cell.architecture
        if network in networks and cell.removed and cell.base in cells:
            seeds[network, cell.forget].append(cell)
    counts: Counter[Way] = Counter()
    for of_cell in seeds.values():
        found = [_leads(results, cell) for cell in of_cell]
        for way in found[0]:
            counts[way] += int(min(np.mean([leads[way] for leads in found], axis=0)) > 0)
    return counts


def _leads(results: Path, cell: Cell) -> dict[Way, list[float]]:
    """Return by how much the KL of the other methods is above OSR's."""
    judge, result = Judge(cell, read_result(results, cell.base)), read_result(results, cell)
    if result.filter is None:
        raise damaged(cell, "the filter is missing")
    goal = metrics.on_all(judge.probabilities(result, "retrain"), judge.retained, judge.labels)
    found: dict[Way, list[float]] = defaultdict(list)

    def means(output: Floats, epsilon: float) -> ByMetric:
        every = metrics.on_all(output, judge.columns(output), judge.labels)
        return judge.means("KL", metrics.kl_divergence(every, goal, epsilon=epsilon))

    for epsilon in EPSILONS:
        ours = means(result.filter.apply(judge.logits), epsilon)
        for other in OTHERS:
            for form, output in judge.forms(judge.probabilities(result, other)).items():
                for kind, value in means(output, epsilon).items():
                    found[Way(form, kind[-1], epsilon)].append(value - ours[kind])
    return found
