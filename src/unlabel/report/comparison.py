"""The comparison table: one row per metric, one column per output, the best of each row marked."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from unlabel.evaluation.summary import Summary
from unlabel.evaluation.trial import AGAIN, BASE, CALIBRATED, RETRAINED
from unlabel.report.formatting import NOTHING, count, percent, score

Path = tuple[str, ...]
# How bad a value is if the lowest, or the highest, is best.
low, high = operator.pos, operator.neg
INPUTS = {"retained": "inputs of retained labels", "removed": "inputs of removed labels"}


class Metric(NamedTuple):
    """A metric, the path to its value in an entry of the summary, and how to read it."""

    name: str
    hint: str
    path: Path
    badness: Callable[[float], float] | None = None
    write: Callable[[float | None], str] = score


class Cell(NamedTuple):
    """The value of one metric for one output."""

    text: str
    over: float | None
    best: bool
    start: bool


class Comparison(NamedTuple):
    """The table: outputs as they are and calibrated, and by topic the cells of each metric."""

    columns: dict[str, list[Summary]]
    groups: dict[str, dict[Metric, list[Cell]]]


def rows(number: float | None) -> str:
    """Write a number of rows."""
    return NOTHING if number is None else count(int(number))


def _by_kind(name: str, path: Path, retained: str, removed: str, **options: Any) -> list[Metric]:
    """Define a metric on both kinds of inputs, each with its own hint."""
    return [
        Metric(f"{name}, {INPUTS['retained']}", retained, (*path, "retained"), **options),
        Metric(f"{name}, {INPUTS['removed']}", removed, (*path, "removed"), **options),
    ]


TOPICS: dict[str, list[Metric]] = {
    "Predictions": [
        Metric(
            "Accuracy on retained labels (A_R)",
            "Share of inputs predicted as their own label: a mean over labels, each of which "
            "counts the same. Higher is better.",
            ("accuracy", "retained"),
            high,
        ),
        Metric(
            "Rows of retained labels that are right",
            "The plain share of rows, in which labels with many rows count more. Higher is better.",
            ("share_right", "retained"),
            high,
            write=percent,
        ),
        Metric(
            "Accuracy on removed labels (A_F)",
            "The same for inputs of removed labels. 0 once the output no longer has them.",
            ("accuracy", "removed"),
            low,
        ),
        Metric(
            "Corrected",
            "Rows of retained labels that were wrong before and are right. Higher is better.",
            ("impact", "corrected"),
            high,
            write=rows,
        ),
        Metric(
            "Regressed",
            "Rows of retained labels that were right before and are not. Lower is better.",
            ("impact", "regressed"),
            low,
            write=rows,
        ),
        *_by_kind(
            "Changed",
            ("changed",),
            "Share of inputs whose top label is not the base model's. Less is less to explain, "
            "not better as such.",
            "Those that do not change had already been taken for a retained label.",
            write=percent,
        ),
    ],
    "Ranking": [
        Metric(
            "Coverage",
            "How far down the ranking the true label is at worst, mean over labels, as a share of "
            "the outputs. Lower is better.",
            ("coverage", "retained"),
            low,
        ),
        Metric(
            "Ties",
            "Share of inputs where another label has exactly the true label's confidence. "
            "Ties flatter the coverage.",
            ("ties",),
        ),
    ],
    f"Probabilities on {INPUTS['retained']}": [
        Metric(
            "Log-loss",
            "Mean of \N{MINUS SIGN}log of the true label's probability. Lower is better.",
            ("log_loss",),
            low,
        ),
        Metric(
            "Calibration error",
            "Mean gap between confidence and accuracy, in 15 bins. Lower is better.",
            ("calibration_error",),
            low,
        ),
    ],
    "Distance to the base model": _by_kind(
        "KL",
        ("kl_to_base",),
        "KL(output ‖ base model), in nats: how far the outputs moved.",
        "Large by nature: the label that the base model was sure of is gone.",
    ),
    "Distance to the retrained model": [
        *_by_kind(
            "KL",
            ("to_retrained", "kl"),
            "KL(output ‖ retrained), in nats. Lower is closer. Below it, the ratio to the floor: "
            "1\N{MULTIPLICATION SIGN} is as close as a second retrained model.",
            "A retrained model never saw these labels and can only guess.",
            badness=low,
        ),
        *_by_kind(
            "JS",
            ("to_retrained", "js"),
            "Jensen-Shannon divergence, in nats: symmetric, from 0 to .6931. Lower is closer.",
            "As above, by the symmetric measure.",
            badness=low,
        ),
    ],
}
METRICS = {metric.path: metric for metrics in TOPICS.values() for metric in metrics}


def compare(figures: Sequence[Summary]) -> Comparison:
    """Set the outputs side by side, without the metrics that no output has."""
    columns: dict[str, list[Summary]] = {}
    for entry in figures:
        columns.setdefault(_column(entry), []).append(entry)
    in_order = [entry for variants in columns.values() for entry in variants]
    groups: dict[str, dict[Metric, list[Cell]]] = {}
    for topic, metrics in TOPICS.items():
        for metric in metrics:
            if any(value_at(entry, metric.path) is not None for entry in in_order):
                groups.setdefault(topic, {})[metric] = _cells(metric, in_order)
    return Comparison(columns, groups)


def _column(entry: Summary) -> str:
    name: str = entry["output"].removesuffix(CALIBRATED)
    return name


def _cells(metric: Metric, entries: Sequence[Summary]) -> list[Cell]:
    best, (key, *rest) = best_outputs(metric, entries), metric.path
    return [
        Cell(
            text=metric.write(value_at(entry, metric.path)),
            over=value_at(entry, ("over_floor", *rest)) if key == "to_retrained" else None,
            best=entry["output"] in best,
            start=not number or _column(entries[number - 1]) != _column(entry),
        )
        for number, entry in enumerate(entries)
    ]


def best_outputs(metric: Metric, entries: Sequence[Summary]) -> set[str]:
    """Find the outputs with the best value, as rounded on the page; none if all are alike."""
    if metric.badness is None:
        return set()
    values = competing_values(metric, entries)
    badness = {output: round(metric.badness(round(values[output], 4)), 4) for output in values}
    least = min(badness.values(), default=0.0)
    best = {output for output in badness if badness[output] == least}
    return best if len(best) < len(badness) else set()


def competing_values(metric: Metric, entries: Sequence[Summary]) -> dict[str, float]:
    """Find the values that compete for the best.

    The base model does not compete, as it still has the labels, nor do retrained models in
    distances to one of them.
    """
    excluded = {BASE, RETRAINED, AGAIN} if metric.path[0] == "to_retrained" else {BASE}
    values = {entry["output"]: value_at(entry, metric.path) for entry in entries}
    return {
        output: value
        for output, value in values.items()
        if value is not None and output.removesuffix(CALIBRATED) not in excluded
    }


def value_at(entry: Summary, path: Path) -> float | None:
    """Look up a value of one output, None if it has none."""
    value: Any = entry
    for key in path:
        value = (value or {}).get(key)
    return None if value is None else float(value)
