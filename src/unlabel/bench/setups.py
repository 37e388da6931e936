"""What our set-up has different from the paper's, in sentences for above a table."""

from __future__ import annotations

from collections.abc import Iterable

from unlabel.bench.cells import BASE, Cell
from unlabel.bench.store import Facts

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

IMAGES = {
    "cifar10": "Our images went through JPEG at quality 92 to 95.",
    "cifar100": "Our images went through JPEG at quality 92 to 95.",
    "faces": (
        "Another public set of 100 identities stands in for VGGFace-100, at 64 pixels and through "
        "JPEG at quality 92 to 95. About 1% of its test images have a near-duplicate among the "
        "training images."
    ),
    "digits": "The paper has no such set: scikit-learn's digits, to try the benchmark on.",
}
# How the paper trains: from where, and for how many epochs.
PAPER_TRAINING = {
    "cifar10": ("scratch", 40),
    "cifar100": ("ImageNet-1K", 5),
    "faces": ("ImageNet-1K", 5),
}
STARTS = {"scratch": "trained from scratch", "ImageNet-1K": "fine-tuned from ImageNet-1K"}


def network(set: str, architecture: str) -> str:
    """The title of a network on a set.

    Examples
    --------
    >>> network("cifar100", "mobilenet_v2")
    'CIFAR-100, MobileNetV2'
    """
    return f"{SETS[set]}, {ARCHITECTURES.get(architecture, architecture)}"


def differences(set: str, cells: dict[Cell, Facts]) -> list[str]:
    """What differs from the paper for one network, given what its cells say of themselves."""
    facts = next(iter(cells.values()))
    return [IMAGES[set], *_training(set, facts), _rows(facts), _seeds(cells)]


def about_seconds(set: str, cells: Iterable[Facts]) -> list[str]:
    """Where the seconds come from."""
    ours = sorted({facts["hardware"] for facts in cells})
    notes = [
        f"Ours on {' and '.join(ours)}, the paper's on two NVIDIA A100.",
        "Seconds of methods that work on outputs do not include computing those outputs. Linear "
        "filtration's filter is all four variants.",
    ]
    if set == "cifar10":
        notes.append("Some of the paper's totals of F4 are not what their parts add up to.")
    return notes


def condition(cells: Iterable[Facts]) -> list[str]:
    """How far linear filtration's matrix of mean logits is from singular.

    Examples
    --------
    >>> condition([{"condition": 4604.6}, {}])
    ["The condition number of linear filtration's matrix is 4,605."]
    """
    found = sorted({round(of["condition"]) for of in cells if "condition" in of})
    numbers = " and ".join(f"{number:,}" for number in found)
    return [f"The condition number of linear filtration's matrix is {numbers}."] if found else []


def failures(cells: dict[Cell, Facts]) -> list[str]:
    """What did not work, as the cells say."""
    return [
        f"{cell}, {METHODS.get(method, method)}: {why}"
        for cell, facts in sorted(cells.items())
        for method, why in sorted(facts["failed"].items())
    ]


def _training(set: str, facts: Facts) -> list[str]:
    recipe = facts["config"].get("training")
    paper = PAPER_TRAINING.get(set)
    if not recipe or not paper:
        return []
    side = f" at {recipe['side']} pixels" if recipe.get("side") else ""
    ours, theirs = (
        f"{STARTS[start]}{at} for {epochs} epochs"
        for start, at, epochs in (
            (recipe["start"], side, recipe["epochs"]),
            (paper[0], "", paper[1]),
        )
    )
    if ours == theirs:
        return [f"Both are {ours}."]
    return [f"Ours is {ours}, the paper's {theirs}."]


def _rows(facts: Facts) -> str:
    rows = facts["rows"]
    if rows["judged"] == rows["test"]:
        return f"Judged on all {rows['test']:,} test images."
    return (
        f"Judged on {rows['judged']:,} of {rows['test']:,} test images, the first "
        f"{rows['judged'] // facts['classes']} of each label: coverage, a worst case over a "
        "label's inputs, is lower than over all of them, and A_R has a standard error of about .01."
    )


def _seeds(cells: dict[Cell, Facts]) -> str:
    base = len({cell.seed for cell in cells if cell.forget == BASE})
    retrained = len({cell.seed for cell, facts in cells.items() if "retrain" in facts["methods"]})
    return f"Seeds: {base} of the base model and the methods, {retrained} of retraining."
