"""The geometry of the plots: positions and widths in percent, to be drawn as they are.

Percentages, as SVG without a view box takes them, let a plot be of any width while its
text keeps its size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from unlabel._typing import Label
from unlabel.evaluation.summary import Summary
from unlabel.evaluation.trial import CALIBRATED, RETRAINED
from unlabel.report.axis import Tick, axis, percent, place

MOST_PANELS = 12
MOST_LABELS = 16
MOST_LISTED = 1000
FEWEST_BARS, SMALLEST_SHARE = 3, 0.01
FEW_ROWS = 10
SMALLEST_POINT, LARGER_POINT = 2.5, 5.0
PARTS = [("kl", "retained"), ("kl", "removed"), ("js", "retained"), ("js", "removed")]


class Bar(NamedTuple):
    """A bar from zero on."""

    label: Label
    value: float
    width: float


class Origin(NamedTuple):
    """Where the inputs of one removed label go."""

    label: Label
    rows: int
    bars: list[Bar]
    others: Bar | None


class Destinations(NamedTuple):
    """Where the inputs of each removed label go."""

    panels: list[Origin]
    more: list[Origin]
    left_out: int
    without_rows: int


class Dumbbell(NamedTuple):
    """A label's accuracy before and after, and where the two stand on the axis."""

    label: Label
    rows: int
    before: float | None
    after: float | None
    change: float | None
    removed: bool
    before_at: float | None
    after_at: float | None


class Accuracy(NamedTuple):
    """Accuracy by label."""

    ticks: list[Tick]
    retained: list[Dumbbell]
    removed: list[Dumbbell]
    more: list[Dumbbell]
    left_out: int
    better: int
    worse: int
    same: int
    without_rows: int


class Point(NamedTuple):
    """A bin of confidences: where it stands, how large it is drawn, and its figures."""

    x: float
    y: float
    radius: float
    few: bool
    confidence: float
    accuracy: float
    rows: int


class Reliability(NamedTuple):
    """One output's reliability diagram."""

    output: str
    error: float | None
    points: list[Point]


class Changed(NamedTuple):
    """How many predictions change, by output."""

    kind: str
    rows: int
    bars: list[Bar]


class Spot(NamedTuple):
    """An output's distance to the retrained model."""

    output: str
    value: float
    over: float | None
    at: float


class Distance(NamedTuple):
    """One measure on one kind of inputs; the floor is where it stands on the axis."""

    measure: str
    kind: str
    ticks: list[Tick]
    floor: float | None
    floor_value: float | None
    spots: list[Spot]


def destinations(summary: Summary) -> Destinations:
    """Where the inputs of each removed label go, those with most inputs first."""
    there = [origin for origin in summary["destinations"] if origin["to"]]
    if len(there) > MOST_PANELS:
        there.sort(key=lambda origin: -origin["rows"])
    n_retained = len(summary["labels"]["retained"])

    def origin(entry: dict[str, Any]) -> Origin:
        bars = [
            Bar(to["label"], to["share"], 0.0)
            for place, to in enumerate(entry["to"])
            if to["share"] >= SMALLEST_SHARE or place < FEWEST_BARS
        ]
        others = max(1.0 - sum(bar.value for bar in bars), 0.0)
        n_others = n_retained - len(bars)
        return Origin(
            entry["label"], entry["rows"], bars, Bar(n_others, others, 0.0) if n_others else None
        )

    origins = [origin(entry) for entry in there[: MOST_PANELS + MOST_LISTED]]
    panels, more = origins[:MOST_PANELS], origins[MOST_PANELS:]
    longest = max((bar.value for o in panels for bar in [*o.bars, o.others] if bar), default=1.0)

    def scaled(bar: Bar) -> Bar:
        return bar._replace(width=percent(bar.value / longest))

    return Destinations(
        panels=[
            o._replace(bars=[scaled(b) for b in o.bars], others=o.others and scaled(o.others))
            for o in panels
        ],
        more=more,
        left_out=len(there) - len(origins),
        without_rows=len(summary["destinations"]) - len(there),
    )


def accuracy(summary: Summary) -> Accuracy:
    """Accuracy before and after: labels that gain or lose most inputs first, removed ones last."""
    gone = set(summary["labels"]["removed"])

    def dumbbell(entry: dict[str, Any]) -> Dumbbell:
        before, after = entry["before"], entry["after"]
        change = None if before is None or after is None else after - before
        removed = entry["label"] in gone
        return Dumbbell(entry["label"], entry["rows"], before, after, change, removed, None, None)

    every = [dumbbell(entry) for entry in summary["by_label"]]
    retained = [d for d in every if not d.removed and d.change is not None]
    retained.sort(key=lambda d: -round(abs(d.change or 0.0) * d.rows, 6))
    removed = sorted((d for d in every if d.removed), key=lambda d: -d.rows)
    changes = [round(d.change or 0.0, 9) for d in retained]
    # The removed labels only say that they are gone: a few of them are enough.
    drawn, drawn_removed = retained[:MOST_LABELS], removed[: MOST_LABELS // 2]
    more = retained[MOST_LABELS:] + removed[MOST_LABELS // 2 :]
    shown = [v for d in drawn + drawn_removed for v in (d.before, d.after) if v is not None]
    ticks = axis(min(shown), max(shown)) if shown else axis(0.0, 1.0)

    def placed(d: Dumbbell) -> Dumbbell:
        return d._replace(before_at=place(d.before, ticks), after_at=place(d.after, ticks))

    return Accuracy(
        ticks=ticks,
        retained=[placed(d) for d in drawn],
        removed=[placed(d) for d in drawn_removed],
        more=more[:MOST_LISTED],
        left_out=len(more[MOST_LISTED:]),
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
        same=sum(change == 0 for change in changes),
        without_rows=len(every) - len(retained) - len(removed),
    )


def reliability(summary: Summary) -> list[Reliability]:
    """Reliability of the base model, the filter and the retrained model, with calibration."""
    errors = {entry["output"]: entry["calibration_error"] for entry in summary["figures"]}
    base, shown = summary["figures"][0]["output"], summary["shown"]
    order = [base, shown, shown + CALIBRATED, RETRAINED, RETRAINED + CALIBRATED]
    bins = {name: summary["reliability"].get(name) for name in order}
    most = max((b["rows"] for of in bins.values() for b in of or ()), default=1)

    def point(b: dict[str, Any]) -> Point:
        radius = SMALLEST_POINT + LARGER_POINT * math.sqrt(b["rows"] / most)
        x, y = percent(b["confidence"]), percent(1 - b["accuracy"])
        few = b["rows"] < FEW_ROWS
        return Point(x, y, round(radius, 2), few, b["confidence"], b["accuracy"], b["rows"])

    return [
        Reliability(name, errors[name], [point(b) for b in of]) for name, of in bins.items() if of
    ]


def changes(summary: Summary) -> list[Changed]:
    """How many predictions each output changes; a temperature changes none, so once each."""
    outputs = [e for e in summary["figures"][1:] if not e["output"].endswith(CALIBRATED)]
    result = []
    for kind in ("retained", "removed"):
        bars = [
            Bar(e["output"], e["changed"][kind], percent(e["changed"][kind]))
            for e in outputs
            if e["changed"][kind] is not None
        ]
        if bars:
            result.append(Changed(kind, summary["rows"][f"of_{kind}_labels"], bars))
    return result


def distances(summary: Summary) -> list[Distance]:
    """Distances of the filters to the retrained model, as ratios to the floor where known."""
    filters = [
        e
        for e in summary["figures"][1:]
        if e["to_retrained"] is not None and not e["output"].startswith(RETRAINED)
    ]
    floor = summary["seed_floor"]
    ratios = [e["over_floor"][m][k] for e in filters if e["over_floor"] for m, k in PARTS]
    # One axis for all ratios, so that the floor stands at the same place everywhere.
    shared = axis(0.0, max([1.0, *(ratio for ratio in ratios if ratio is not None)]))
    result = []
    for measure, kind in PARTS:
        known = [e for e in filters if e["to_retrained"][measure][kind] is not None]
        if not known:
            continue
        values = [e["to_retrained"][measure][kind] for e in known]
        over = [e["over_floor"] and e["over_floor"][measure][kind] for e in known]
        relative = None not in over
        lengths = over if relative else values
        ticks = shared if relative else axis(0.0, max(lengths))
        spots = [
            Spot(e["output"], value, ratio, place(length, ticks) or 0.0)
            for e, value, ratio, length in zip(known, values, over, lengths, strict=True)
        ]
        floor_at = place(1.0, ticks) if relative else None
        floor_value = floor[measure][kind] if relative else None
        result.append(Distance(measure, kind, ticks, floor_at, floor_value, spots))
    return result
