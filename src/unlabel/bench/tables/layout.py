"""The tables as data: sections, tables and rows, from which Markdown and HTML are written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from unlabel import metrics
from unlabel.bench.grid import BASE
from unlabel.bench.tables import captions
from unlabel.bench.tables.aggregate import FLOOR, NEXT_TO_GRID, SAME_AS_MASK, Gathered, Spread
from unlabel.bench.tables.published import COMPONENTS as PAPER_COMPONENTS
from unlabel.bench.tables.published import FORGET, Key, paper_figures
from unlabel.report.comparison import from_chance, high, low
from unlabel.report.formatting import NOTHING, percent, ratio, score

# As a method goes through them, the total last.
COMPONENTS = (*(c for c in dict.fromkeys(PAPER_COMPONENTS.values()) if c != "total"),)
COMPONENTS += ("filter", "head", "total")
# Seeds differ by more. It is half of a unit in the third decimal.
ALIKE = 0.0005
REMAIN, GONE = "inputs of labels that remain", "inputs of removed labels"


class Metric(NamedTuple):
    """A row of figures: its name, how it is written, and what is better."""

    name: str
    text: str
    badness: Callable[[float], float] | None = None
    write: Callable[[float | None], str] = score
    retrained_competes: bool = False


class Entry(NamedTuple):
    """One figure: ours, how far seeds lie from the mean, the paper's."""

    ours: str
    spread: str
    paper: str
    best: bool


class Row(NamedTuple):
    """A figure of one method over the forget sets."""

    name: str
    component: str
    entries: list[Entry]


@dataclass(frozen=True)
class Table:
    """A table of one network, and what is to be known of it."""

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
    """Seconds with three digits, down to a tenth of a millisecond.

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


KINDS = (
    _Kind(
        "accuracy",
        "Accuracy",
        "The share of a label's inputs predicted as that label: A_R is the mean over labels that "
        "remain, A_F over removed ones. A_F is 0 by construction where the output has no removed "
        "entries.",
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
        "output. Ties, the share of inputs of labels that remain where another entry equals that "
        "of the true label, flatter it; logits are stored as multiples of 1/64, which makes some.",
        (
            Metric("Cov_R", "Cov_R ↓", low, _score, retrained_competes=True),
            Metric("Cov_F", "Cov_F ↑", high, _score, retrained_competes=True),
            Metric("ties", "Ties", None, percent),
        ),
    ),
    _Kind(
        "kl_retrained",
        "KL to the retrained model",
        "KL(method ‖ retrained model), in nats, the mean over inputs. Outputs that keep the "
        "removed entries are compared on the others, divided by their sum. The seed floor is the "
        "same of a second model, retrained with another seed. The paper has no floor.",
        (
            Metric("KL_retrained_R", f"KL ↓, {REMAIN}", low),
            Metric("KL_retrained_F", f"KL ↓, {GONE}", low),
        ),
    ),
    _Kind(
        "kl_base",
        "KL to the base model",
        "KL(method ‖ base model), in nats, the mean over inputs. Removed entries of the method "
        "count as 0, and the others are divided by their sum. The arrows are the paper's: little "
        "is to change on labels that remain, much on removed ones.",
        (
            Metric("KL_base_R", f"KL ↓, {REMAIN}", low),
            Metric("KL_base_F", f"KL ↑, {GONE}", high),
        ),
    ),
    _Kind(
        "beside",
        "Beside the paper's metrics",
        "Jensen-Shannon divergence from the retrained model, in nats, from 0 to .6931, and the "
        "same divided by its seed floor: 1 is as close as retraining is to itself. Log-loss and "
        "expected calibration error (15 bins) on inputs of labels that remain. Attack AUC: how "
        "well a logistic regression on the outputs tells inputs of removed labels from others, "
        ".5 being not at all; read it against the retrained model's.",
        (
            Metric("JS_retrained_R", f"JS ↓, {REMAIN}", low),
            Metric("JS_retrained_F", f"JS ↓, {GONE}", low),
            Metric("JS_over_floor_R", f"JS over floor ↓, {REMAIN}", low, ratio),
            Metric("JS_over_floor_F", f"JS over floor ↓, {GONE}", low, ratio),
            Metric("log_loss", "Log-loss ↓", low, retrained_competes=True),
            Metric("ECE", "Calibration error ↓", low, retrained_competes=True),
            Metric("attack_auc", "Attack AUC, nearest .5", from_chance),
        ),
    ),
    _Kind(
        "time",
        "Processing time",
        "Seconds of wall clock by component, the device synchronised. Only totals compete.",
        (Metric("seconds", "Seconds ↓", low, seconds, retrained_competes=True),),
    ),
)


def precision(gathered: Gathered) -> str:
    """What stands inside a logarithm, and what storing logits did."""
    note = (
        f"Logarithms are natural; inside them probabilities count as at least {metrics.EPSILON:g}."
    )
    if gathered.rounding:
        most = [f"{name} by {score(gathered.rounding[name])}" for name in sorted(gathered.rounding)]
        note += (
            " Where all test images are judged, rounding the logits to be stored moved "
            f"{', '.join(most)} at the most; Cov_R, a worst case, can hang on one image."
        )
    if any(key.method.endswith(SAME_AS_MASK) for key in gathered.spreads):
        note += (
            " Linear filtration's naive and normalization variants are mask but for last digits; "
            f"their logits that lie within {NEXT_TO_GRID:g} of the stored logits' grid are put on "
            "it, so that they have mask's ties."
        )
    return note


def sections(gathered: Gathered) -> list[Section]:
    """Lay out every table of what was gathered."""
    tasks = (cell for cell in gathered.facts if cell.forget != BASE)
    networks = dict.fromkeys((cell.set, cell.architecture) for cell in tasks)
    titles = [(name, of) for name in captions.SETS for of in captions.ARCHITECTURES]
    in_order = sorted(networks, key=lambda of: titles.index(of) if of in titles else len(titles))
    result = []
    for kind in KINDS:
        tables = [_table(gathered, kind, *of) for of in in_order]
        result.append(Section(kind.name, kind.title, kind.about, [t for t in tables if t.groups]))
    return [section for section in result if section.tables]


def _table(gathered: Gathered, kind: _Kind, set: str, architecture: str) -> Table:
    facts = {
        cell: of
        for cell, of in gathered.facts.items()
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
    """Rows of the methods that we, or the paper, have this figure of; none without ours."""
    ours, paper = gathered.spreads, paper_figures()

    def of_metric(key: Key) -> bool:
        return (key.set, key.architecture, key.metric) == (set, architecture, metric.name)

    if not any(map(of_metric, ours)):
        return []
    there = dict.fromkeys(
        (key.method, key.component) for of in (ours, paper) for key in of if of_metric(key)
    )
    order = list(captions.METHODS)
    components: dict[str, list[str]] = {}
    for method, component in sorted(there, key=lambda pair: order.index(pair[0])):
        components.setdefault(method, []).append(component)
    lines = [
        (method, component)
        for method, of in components.items()
        for component in sorted(of, key=COMPONENTS.index)
    ]
    columns = []
    for forget in FORGET:
        keys = [Key(set, architecture, m, c, metric.name, forget) for m, c in lines]
        best = _best(metric, [(key, ours.get(key)) for key in keys])
        columns.append([_entry(metric, ours.get(k), paper.get(k), k in best) for k in keys])
    return [
        Row(captions.METHODS[method], component, [*entries])
        for (method, component), *entries in zip(lines, *columns, strict=True)
    ]


def _best(metric: Metric, figures: list[tuple[Key, Spread | None]]) -> set[Key]:
    """Those with the best mean, or within `ALIKE` of it; none where all are.

    The base model does not compete, as it still has the labels, nor does the floor, nor a
    retrained model in distances or as the measure of an attack.
    """
    if metric.badness is None:
        return set()
    out = {"base", FLOOR} | (set() if metric.retrained_competes else {"retrain"})
    badness = {
        key: metric.badness(spread.mean)
        for key, spread in figures
        if spread is not None and key.method not in out and key.component in ("", "total")
    }
    least = min(badness.values(), default=0.0)
    best = {key for key, value in badness.items() if value == least or value < least + ALIKE}
    return best if len(best) < len(badness) else set()


def _entry(metric: Metric, ours: Spread | None, paper: str | None, best: bool) -> Entry:
    text, spread = NOTHING, ""
    if ours is not None:
        text = metric.write(ours.mean)
        if ours.low < ours.high:
            spread = f"±{metric.write((ours.high - ours.low) / 2)}"
    return Entry(text, spread, _as_ours(paper) if paper else "", best)


def _as_ours(printed: str) -> str:
    """A figure of the paper as ours are written, without the zero before the point."""
    if printed == "0.0":
        return "0"
    return "∞" if printed == "inf" else re.sub(r"^(<?)0\.", r"\1.", printed)
