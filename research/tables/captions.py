"""Captions above the tables: how our setup differs from the paper's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from research.grid import BASE, Cell
from research.results.files import Facts
from research.tables.writing import score

SETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "faces": "Faces", "digits": "Digits"}
ARCHITECTURES = {
    "resnet18": "ResNet18",
    "allcnn": "AllCNN",
    "mobilenet_v2": "MobileNetV2",
    "vit_b_16": "ViT-B/16",
    "small": "a small network",
}
METHODS = {
    "base": "base model",
    "retrain": "retrained",
    "retrain_again": "seed floor: retrained again",
    "osr": "OSR",
    "mask": "mask",
    "linear_filtration": "linear filtration",
    "linear_filtration_naive": "linear filtration, naive",
    "linear_filtration_normalization": "linear filtration, normalization",
    "linear_filtration_randomization": "linear filtration, randomization",
    "linear_filtration_zeroing": "linear filtration, zeroing",
    "unsir": "UNSIR",
    "nhle_cwm": "NHLE-CWM (reconstruction)",
}

# The paper's training: its starting point and the number of epochs.
PAPER_TRAINING = {
    "cifar10": ("scratch", 40),
    "cifar100": ("ImageNet-1K", 5),
    "faces": ("ImageNet-1K", 5),
}
STARTS = {
    "scratch": "trained from scratch",
    "ImageNet-1K": "fine-tuned from ImageNet-1K",
    "CIFAR-100": "fine-tuned from CIFAR-100",
}


def network(set: str, architecture: str) -> str:
    """Return the title of a network on a set.

    Examples
    --------
    >>> network("cifar100", "mobilenet_v2")
    'CIFAR-100, MobileNetV2'
    """
    return f"{SETS[set]}, {ARCHITECTURES.get(architecture, architecture)}"


def differences(set: str, cells: dict[Cell, Facts]) -> list[str]:
    """Describe how one network differs from the paper, given the facts of its cells."""
    return [*_training(set, next(iter(cells.values()))), _rows(cells), _seeds(cells)]


def about_seconds(set: str, cells: Iterable[Facts]) -> list[str]:
    """Describe how the seconds were measured."""
    ours = sorted({made["hardware"] for facts in cells for made in facts["made"].values()})
    notes = [
        f"We ran on {' and '.join(ours)}, the paper on two NVIDIA A100.",
        "The seconds of methods that work on outputs do not include computing the outputs. Linear "
        "filtration's filter stands for all four variants.",
    ]
    if set == "cifar10":
        notes.append("Some of the paper's totals for F4 are not the sums of their parts.")
    return notes


def condition(cells: Iterable[Facts]) -> list[str]:
    """State the condition number of linear filtration's matrix of mean logits.

    Examples
    --------
    >>> condition([{"condition": 4604.6}, {}])
    ["The condition number of linear filtration's matrix is 4,605."]
    """
    found = sorted({round(facts["condition"]) for facts in cells if "condition" in facts})
    if not found:
        return []
    subject = "condition number of linear filtration's matrix is"
    if len(found) > 1:
        subject = "condition numbers of linear filtration's matrices are"
    return [f"The {subject} {' and '.join(f'{condition:,}' for condition in found)}."]


def failures(cells: dict[Cell, Facts]) -> list[str]:
    """List the methods that failed and why."""
    return [
        f"{cell}, {METHODS.get(method, method)}: {why}"
        for cell, facts in sorted(cells.items())
        for method, why in sorted(facts["failed"].items())
    ]


def _training(set: str, facts: Facts) -> list[str]:
    recipe = facts["config"].get("training", {})
    paper = PAPER_TRAINING.get(set)
    if not paper:
        return [
            "This set, scikit-learn's digits, is not in the paper: it is for trying the benchmark."
        ]
    if "epochs" not in recipe:  # a head on frozen features, about which there are notes
        return []
    side = f" at {recipe['side']} pixels" if recipe.get("side") else ""
    ours = f"{STARTS[recipe['start']]}{side} for {recipe['epochs']} epochs"
    theirs = f"{STARTS[paper[0]]} for {paper[1]} epochs"
    if ours == theirs:
        return [f"Both are {ours}."]
    return [f"Ours is {ours}, the paper's {theirs}."]


def _rows(cells: dict[Cell, Facts]) -> str:
    facts = next(iter(cells.values()))
    rows = facts["rows"]
    if rows["judged"] == rows["test"]:
        return f"Judged on all {rows['test']:,} test images."
    per_label = rows["judged"] // facts["classes"]
    fewest = min(len(cell.removed) for cell in cells if cell.forget != BASE) * per_label
    return (
        f"Judged on {rows['judged']:,} of {rows['test']:,} test images, the first {per_label} per "
        "label: coverage, a worst case over a label's inputs, is lower than over all of them, "
        f"A_R has a standard error of up to {score(_standard_error(cells, per_label))}, and values "
        f"on removed labels rest on as few as {fewest} images."
    )


def _standard_error(cells: dict[Cell, Facts], per_label: int) -> float:
    """Return the largest standard error of A_R on the judged rows."""
    errors = [0.0]
    for cell, facts in cells.items():
        rows = per_label * (facts["classes"] - len(cell.removed))
        accuracies = [values["A_R"] for values in facts["full_precision"].values()]
        errors += [math.sqrt(share * (1 - share) / rows) for share in accuracies]
    return max(errors)


def _seeds(cells: dict[Cell, Facts]) -> str:
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
