"""The values of the OSR paper's tables, under the names that the benchmark uses."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SETS = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "VGGFace-100": "faces"}
ARCHITECTURES = {
    "ResNet18": "resnet18",
    "AllCNN": "allcnn",
    "MobileNet V2": "mobilenet_v2",
    "Vision Transformer B16": "vit_b_16",
}
METHODS = {"B": "base", "R": "retrain", "OSR": "osr", "UNSIR": "unsir", "NHLE-CWM": "nhle_cwm"}
COMPONENTS = {
    "": "",
    "Ave": "epoch",
    "Tot(40)": "total",
    "Tot(5)": "total",
    "Total": "total",
    "Tot": "total",
    "Pro": "projection",
    "Red": "redistribution",
    "NG": "noise",
    "RC": "retain",
    "Im": "impair",
    "Re": "repair",
    "FT": "finetune",
    "CWM": "masking",
}
FORGET = ("F1", "F2", "F3", "F4")


class Key(NamedTuple):
    """The identity of a value."""

    set: str
    architecture: str
    method: str
    component: str
    metric: str
    forget: str


@cache
def paper_values() -> dict[Key, str]:
    """Read all values of the paper's tables, as printed there; one is ``<0.0001``.

    `inf` is the coverage of labels that are no longer in the output.

    Examples
    --------
    >>> paper_values()[Key("cifar10", "resnet18", "osr", "", "A_R", "F1")]
    '0.9352'
    """
    text = (files("research.tables") / "paper-tables.csv").read_text(encoding="utf-8")
    return {
        Key(
            SETS[row["dataset"]],
            ARCHITECTURES[row["model"]],
            METHODS[row["method"]],
            COMPONENTS[row["component"]],
            row["metric"],
            forget,
        ): row[forget]
        for row in csv.DictReader(text.splitlines())
        for forget in FORGET
    }
