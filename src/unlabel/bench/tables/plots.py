"""The plots of the page as places on axes: a panel a forget set, a line a method."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from unlabel.bench.grid import FORGET_SETS
from unlabel.bench.tables import captions
from unlabel.bench.tables.aggregate import FLOOR, Spread
from unlabel.bench.tables.published import FORGET, Key, paper_figures
from unlabel.report.axis import Tick, axis, place
from unlabel.report.formatting import ratio, score

MARKS = {"base": "base", "retrain": "goal", "osr": "osr", "mask": "mask"}
# These give what mask gives.
NOT_PLOTTED = ("linear_filtration_naive", "linear_filtration_normalization")


class Spot(NamedTuple):
    """A method's figure, filled, with its range over seeds, and another figure, hollow."""

    name: str
    mark: str
    text: str
    at: float | None
    low: float | None
    high: float | None
    other: str
    other_at: float | None


class Panel(NamedTuple):
    """One forget set; the line is where the seed floor is."""

    forget: str
    labels: int
    ticks: list[Tick]
    spots: list[Spot]
    line: float | None


class Plots(NamedTuple):
    """The plots of one network; without a second retraining there are no divergences."""

    title: str
    accuracy: list[Panel]
    divergence: list[Panel]


Spreads = dict[Key, Spread]
Pair = tuple[str, Spread, float | None]


def plots(spreads: Spreads, set: str, architecture: str) -> Plots:
    """A_R beside the paper's, and JS over its floor, of one network."""
    methods = [name for name in captions.METHODS if name not in (*NOT_PLOTTED, FLOOR)]
    paper = paper_figures()

    def pairs(metric: str, other: Callable[[Key], float | None]) -> dict[str, list[Pair]]:
        keys = [
            Key(set, architecture, method, "", metric, forget)
            for forget in FORGET
            for method in methods
        ]
        there = [key for key in keys if key in spreads]
        return {
            forget: [
                (key.method, spreads[key], other(key)) for key in there if key.forget == forget
            ]
            for forget in FORGET
        }

    def printed(key: Key) -> float | None:
        return float(paper[key]) if key in paper else None

    def on_removed(key: Key) -> float | None:
        of_removed = spreads.get(key._replace(metric="JS_over_floor_F"))
        return None if of_removed is None else of_removed.mean

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
    """Panels on one axis where there is a floor, else on an axis each.

    Accuracies lie close together, and the axis of one panel would hide what another shows.
    """
    together = axis(0.0, max(_values(forget_sets.values()), default=1.0))
    axes = {
        forget: together if floor else axis(min(values), max(values))
        for forget, pairs in forget_sets.items()
        if (values := _values([pairs]))
    }
    return [
        Panel(
            forget,
            len(FORGET_SETS[set][int(forget[1:])]),
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
