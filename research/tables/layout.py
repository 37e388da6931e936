"""The tables as data: sections, tables and rows, to be written as Markdown or HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from research.grid import BASE
from research.tables import captions
from research.tables.aggregate import FLOOR, GRID_TOLERANCE, SAME_AS_MASK, Gathered, Spread
from research.tables.published import COMPONENTS as PAPER_COMPONENTS
from research.tables.published import FORGET, Key, paper_values
from research.tables.writing import NOTHING, percent, ratio, score
from unlabel import metrics

# In the order of the work, the total last.
COMPONENTS = (*(c for c in dict.fromkeys(PAPER_COMPONENTS.values()) if c != "total"),)
COMPONENTS += ("filter", "head", "total")
# Values this close to the best count as equal to it: seeds differ by more.
BEST_MARGIN = 0.0005


def low(value: float) -> float:
    """Rate the lowest value best."""
    return value


def high(value: float) -> float:
    """Rate the highest value best."""
    return -value


def from_chance(value: float) -> float:
    """Rate the value nearest to one half best."""
    return abs(value - 0.5)


class Metric(NamedTuple):
    """A metric: its name, its heading, and how its values are ranked and written."""

    name: str
    text: str
    badness: Callable[[float], float] | None = None
    write: Callable[[float | None], str] = score
    retrained_competes: bool = False


class Entry(NamedTuple):
    """One cell: our value, its spread over seeds, and the paper's value."""

    ours: str
    spread: str
    paper: str
    best: bool


class Row(NamedTuple):
    """The values of one method over the forget sets."""

    name: str
    component: str
    entries: list[Entry]


@dataclass(frozen=True)
class Table:
    """The table of one network, with the notes above it."""

    set: str
    architecture: str
    title: str
    notes: list[str]
    groups: dict[str, list[Row]]


@dataclass(frozen=True)
class Section:
    """One table of the paper, network by network."""

    name: str
    title: str
    about: str
    tables: list[Table]


def seconds(value: float | None) -> str:
    """Write seconds with three digits, down to a tenth of a millisecond.

    Examples
    --------
    >>> seconds(35.123), seconds(0.00412), seconds(0.0000012)
    ('35.1', '.0041', '<.0001')
    """
    if value is None or value < 0.1:
        return score(value)
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}".removeprefix("0")


def _score(value: float | None) -> str:
    return "∞" if value is not None and math.isinf(value) else score(value)


class _Kind(NamedTuple):
    name: str
    title: str
    about: str
    metrics: tuple[Metric, ...]


def _on_both_inputs(
    name: str,
    text: str,
    on_removed: Callable[[float], float] = low,
    write: Callable[[float | None], str] = score,
) -> tuple[Metric, Metric]:
    """Make the two metrics of a divergence; on inputs of retained labels, lower is better."""
    arrow = "↓" if on_removed is low else "↑"
    return (
        Metric(f"{name}_R", f"{text} ↓, inputs of retained labels", low, write),
        Metric(f"{name}_F", f"{text} {arrow}, inputs of removed labels", on_removed, write),
    )


KINDS = (
    _Kind(
        "accuracy",
        "Accuracy",
        "The share of a label's inputs that are predicted as that label: A_R is the mean over "
        "retained labels, A_F over removed ones. A_F is 0 by construction if the output has no "
        "removed entries.",
        (
            Metric("A_R", "A_R ↑", high, retrained_competes=True),
            Metric("A_F", "A_F ↓", low, retrained_competes=True),
        ),
    ),
    _Kind(
        "coverage",
        "Coverage",
        "The worst rank of the true label among a label's inputs, counted from 0, divided by the "
        "number of outputs; mean over labels. Infinite for labels that are no longer in the "
        "output. Ties, the share of inputs of retained labels where another entry equals that of "
        "the true label, flatter it; storing logits as multiples of 1/64 causes some.",
        (
            Metric("Cov_R", "Cov_R ↓", low, _score, retrained_competes=True),
            Metric("Cov_F", "Cov_F ↑", high, _score, retrained_competes=True),
            Metric("ties", "Ties", None, percent),
        ),
    ),
    _Kind(
        "kl_retrained",
        "KL to the retrained model",
        "KL(method ‖ retrained model), in nats, mean over inputs. Outputs that keep the removed "
        "entries are compared on the retained ones, divided by their sum. The seed floor is the KL "
        "of a second model, retrained with another seed. The paper has no floor.",
        _on_both_inputs("KL_retrained", "KL"),
    ),
    _Kind(
        "kl_base",
        "KL to the base model",
        "KL(method ‖ base model), in nats, mean over inputs. Removed entries of the method count "
        "as 0, and the others are divided by their sum. The arrows are the paper's: outputs should "
        "change little on retained labels and much on removed ones.",
        _on_both_inputs("KL_base", "KL", on_removed=high),
    ),
    _Kind(
        "beside",
        "Metrics that the paper does not have",
        "Jensen-Shannon divergence from the retrained model, in nats, from 0 to .6931, and the "
        "same divided by its seed floor: 1 is as close as two retrainings are to each other. "
        "Log-loss and expected calibration error (15 bins) on inputs of retained labels. Attack "
        "AUC: how well a logistic regression on the outputs tells inputs of removed labels from "
        "others, .5 being not at all; compare it with the retrained model's.",
        (
            *_on_both_inputs("JS_retrained", "JS"),
            *_on_both_inputs("JS_over_floor", "JS over floor", write=ratio),
            Metric("log_loss", "Log-loss ↓", low, retrained_competes=True),
            Metric("ECE", "Calibration error ↓", low, retrained_competes=True),
            Metric("attack_auc", "Attack AUC, nearest .5", from_chance),
        ),
    ),
    _Kind(
        "time",
        "Processing time",
        "Wall-clock seconds per component, with the device synchronised. Only totals compete.",
        (Metric("seconds", "Seconds ↓", low, seconds, retrained_competes=True),),
    ),
)


def legend(gathered: Gathered) -> str:
    """Explain how to read the tables in Markdown."""
    return (
        "Our value, ± half the range if there are several seeds, and the paper's in parentheses. "
        "F1 to F4 are the sets of removed labels. Our best value is bold, as are those within "
        f"{score(BEST_MARGIN)} of it, unless all are; the base model and the seed floor do not "
        f"compete, nor does the retrained model in distances and attacks. {precision(gathered)}"
    )


def precision(gathered: Gathered) -> str:
    """Describe the smallest probability in logarithms and the effect of storing logits."""
    note = (
        f"Logarithms are natural, and probabilities in them count as at least {metrics.EPSILON:g}."
    )
    if gathered.rounding:
        most = [f"{name} by {score(gathered.rounding[name])}" for name in sorted(gathered.rounding)]
        note += (
            " Where all test images are judged, rounding the logits for storage changed "
            f"{', '.join(most)} at most; Cov_R, a worst case, can depend on a single image."
        )
    if any(key.method.endswith(SAME_AS_MASK) for key in gathered.spreads):
        note += (
            " Linear filtration's naive and normalization variants are mask except for the last "
            f"digits; their logits within {GRID_TOLERANCE:g} of the grid of stored logits are put "
            "on it, so that they have the same ties as mask."
        )
    return note


def build_sections(gathered: Gathered) -> list[Section]:
    """Lay out all tables, leaving out empty ones."""
    tasks = (cell for cell in gathered.facts if cell.forget != BASE)
    networks = {(cell.set, cell.architecture) for cell in tasks}
    order = {pair: i for i, pair in enumerate(product(captions.SETS, captions.ARCHITECTURES))}
    in_order = sorted(networks, key=lambda network: (order.get(network, len(order)), network))
    result = []
    for kind in KINDS:
        tables = [_table(gathered, kind, *network) for network in in_order]
        result.append(Section(kind.name, kind.title, kind.about, [t for t in tables if t.groups]))
    return [section for section in result if section.tables]


def _table(gathered: Gathered, kind: _Kind, set: str, architecture: str) -> Table:
    facts = {
        cell: cell_facts
        for cell, cell_facts in gathered.facts.items()
        if (cell.set, cell.architecture) == (set, architecture)
    }
    notes = gathered.notes[set, architecture][kind.name] + captions.differences(set, facts)
    if kind.name == "accuracy":
        notes += captions.condition(facts.values())
    if kind.name == "time":
        notes += captions.about_seconds(set, facts.values())
    groups = {
        metric.text: rows
        for metric in kind.metrics
        if (rows := _rows(gathered, metric, set, architecture))
    }
    return Table(set, architecture, captions.network(set, architecture), notes, groups)


def _rows(gathered: Gathered, metric: Metric, set: str, architecture: str) -> list[Row]:
    """Make a row per method and component with a value, ours or the paper's; none without ours."""
    ours, paper = gathered.spreads, paper_values()

    def belongs(key: Key) -> bool:
        return (key.set, key.architecture, key.metric) == (set, architecture, metric.name)

    if not any(map(belongs, ours)):
        return []
    order = list(captions.METHODS)
    lines = sorted(
        {(key.method, key.component) for key in (*ours, *paper) if belongs(key)},
        key=lambda line: (order.index(line[0]), COMPONENTS.index(line[1])),
    )
    columns = []
    for forget in FORGET:
        keys = [Key(set, architecture, m, c, metric.name, forget) for m, c in lines]
        best = _best(metric, [(key, ours.get(key)) for key in keys])
        columns.append([_entry(metric, ours.get(k), paper.get(k), k in best) for k in keys])
    return [
        Row(captions.METHODS[method], component, [*entries])
        for (method, component), *entries in zip(lines, *columns, strict=True)
    ]


def _best(metric: Metric, spreads: list[tuple[Key, Spread | None]]) -> set[Key]:
    """Find the keys whose mean is within `BEST_MARGIN` of the best; none if that is all of them.

    The base model does not compete, as it still has the labels, nor does the floor, nor a
    retrained model in distances and attacks, which are measured against it.
    """
    if metric.badness is None:
        return set()
    excluded = {"base", FLOOR} | (set() if metric.retrained_competes else {"retrain"})
    badness = {
        key: metric.badness(spread.mean)
        for key, spread in spreads
        if spread is not None and key.method not in excluded and key.component in ("", "total")
    }
    least = min(badness.values(), default=0.0)
    best = {key for key, value in badness.items() if value == least or value < least + BEST_MARGIN}
    return best if len(best) < len(badness) else set()


def _entry(metric: Metric, ours: Spread | None, paper: str | None, best: bool) -> Entry:
    text, spread = NOTHING, ""
    if ours is not None:
        text = metric.write(ours.mean)
        if ours.low < ours.high:
            spread = f"±{metric.write((ours.high - ours.low) / 2)}"
    return Entry(text, spread, _as_ours(paper) if paper else "", best)


def _as_ours(printed: str) -> str:
    """Rewrite a value of the paper in our style, without the zero before the point."""
    if printed == "0.0":
        return "0"
    return "∞" if printed == "inf" else re.sub(r"^(<?)0\.", r"\1.", printed)
