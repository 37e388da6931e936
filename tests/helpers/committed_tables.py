"""Reads the committed tables of the reproduction, and writes numbers as its pages do."""

from __future__ import annotations

import re

import numpy as np

import reproduced

MINUS, DOWN = "\N{MINUS SIGN}", "\N{DOWNWARDS ARROW}"
FORGET = ("F1", "F2", "F3", "F4")
TITLES = {
    ("cifar10", "resnet18"): "CIFAR-10, ResNet18",
    ("cifar10", "allcnn"): "CIFAR-10, AllCNN",
    ("cifar100", "resnet18"): "CIFAR-100, ResNet18",
    ("cifar100", "mobilenet_v2"): "CIFAR-100, MobileNetV2",
    ("faces", "resnet18"): "Faces, ResNet18",
    ("faces", "vit_b_16"): "Faces, ViT-B/16",
}


def short(value, digits=2):
    return re.sub(r"^0\.", ".", f"{value:.{digits}f}")


def span(values, digits=2):
    return f"{short(values.min(), digits)} to {short(values.max(), digits)}"


def committed(name, first, second):
    """Return the cells of a row of a committed table, a line per network."""
    text = (reproduced.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    found = []
    for title in TITLES.values():
        heading = ""
        for line in text.split(f"### {title}\n")[1].split("\n### ")[0].splitlines():
            if line.startswith("| "):
                group, row, *cells = (cell.strip() for cell in line.strip("|").split("|"))
                heading = group or heading
                if (heading, row) == (first, second):
                    found.append(cells)
    return found


def intervals(method):
    """Return the committed differences of A_R from OSR's and the edges, a line per network."""
    rows = committed("intervals", "A_R of OSR less that of", method)
    cells = [[re.findall(rf"[+{MINUS}]?[.\d]+", cell)[:3] for cell in row] for row in rows]
    return np.array(
        [[[float(x.replace(MINUS, "-")) for x in cell] for cell in row] for row in cells]
    )


def excluding_0(method):
    """Count the intervals above 0, and below."""
    found = intervals(method)
    assert found.shape == (6, 4, 3)
    return (found[..., 1] > 0).sum(), (found[..., 2] < 0).sum()


def numbers(name, first, second):
    """Return our numbers in a row of a committed table, a line per network."""
    rows = committed(name, first, second)
    return np.array([[float(re.search(r"[\d.]+", cell)[0]) for cell in row] for row in rows])


def words(page):
    text = (reproduced.DOCS / "research" / "tables" / f"{page}.md").read_text(encoding="utf-8")
    return " ".join(text.split())
