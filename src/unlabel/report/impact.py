"""The geometry of the impact: strips of counted rows, the largest moves, and labels by shares."""

from __future__ import annotations

from typing import Any, NamedTuple

from unlabel._typing import Label
from unlabel.evaluation.impact import SHARES
from unlabel.evaluation.summary import Summary
from unlabel.report.axis import Tick, axis, percent, place

MOST_MOVES = 10
MOST_LABELS, MOST_LISTED = 10, 1000
THINNEST = 0.8  # in percent: a part of a strip that has any rows can be seen
SIDES = {"regressed": -1, "corrected": 1}  # of zero


class Part(NamedTuple):
    """Some of the rows of a strip."""

    name: str
    mark: str
    rows: int
    share: float
    at: float
    width: float


class Strip(NamedTuple):
    """Rows of one kind, divided into parts."""

    title: str
    rows: int
    parts: list[Part]


class Move(NamedTuple):
    """Answers that change from one label to another, or to unknown, which is None."""

    old: Label
    new: Label | None
    rows: int
    width: float


class Share(NamedTuple):
    """A share of a label's rows, with its interval and their positions."""

    name: str
    value: float
    low: float
    high: float
    at: float = 0.0
    low_at: float = 0.0
    high_at: float = 0.0


class LabelRow(NamedTuple):
    """A label, the numbers of its rows by kind, and the shares that are drawn."""

    label: Label
    rows: int
    counts: dict[str, int | None]
    shares: list[Share]


def strips(counts: Summary) -> list[Strip]:
    """Divide all rows by their answers and, if true labels are known, those that can be judged."""
    unknown, changed = counts["unknown"], counts["changed"]
    parts = {"another label": changed - (unknown or 0)}
    parts |= {} if unknown is None else {"unknown": unknown}
    every = [_strip("All rows", counts["rows"], parts | {"unchanged": counts["rows"] - changed})]
    if counts["rows_of_retained_labels"]:
        judged = {name: counts[name] for name in ("corrected", "regressed", "neither")}
        title = "Rows of retained labels"
        every.append(_strip(title, counts["rows_of_retained_labels"], judged))
    return every


def _strip(title: str, rows: int, counts: dict[str, int]) -> Strip:
    shares = {name: count / rows for name, count in counts.items()}
    widths = {name: max(percent(share), THINNEST) if share else 0 for name, share in shares.items()}
    total, at, parts = sum(widths.values()), 0.0, []
    for name, count in counts.items():
        width = 100 * widths[name] / total
        mark = name.replace(" ", "-")
        parts.append(Part(name, mark, count, shares[name], round(at, 2), round(width, 2)))
        at += width
    return Strip(title, rows, parts)


def moves(summary: Summary) -> dict[str, Any]:
    """Lay out the largest moves from one answer to another."""
    pairs, others = summary["impact"]["pairs"], summary["impact"]["other_pairs"]
    most = max((pair["rows"] for pair in pairs), default=1)
    every = [
        Move(pair["from"], pair["to"], pair["rows"], percent(pair["rows"] / most)) for pair in pairs
    ]
    return {"drawn": every[:MOST_MOVES], "more": every[MOST_MOVES:], "others": others}


def by_label(summary: Summary) -> dict[str, Any]:
    """Lay out the labels that are corrected or regressed most, with intervals.

    Without true labels, these are the old answers that change most.
    """
    sides = SIDES if summary["truth"] else {"changed": 1}
    every = [_row(entry, sides) for entry in summary["impact"]["by_label"]]
    every.sort(key=lambda row: (not row.shares, -_moved(row, sides)))
    drawn = [row for row in every[:MOST_LABELS] if row.shares and _moved(row, sides)]
    highest = max((share.high for row in drawn for share in row.shares), default=1.0)
    ticks = axis(0.0, min(highest, 1.0))
    more = every[len(drawn) :]
    kinds = [name for name in SHARES if any(row.counts[name] is not None for row in every)]
    return {
        "sides": sides,
        "kinds": kinds,
        "ticks": _both_sides(ticks) if len(sides) > 1 else _with_ends(ticks),
        "drawn": [
            row._replace(shares=[_placed(share, sides, ticks) for share in row.shares])
            for row in drawn
        ],
        "more": more[:MOST_LISTED],
        "left_out": len(more[MOST_LISTED:]),
    }


def _row(entry: Summary, sides: dict[str, int]) -> LabelRow:
    rows = entry["rows"]
    # Inputs of removed and split labels cannot be corrected or regressed.
    is_known = all(entry[name] for name in sides)
    shares = [
        Share(name, entry[name]["rows"] / rows, entry[name]["low"], entry[name]["high"])
        for name in (sides if is_known else ())
    ]
    counts = {name: entry[name] and entry[name]["rows"] for name in SHARES}
    return LabelRow(entry["label"], rows, counts, shares)


def _moved(row: LabelRow, sides: dict[str, int]) -> int:
    return sum(row.counts[name] or 0 for name in sides)


def _placed(share: Share, sides: dict[str, int], ticks: list[Tick]) -> Share:
    def position(value: float) -> float:
        at = place(min(value, ticks[-1].value), ticks) or 0.0
        return round(50 + sides[share.name] * at / 2, 2) if len(sides) > 1 else at

    low_at, high_at = sorted((position(share.low), position(share.high)))
    return share._replace(at=position(share.value), low_at=low_at, high_at=high_at)


def _with_ends(ticks: list[Tick]) -> list[Tick]:
    """Write the ends of an axis alone, in percent: there is little room."""
    last = len(ticks) - 1
    texts = [f"{round(100 * tick.value, 6):g}%" for tick in ticks]
    return [
        tick._replace(text=text if number in (0, last) else "")
        for number, (tick, text) in enumerate(zip(ticks, texts, strict=True))
    ]


def _both_sides(ticks: list[Tick]) -> list[Tick]:
    """Mirror an axis around zero."""
    right = [tick._replace(at=round(50 + tick.at / 2, 2)) for tick in _with_ends(ticks)]
    left = [tick._replace(at=round(100 - tick.at, 2)) for tick in right[:0:-1]]
    return left + right
