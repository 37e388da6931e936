"""The geometry of the plots: positions and widths in percent.

SVG without a view box takes percentages, so a plot can have any width while its text keeps its
size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from unlabel._typing import Label
from unlabel.evaluation.impact import wilson_intervals
from unlabel.evaluation.summary import Summary
from unlabel.evaluation.trial import BASE, CALIBRATED, RETRAINED
from unlabel.report.axis import Tick, axis, percent, place
from unlabel.report.comparison import INPUTS, value_at

MOST_LABELS = 16
MOST_LISTED = 1000
FEW_ROWS = 10
SMALLEST_POINT, LARGER_POINT = 2.5, 5.0
THRESHOLDS_LISTED = (0.1, 0.25, 0.5, 0.75, 0.9)


Span = tuple[float, float]


class Bar(NamedTuple):
    """A bar that starts at zero."""

    label: Label
    value: float
    width: float


class Dumbbell(NamedTuple):
    """A label's accuracy before and after, with the positions of both and of their intervals."""

    label: Label
    to: Label | None
    fate: str  # removed, split, or nothing if it goes to one label
    rows: int
    before: float | None
    after: float | None
    change: float | None
    before_at: float | None = None
    after_at: float | None = None
    before_span: Span | None = None
    after_span: Span | None = None


class Point(NamedTuple):
    """A bin of confidences: its position, its size on the plot and its values."""

    x: float
    y: float
    radius: float
    few: bool
    confidence: float
    accuracy: float
    rows: int


class Spot(NamedTuple):
    """An output's distance to the retrained model."""

    output: str
    value: float
    over: float | None
    at: float


class Distance(NamedTuple):
    """One measure on one kind of inputs, with the position of the floor on the axis."""

    measure: str
    kind: str
    ticks: list[Tick]
    floor: float | None
    floor_value: float | None
    spots: list[Spot]


def accuracy(summary: Summary) -> dict[str, Any]:
    """Lay out accuracy by label: those that gain or lose most inputs first, lost ones last."""
    removed = {*summary["labels"]["removed"]}
    every = []
    for entry in summary["by_label"]:
        label, to, before, after = (entry[key] for key in ("label", "to", "before", "after"))
        fate = "" if to is not None else "removed" if label in removed else "split"
        change = None if before is None or after is None else after - before
        every.append(Dumbbell(label, to, fate, entry["rows"], before, after, change))
    retained = [label for label in every if not label.fate and label.change is not None]
    retained.sort(key=lambda label: -round(abs(label.change or 0.0) * label.rows, 6))
    lost = sorted((label for label in every if label.fate), key=lambda label: -label.rows)
    changes = [round(label.change or 0.0, 9) for label in retained]
    # Labels that are removed or split only show that they are gone: a few of them are enough.
    drawn, drawn_lost = retained[:MOST_LABELS], lost[: MOST_LABELS // 2]
    more = retained[MOST_LABELS:] + lost[MOST_LABELS // 2 :]
    intervals = [
        interval
        for label in drawn + drawn_lost
        for share in (label.before, label.after)
        if (interval := _interval(share, label.rows))
    ]
    lowest = min((low for low, _ in intervals), default=0.0)
    ticks = axis(lowest, max((high for _, high in intervals), default=1.0))

    def placed(label: Dumbbell) -> Dumbbell:
        return label._replace(
            before_at=place(label.before, ticks),
            after_at=place(label.after, ticks),
            before_span=_span(label.before, label.rows, ticks),
            after_span=_span(label.after, label.rows, ticks),
        )

    return {
        "ticks": ticks,
        "retained": [placed(label) for label in drawn],
        "lost": [placed(label) for label in drawn_lost],
        "more": more[:MOST_LISTED],
        "left_out": len(more[MOST_LISTED:]),
        "better": sum(change > 0 for change in changes),
        "worse": sum(change < 0 for change in changes),
        "same": sum(change == 0 for change in changes),
        "without_rows": len(every) - len(retained) - len(lost),
    }


def _interval(share: float | None, rows: int) -> Span | None:
    """Compute the interval of a share of rows."""
    if share is None or not rows:
        return None if share is None else (share, share)
    low, high = wilson_intervals(min(max(share, 0.0), 1.0) * rows, rows)
    return float(low), float(high)


def _span(share: float | None, rows: int, ticks: list[Tick]) -> Span | None:
    """Place the interval of a share on an axis."""
    interval = _interval(share, rows)
    return interval and (place(interval[0], ticks) or 0.0, place(interval[1], ticks) or 0.0)


def reliability(summary: Summary) -> list[dict[str, Any]]:
    """Lay out the reliability of the base model, the filter and the retrained model."""
    errors = {entry["output"]: entry["calibration_error"] for entry in summary["figures"]}
    shown = summary["shown"]
    order = [BASE, shown, shown + CALIBRATED, RETRAINED, RETRAINED + CALIBRATED]
    diagrams = {name: summary["reliability"].get(name) or () for name in order}
    most = max((bin["rows"] for bins in diagrams.values() for bin in bins), default=1)

    def point(confidence: float, accuracy: float, rows: int) -> Point:
        x, y = percent(confidence), percent(1 - accuracy)
        radius = round(SMALLEST_POINT + LARGER_POINT * math.sqrt(rows / most), 2)
        return Point(x, y, radius, rows < FEW_ROWS, confidence, accuracy, rows)

    return [
        {"output": name, "error": errors[name], "points": [point(**bin) for bin in bins]}
        for name, bins in diagrams.items()
        if bins
    ]


def changed(summary: Summary) -> dict[str, list[Bar]]:
    """Lay out the shares of changed predictions."""
    bars = {}
    for kind in INPUTS:
        shares = [(entry["output"], entry["changed"][kind]) for entry in summary["figures"][1:]]
        bars[kind] = [Bar(name, x, percent(x)) for name, x in shares if x is not None]
    return {kind: drawn for kind, drawn in bars.items() if drawn}


def distances(summary: Summary) -> list[Distance]:
    """Lay out the filters' distances to the retrained model, relative to the floor if known."""
    filters = [e for e in summary["figures"][1:] if not e["output"].startswith(RETRAINED)]
    parts = [(measure, kind) for measure in ("kl", "js") for kind in INPUTS]
    ratios = [value_at(entry, ("over_floor", *part)) for entry in filters for part in parts]
    # One axis for all ratios, so that the floor is at the same position everywhere.
    shared = axis(0.0, max([1.0, *(ratio for ratio in ratios if ratio is not None)]))
    result = []
    for part in parts:
        values = {entry["output"]: value_at(entry, ("to_retrained", *part)) for entry in filters}
        over = {entry["output"]: value_at(entry, ("over_floor", *part)) for entry in filters}
        known = {name: value for name, value in values.items() if value is not None}
        if not known:
            continue
        relative = all(over[name] is not None for name in known)
        ticks = shared if relative else axis(0.0, max(known.values()))
        spots = [
            Spot(name, value, over[name], place(over[name] if relative else value, ticks) or 0.0)
            for name, value in known.items()
        ]
        floor_at = place(1.0, ticks) if relative else None
        floor_value = value_at(summary["floor"], part) if relative else None
        result.append(Distance(*part, ticks, floor_at, floor_value, spots))
    return result


def unknown(summary: Summary) -> dict[str, Any]:
    """Lay out the shares of inputs that unknown catches and loses, over the threshold."""
    curve = summary["unknown"]
    lines = {
        name: " ".join(f"{percent(at['above'])},{percent(1 - at[name])}" for at in curve)
        for name in ("caught", "lost")
        if all(at[name] is not None for at in curve)
    }
    return {"lines": lines, "rows": [at for at in curve if at["above"] in THRESHOLDS_LISTED]}
