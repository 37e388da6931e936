"""The geometry of the plots: positions and widths in percent.

SVG without a view box takes percentages, so a plot can have any width while its text keeps its
size.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from unlabel._labels import label_key
from unlabel._typing import Label
from unlabel.evaluation.summary import Summary
from unlabel.evaluation.trial import BASE, CALIBRATED, RETRAINED
from unlabel.report.axis import Tick, axis, percent, place
from unlabel.report.comparison import INPUTS, value_at

MOST_PANELS = 12
MOST_LABELS = 16
MOST_LISTED = 1000
FEWEST_BARS, SMALLEST_SHARE = 3, 0.01
FEW_ROWS = 10
SMALLEST_POINT, LARGER_POINT = 2.5, 5.0
THRESHOLDS_LISTED = (0.1, 0.25, 0.5, 0.75, 0.9)


class Bar(NamedTuple):
    """A bar that starts at zero."""

    label: Label
    value: float
    width: float


class Origin(NamedTuple):
    """The mean output over the inputs of one retired label."""

    label: Label
    rows: int
    bars: list[Bar]
    others: Bar | None


class Dumbbell(NamedTuple):
    """A label's accuracy before and after, with the positions of both on the axis."""

    label: Label
    to: Label | None
    fate: str  # retired, split, or nothing if it goes to one label
    rows: int
    before: float | None
    after: float | None
    change: float | None
    before_at: float | None = None
    after_at: float | None = None


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


def destinations(summary: Summary) -> dict[str, Any]:
    """Lay out the mean output over the inputs of each retired label, most inputs first."""
    known = [entry for entry in summary["destinations"] if entry["to"]]
    if len(known) > MOST_PANELS:
        known.sort(key=lambda entry: -entry["rows"])
    n_retained = len(summary["labels"]["retained"])

    def origin(entry: dict[str, Any], longest: float = 1.0) -> Origin:
        bars = [
            Bar(to["label"], to["share"], percent(to["share"] / longest))
            for number, to in enumerate(entry["to"])
            if to["share"] >= SMALLEST_SHARE or number < FEWEST_BARS
        ]
        n_others = n_retained - len(bars)
        rest = max(1.0 - sum(bar.value for bar in bars), 0.0)
        others = Bar(n_others, rest, percent(rest / longest)) if n_others else None
        return Origin(entry["label"], entry["rows"], bars, others)

    drawn, listed = known[:MOST_PANELS], known[MOST_PANELS : MOST_PANELS + MOST_LISTED]
    panels = [origin(entry) for entry in drawn]
    bars = [bar for panel in panels for bar in [*panel.bars, panel.others] if bar]
    longest = max((bar.value for bar in bars), default=1.0)
    return {
        "panels": [origin(entry, longest) for entry in drawn],
        "more": [origin(entry) for entry in listed],
        "left_out": len(known) - len(drawn) - len(listed),
        "without_rows": len(summary["destinations"]) - len(known),
    }


def accuracy(summary: Summary) -> dict[str, Any]:
    """Lay out accuracy by label: those that gain or lose most inputs first, lost ones last."""
    retired = {label_key(label) for label in summary["labels"]["removed"]}
    every = []
    for entry in summary["by_label"]:
        label, to, before, after = (entry[key] for key in ("label", "to", "before", "after"))
        fate = "" if to is not None else "retired" if label_key(label) in retired else "split"
        change = None if before is None or after is None else after - before
        every.append(Dumbbell(label, to, fate, entry["rows"], before, after, change))
    retained = [label for label in every if not label.fate and label.change is not None]
    retained.sort(key=lambda label: -round(abs(label.change or 0.0) * label.rows, 6))
    lost = sorted((label for label in every if label.fate), key=lambda label: -label.rows)
    changes = [round(label.change or 0.0, 9) for label in retained]
    gains = [(label.change or 0.0) * label.rows for label in retained]
    # Labels that are retired or split only show that they are gone: a few of them are enough.
    drawn, drawn_lost = retained[:MOST_LABELS], lost[: MOST_LABELS // 2]
    more = retained[MOST_LABELS:] + lost[MOST_LABELS // 2 :]
    both = [value for label in drawn + drawn_lost for value in (label.before, label.after)]
    shown = [value for value in both if value is not None]
    ticks = axis(min(shown), max(shown)) if shown else axis(0.0, 1.0)

    def placed(label: Dumbbell) -> Dumbbell:
        before_at, after_at = place(label.before, ticks), place(label.after, ticks)
        return label._replace(before_at=before_at, after_at=after_at)

    return {
        "ticks": ticks,
        "retained": [placed(label) for label in drawn],
        "lost": [placed(label) for label in drawn_lost],
        "more": more[:MOST_LISTED],
        "left_out": len(more[MOST_LISTED:]),
        "better": sum(change > 0 for change in changes),
        "worse": sum(change < 0 for change in changes),
        "same": sum(change == 0 for change in changes),
        "net_right": round(sum(gains)) if gains else None,
        "without_rows": len(every) - len(retained) - len(lost),
    }


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
    """Lay out the shares of changed predictions; those of calibrated outputs are the same."""
    outputs = [e for e in summary["figures"][1:] if not e["output"].endswith(CALIBRATED)]
    bars = {}
    for kind in INPUTS:
        shares = [(entry["output"], entry["changed"][kind]) for entry in outputs]
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
