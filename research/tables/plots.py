"""The plots of the page as positions on axes: one panel per forget set, one line per method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import NamedTuple

from research.registry import DATASETS
from research.tables import captions
from research.tables.aggregate import FLOOR, Spread
from research.tables.axis import Tick, axis, place
from research.tables.published import FORGET, Key, paper_values
from research.tables.writing import ratio, score

MARKS = {"base": "base", "retrain": "goal", "osr": "osr", "mask": "mask"}
# These equal mask.
NOT_PLOTTED = ("linear_filtration_naive", "linear_filtration_normalization")


class Spot(NamedTuple):
    """A method's value (filled) with its range over seeds, and another value (hollow)."""

    name: str
    mark: str
    text: str
    at: float | None
    low: float | None
    high: float | None
    other: str
    other_at: float | None


class Panel(NamedTuple):
    """The plot of one forget set; the line marks the seed floor."""

    forget: str
    labels: int
    ticks: list[Tick]
    spots: list[Spot]
    line: float | None


class Plots(NamedTuple):
    """The plots of one network; divergences need a second retraining."""

    title: str
    accuracy: list[Panel]
    divergence: list[Panel]


Spreads = dict[Key, Spread]
Pair = tuple[str, Spread, float | None]


def plots(spreads: Spreads, set: str, architecture: str) -> Plots:
    """Lay out the plots of one network: A_R beside the paper's, and JS over its floor."""
    methods = [name for name in captions.METHODS if name not in (*NOT_PLOTTED, FLOOR)]
    paper = paper_values()

    def pairs(metric: str, other: Callable[[Key], float | None]) -> dict[str, list[Pair]]:
        found: dict[str, list[Pair]] = {forget: [] for forget in FORGET}
        for forget, method in product(FORGET, methods):
            key = Key(set, architecture, method, "", metric, forget)
            if key in spreads:
                found[forget].append((method, spreads[key], other(key)))
        return found

    def printed(key: Key) -> float | None:
        return float(paper[key]) if key in paper else None

    def on_removed(key: Key) -> float | None:
        spread = spreads.get(key._replace(metric="JS_over_floor_F"))
        return None if spread is None else spread.mean

    return Plots(
        captions.network(set, architecture),
        _panels(set, pairs("A_R", printed), score, floor=False),
        _panels(set, pairs("JS_over_floor_R", on_removed), ratio, floor=True),
    )


def _panels(
    set: str,
    forget_sets: dict[str, list[Pair]],
    write: Callable[[float | None], str],
    *,
    floor: bool,
) -> list[Panel]:
    """Lay out panels: with a floor on a shared axis, otherwise each on its own.

    Accuracies lie close together: on a shared axis their differences could not be seen.
    """
    shared = axis(0.0, max(_values(forget_sets.values()), default=1.0))
    axes = {
        forget: shared if floor else axis(min(values), max(values))
        for forget, pairs in forget_sets.items()
        if (values := _values([pairs]))
    }
    return [
        Panel(
            forget,
            len(DATASETS[set].forget[int(forget[1:]) - 1]),
            (ticks := axes[forget]),
            [
                Spot(
                    captions.METHODS[method],
                    MARKS.get(method, "rival"),
                    write(spread.mean),
                    place(spread.mean, ticks),
                    place(spread.low, ticks),
                    place(spread.high, ticks),
                    "" if other is None else write(other),
                    place(other, ticks),
                )
                for method, spread, other in pairs
            ],
            place(1.0, ticks) if floor else None,
        )
        for forget, pairs in forget_sets.items()
        if pairs
    ]


def _values(panels: Iterable[list[Pair]]) -> list[float]:
    return [
        value
        for pairs in panels
        for _, spread, other in pairs
        for value in (spread.low, spread.high, other)
        if value is not None
    ]
