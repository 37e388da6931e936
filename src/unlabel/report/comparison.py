"""The comparison table: a row a figure, a column an output, the best of each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from unlabel.evaluation.summary import Summary
from unlabel.evaluation.trial import AGAIN, CALIBRATED, RETRAINED
from unlabel.report.formatting import percent, score

Path = tuple[str, ...]
REMAIN, GONE = "labels that remain", "removed labels"


class Figure(NamedTuple):
    """A figure, where it stands in an entry of the summary, and how to read it."""

    name: str
    hint: str
    path: Path
    badness: Callable[[float], float] | None = None
    among_filters: bool = False
    write: Callable[[float | None], str] = score
    over: Path | None = None


class Cell(NamedTuple):
    """One figure of one output."""

    text: str
    over: float | None
    best: bool
    start: bool


class Row(NamedTuple):
    """One figure of all outputs."""

    figure: Figure
    cells: list[Cell]


class Group(NamedTuple):
    """Figures of one topic."""

    name: str
    rows: list[Row]


class Column(NamedTuple):
    """An output: as it is and, where there is that, calibrated."""

    name: str
    variants: list[Summary]


class Comparison(NamedTuple):
    """The whole table."""

    columns: list[Column]
    groups: list[Group]


def low(value: float) -> float:
    """The least is best."""
    return value


def high(value: float) -> float:
    """The most is best."""
    return -value


def from_chance(value: float) -> float:
    """What is nearest to one half is best."""
    return abs(value - 0.5)


def _to_retrained(name: str, measure: str, kind: str, hint: str) -> Figure:
    path = (measure, kind)
    return Figure(name, hint, ("to_retrained", *path), low, True, score, ("over_floor", *path))


TOPICS: dict[str, list[Figure]] = {
    "Predictions": [
        Figure(
            f"Accuracy on {REMAIN} (A_R)",
            "Share of a label's inputs predicted as it, mean over labels. Higher is better.",
            ("accuracy", "retained"),
            high,
        ),
        Figure(
            f"Accuracy on {GONE} (A_F)",
            "The same for inputs of removed labels. 0 once the output no longer has them.",
            ("accuracy", "removed"),
            low,
        ),
        Figure(
            f"Changed, inputs of {REMAIN}",
            "Share of inputs whose top label is not the base model's. Less is less to explain, "
            "not better as such.",
            ("changed", "retained"),
            write=percent,
        ),
        Figure(
            f"Changed, inputs of {GONE}",
            "Those that do not change had already been taken for a label that remains.",
            ("changed", "removed"),
            write=percent,
        ),
    ],
    "Ranking": [
        Figure(
            "Coverage",
            "How far down the ranking the true label is at worst, mean over labels, as a share of "
            "the outputs. Lower is better.",
            ("coverage", "retained"),
            low,
        ),
        Figure(
            "Ties",
            "Share of inputs where another label has exactly the true label's confidence. "
            "Ties flatter the coverage.",
            ("ties",),
        ),
    ],
    f"Probabilities on inputs of {REMAIN}": [
        Figure(
            "Log-loss",
            "Mean of \N{MINUS SIGN}log of the true label's probability. Lower is better.",
            ("log_loss",),
            low,
        ),
        Figure(
            "Calibration error",
            "Mean gap between confidence and accuracy, in 15 bins. Lower is better.",
            ("calibration_error",),
            low,
        ),
    ],
    "Distance to the base model": [
        Figure(
            f"KL, inputs of {REMAIN}",
            "KL(output ‖ base model), in nats: how far the outputs moved.",
            ("kl_to_base", "retained"),
        ),
        Figure(
            f"KL, inputs of {GONE}",
            "Large by nature: what the base model was sure of is gone.",
            ("kl_to_base", "removed"),
        ),
    ],
    "Distance to the retrained model": [
        _to_retrained(
            f"KL, inputs of {REMAIN}",
            "kl",
            "retained",
            "KL(output ‖ retrained), in nats. Lower is closer. Below it, the ratio to the seed "
            "floor: 1\N{MULTIPLICATION SIGN} is as close as retraining with another seed.",
        ),
        _to_retrained(
            f"KL, inputs of {GONE}",
            "kl",
            "removed",
            "A retrained model never saw these labels and can only guess.",
        ),
        _to_retrained(
            f"JS, inputs of {REMAIN}",
            "js",
            "retained",
            "Jensen-Shannon divergence, in nats: symmetric, from 0 to .6931. Lower is closer.",
        ),
        _to_retrained(
            f"JS, inputs of {GONE}",
            "js",
            "removed",
            "As above, by the symmetric measure.",
        ),
    ],
    "What the outputs give away": [
        Figure(
            "Attack AUC",
            "How well an attacker tells inputs of removed labels by the output alone: .5 is not at "
            "all, 1 is always. Read it against the retrained model's.",
            ("attack_auc",),
            from_chance,
        ),
    ],
}


def compare(figures: list[Summary]) -> Comparison:
    """Set the outputs side by side; figures that no output has are left out."""
    columns: dict[str, list[Summary]] = {}
    for entry in figures:
        columns.setdefault(entry["output"].removesuffix(CALIBRATED), []).append(entry)
    in_order = [entry for variants in columns.values() for entry in variants]
    groups = []
    for topic, members in TOPICS.items():
        rows = [_row(figure, in_order) for figure in members]
        if there := [row for row in rows if row is not None]:
            groups.append(Group(topic, there))
    return Comparison([Column(*column) for column in columns.items()], groups)


def _row(figure: Figure, entries: list[Summary]) -> Row | None:
    values = [_at(entry, figure.path) for entry in entries]
    if all(value is None for value in values):
        return None
    best = _best(figure, entries, values)
    cells = [
        Cell(
            text=figure.write(value),
            over=_at(entry, figure.over) if figure.over else None,
            best=place in best,
            start=not entry["output"].endswith(CALIBRATED),
        )
        for place, (entry, value) in enumerate(zip(entries, values, strict=True))
    ]
    return Row(figure, cells)


def _best(figure: Figure, entries: list[Summary], values: list[float | None]) -> set[int]:
    """Places of the best values, as rounded on the page; none when all are alike.

    The base model does not compete, as it still has the labels, nor do retrained models in
    distances to one of them.
    """
    if figure.badness is None:
        return set()
    badness = {
        place: round(figure.badness(round(value, 4)), 4)
        for place, (entry, value) in enumerate(zip(entries, values, strict=True))
        if value is not None and place > 0 and not (figure.among_filters and _retrained(entry))
    }
    least = min(badness.values(), default=0.0)
    best = {place for place, value in badness.items() if value == least}
    return best if len(best) < len(badness) else set()


def _retrained(entry: Summary) -> bool:
    return entry["output"].removesuffix(CALIBRATED) in (RETRAINED, AGAIN)


def _at(entry: Summary, path: Path) -> float | None:
    value: Any = entry
    for key in path:
        value = (value or {}).get(key)
    return None if value is None else float(value)
