"""The text above tables: how our setup differs from the paper's, what values rest on, counts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from research.grid import BASE, Cell
from research.results.files import Facts
from research.tables import names
from research.tables.intervals import Spread
from research.tables.judge import REVERSED
from research.tables.names import Network
from research.tables.published import Key, paper_settings, paper_values
from unlabel import metrics

Cells = dict[Cell, Facts]


def training(set: str, cells: Cells) -> list[str]:
    """Compare the training of a network with the paper's."""
    ours = next(iter(cells.values()))["config"].get("training", {})
    paper = {name: paper_settings().get((set, "training", name)) for name in ("start", "epochs")}
    if None in paper.values():
        return ["This set is not in the paper."]
    if not paper.keys() <= ours.keys():
        return []
    side = f" at {ours['side']} pixels" if ours.get("side") else ""
    here = f"{_start(ours['start'])}{side} for {ours['epochs']} epochs"
    there = f"{_start(paper['start'])} for {paper['epochs']} epochs"
    return [f"Both are {here}." if here == there else f"Ours is {here}, the paper's {there}."]


def _start(start: str | None) -> str:
    return "trained from scratch" if start == "scratch" else f"fine-tuned from {start}"


def rows(cells: Cells, from_stored: list[str] | None) -> str:
    """Name the test images of values: all, but for some from stored rows; None is all."""
    facts = next(iter(cells.values()))
    test, judged = (facts["rows"][name] for name in ("test", "judged"))
    if judged == test:
        return f"Over all {test:,} test images."
    per_label = judged // facts["classes"]
    fewest = min(len(cell.removed) for cell in cells if cell.forget != BASE) * per_label
    stored = f"{judged:,} of {test:,} test images, the first {per_label} per label"
    if from_stored is None:
        return f"Over {stored}; values on removed labels rest on as few as {fewest} images."
    return f"Over all {test:,} test images, but {', '.join(from_stored)} over {stored}."


def seeds(cells: Cells) -> str:
    """Count the seeds of a network."""
    with_base = {cell.base for cell in cells if cell.forget == BASE}
    tasks = [(cell, facts) for cell, facts in cells.items() if cell.forget != BASE]
    base = Counter(cell.forget for cell, _ in tasks if cell.base in with_base)
    retrained = Counter(cell.forget for cell, facts in tasks if "retrain" in facts["methods"])
    forget = {cell.forget for cell, _ in tasks}
    return (
        f"Seeds: {_range(base[name] for name in forget)} for the base model and the methods, "
        f"{_range(retrained[name] for name in forget)} for retraining."
    )


def _range(counts: Iterable[int]) -> str:
    least, *more = sorted(set(counts))
    return f"{least} to {more[-1]}" if more else f"{least}"


def about_seconds(cells: Iterable[Facts]) -> list[str]:
    """Describe how the seconds were measured."""
    ours = sorted({made["hardware"] for facts in cells for made in facts["made"].values()})
    return [
        f"We ran on {' and '.join(ours)}, the paper on two NVIDIA A100.",
        "The seconds of methods that work on outputs do not include computing the outputs. One "
        "filter or head stands for all variants of a method.",
    ]


def condition(cells: Iterable[Facts]) -> list[str]:
    """State the condition numbers of linear filtration's matrix of mean logits.

    Examples
    --------
    >>> condition([{"condition": 4604.6}, {}])
    ["Condition of linear filtration's matrix of mean logits: 4,605."]
    """
    found = sorted({round(facts["condition"]) for facts in cells if "condition" in facts})
    numbers = " and ".join(f"{number:,}" for number in found)
    return [f"Condition of linear filtration's matrix of mean logits: {numbers}."] if found else []


def failures(cells: Cells) -> list[str]:
    """List the methods that failed and why."""
    return [
        f"{cell}, {names.method(method)}: {why}"
        for cell, facts in sorted(cells.items())
        for method, why in sorted(facts["failed"].items())
    ]


def remarks(kind: str, spreads: dict[Key, Spread]) -> Iterator[str]:
    """Yield the sentences of a kind of table that depend on its values."""
    if kind == "intervals":
        in_paper = {key[:2] for key in paper_values()}
        for method in ("retrain", "mask"):
            found = [
                spread
                for key, spread in spreads.items()
                if key[2:5] == (method, "", "A_R_less") and key[:2] in in_paper
            ]
            above = sum(spread.excludes_0 and spread.mean > 0 for spread in found)
            below = sum(spread.excludes_0 and spread.mean < 0 for spread in found)
            if found:
                yield (
                    f"Of {len(found)} intervals of OSR less {names.method(method)} on the paper's "
                    f"networks, {above + below} exclude 0: {above} are above it and {below} below."
                )
    if kind == "kl_retrained" and (counts := _nearer_reversed(spreads)):
        nearer, every = (sum(map(count, counts.values())) for count in (sum, len))
        each = "; ".join(
            f"{names.network(*network)} {sum(counts[network])} of {len(counts[network])}"
            for network in names.in_order(counts)
        )
        yield (
            "The direction, method first, is certain for the KL to the base model and open here: "
            f"both are finite, and by their ratio {nearer} of the paper's {every} values of OSR "
            "lie nearer the reverse, KL(retrained model ‖ OSR), which has rows of its own "
            f"({each}). Its networks are not ours, so this does not decide it."
        )


def _nearer_reversed(spreads: dict[Key, Spread]) -> dict[Network, list[bool]]:
    """Return for each value of the paper whether the reverse direction comes nearer to it."""
    found: dict[Network, list[bool]] = defaultdict(list)
    for key, reverse in spreads.items():
        ours = key._replace(component="")
        if key.component == REVERSED and (printed := paper_values().get(ours)):
            means = [max(each.mean, metrics.EPSILON) for each in (spreads[ours], reverse)]
            apart = [abs(math.log(mean / float(printed.lstrip("<")))) for mean in means]
            found[key.set, key.architecture].append(apart[1] < apart[0])
    return dict(found)
