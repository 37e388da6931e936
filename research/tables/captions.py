"""Captions above the tables: how our setup differs from the paper's, and what values rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from research.grid import BASE, Cell
from research.results.files import Facts
from research.tables import names
from research.tables.published import paper_settings

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
    """Say which test images values rest on: all, but for some from stored rows; None is all."""
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
