"""A small made-up folder of results: 10 labels, three seeds, the last only for the floor."""

import json

import numpy as np

from research import filters
from research.grid import Cell
from research.registry import DATASETS
from research.results.files import Result, read_result, rounded, write_result

SET, ARCHITECTURE = "cifar10", "resnet18"
EVERY = list(range(10))
LABELS = np.repeat(np.arange(10), 12)
SECONDS = {
    "retrain": {"epoch": 0.5, "total": 20.0},
    "osr": {"projection": 0.25, "redistribution": 0.125},
    "mask": {"redistribution": 0.0625},
    "unsir": {"noise": 1.0, "retain": 0.5, "impair": 2.0, "repair": 4.0},
    "nhle_cwm": {"finetune": 3.0, "masking": 0.00001},
    "linear_filtration": {"filter": 0.5, "head": 0.25},
}


def cell(seed, forget):
    """Return a cell with the labels that are removed from CIFAR-10."""
    removed = ((), *DATASETS[SET].forget)[int(forget[1:])]
    return Cell(SET, ARCHITECTURE, seed, forget, removed)


def facts(methods, **more):
    return {
        "classes": 10,
        "methods": list(methods),
        "config": {"training": {"epochs": 40, "start": "scratch", "side": None}},
        "seconds": {method: SECONDS[method] for method in methods if method in SECONDS},
        "rows": {"test": 120, "judged": 120},
        "full_precision": {},
        "made": {
            method: {"hardware": "a machine", "versions": {"torch": "2.0"}} for method in methods
        },
        "failed": {},
    } | more


def logits(rng, columns):
    """Make logits over some of the labels that are mostly right."""
    rows = rng.normal(size=(len(LABELS), len(columns)))
    return rounded(rows + 3 * (LABELS[:, None] == np.array(columns)))


def write_notes(folder, **notes):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.json").write_text(json.dumps(notes))


def write_seed(folder, seed, *, forget=("F1", "F2", "F3", "F4"), only_retrained=False):
    rng = np.random.default_rng(seed)
    base = logits(rng, EVERY)
    if not only_retrained:
        arrays = {"labels": LABELS.astype(np.uint8), "base": base}
        write_result(folder, Result(cell(seed, "F0"), facts(["base"]), arrays))
    for name in forget:
        task = cell(seed, name)
        retained = [label for label in EVERY if label not in task.removed]
        arrays = {"retrain": logits(rng, retained)}
        if only_retrained:
            write_result(folder, Result(task, facts(["retrain"]), arrays))
            continue
        naive = np.eye(10, dtype=np.float32)[retained]
        arrays |= {
            "unsir": logits(rng, EVERY),
            "nhle_cwm": logits(rng, EVERY),
            "linear_filtration_naive": naive,
            "linear_filtration_normalization": naive + rng.normal(0, 0.1, 10).astype("f4"),
            "linear_filtration_zeroing": naive + rng.normal(0, 0.1, naive.shape).astype("f4"),
        }
        fitted = filters.osr(base, LABELS, task.removed)
        write_result(folder, Result(task, facts(SECONDS), arrays, fitted))


def change(folder, name, *, seed=0, facts=None, **arrays):
    """Change some facts and arrays of a cell; None leaves an array out."""
    stored = read_result(folder, cell(seed, name))
    kept = {key: array for key, array in (stored.arrays | arrays).items() if array is not None}
    write_result(folder, Result(stored.cell, stored.facts | (facts or {}), kept, stored.filter))


def arrays(folder, name):
    """Return the stored arrays of a cell."""
    return read_result(folder, cell(0, name)).arrays


def masked_base(folder, name):
    """Return the base model's logits without the labels that a cell removes."""
    task = cell(0, name)
    return np.delete(read_result(folder, task.base).arrays["base"], task.removed, axis=1)


def write_results(folder):
    write_notes(folder / SET, every="Our images are blurred.", time="The machine was busy.")
    write_seed(folder, 0)
    write_seed(folder, 1)
    write_seed(folder, 2, only_retrained=True)
