"""Paired bootstrap intervals of A_R: OSR less another method, on the same test rows.

A_R is a mean over labels of a share of rows, and a test set has so many rows of each label by
design: so rows are drawn anew within each label. Rows of a label on which two methods differ alike
are drawn together, as a multinomial count, which is the same and fast.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from research.arrays import Float64s

OURS = "osr"
DRAWS = 2000
EDGES = (0.025, 0.975)
DECIMALS = 12  # sums are that exact: an interval may end at 0
# The file of a network with intervals over more rows than are stored.
ALL_ROWS = "all-rows.json"

# Which rows each method has right.
Right = dict[str, npt.NDArray[np.bool_]]


class Spread(NamedTuple):
    """A value over seeds; a difference also has its 95% interval over test rows."""

    mean: float
    low: float
    high: float
    seeds: int
    interval: Sequence[float] = ()

    @property
    def excludes_0(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return bool(self.interval) and not self.interval[0] <= 0 <= self.interval[1]


def over_seeds(values: Sequence[float], *interval: float) -> Spread:
    """Summarise the values of several seeds."""
    return Spread(float(np.mean(values)), min(values), max(values), len(values), interval)


def differences(
    seeds: Sequence[Right], truth: npt.NDArray[np.int64], ours: str = OURS
) -> dict[str, Spread]:
    """Compare A_R of OSR or another with that of each method, rows of negative labels left out.

    A result is compared with ours of its seed, or of the first seed that has it where only another
    was retrained. The mean over seeds is taken row by row, before rows are drawn.
    """
    with_ours = [right for right in seeds if ours in right]
    if not with_ours:
        return {}
    kept = truth >= 0
    gains: dict[str, list[Float64s]] = {}
    for right in seeds:
        own = right.get(ours, with_ours[0][ours])
        for method in sorted(right.keys() - {ours}):
            gains.setdefault(method, []).append((own.astype(float) - right[method])[kept])
    labels = truth[kept]
    return {
        method: over_seeds(
            [_over_labels(gain, labels) for gain in found],
            *_interval(np.mean(found, axis=0), labels),
        )
        for method, found in gains.items()
    }


def _over_labels(gain: Float64s, truth: npt.NDArray[np.int64]) -> float:
    return round(float(np.mean([gain[truth == at].mean() for at in np.unique(truth)])), DECIMALS)


def _interval(gain: Float64s, truth: npt.NDArray[np.int64]) -> list[float]:
    """Draw rows within each label again and again, and return the edges of the mean gain."""
    random, labels = np.random.default_rng(0), np.unique(truth)
    total = np.zeros(DRAWS)
    for label in labels:
        values, counts = np.unique(gain[truth == label], return_counts=True)
        drawn = random.multinomial(counts.sum(), counts / counts.sum(), size=DRAWS)
        total += drawn @ values / counts.sum()
    edges: list[float] = np.quantile((total / len(labels)).round(DECIMALS), EDGES).tolist()
    return edges


def read_all_rows(
    results: Path, set: str, architecture: str
) -> tuple[str, dict[str, dict[str, Spread]]]:
    """Read a sentence on the intervals of a network over all rows, and them by forget set."""
    path = results / set / architecture / ALL_ROWS
    if not path.exists():
        return "", {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    found = {
        forget: {method: Spread(**values) for method, values in by_method.items()}
        for forget, by_method in stored["differences"].items()
    }
    return stored["about"], found
