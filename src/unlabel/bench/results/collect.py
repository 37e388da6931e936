"""From a method's outcome to what a cell stores of it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unlabel import metrics
from unlabel.bench.grid import Cell
from unlabel.bench.results.files import Array, Facts, Result, read_result, rounded, write_result
from unlabel.bench.suites import METHODS
from unlabel.bench.task import Floats, Outcome, Task
from unlabel.errors import UnlabelError

LIBRARIES = ("torch", "torchvision", "numpy", "unlabel")


def keep(out: Path, cell: Cell, method: str, outcome: Outcome, task: Task) -> None:
    """Add a method's outcome to what is stored of its cell."""
    for name, logits in outcome.logits.items():
        if not np.isfinite(logits).all():
            raise UnlabelError(f"The logits of {name} are not finite: the training ran away.")
    labels: Array = task.test_images.labels.cpu().numpy()
    judged = judged_rows(labels, task.study.judged_a_label)
    before = read_result(out, cell) or Result(cell, {"failed": {}})
    arrays = {name: rounded(logits[judged]) for name, logits in outcome.logits.items()}
    arrays |= outcome.matrices
    if method == "base":
        arrays["labels"] = labels[judged].astype(np.uint8)
    done = {*before.facts.get("methods", ()), method}
    part = "training" if method in ("base", "retrain") else method
    facts = before.facts | {
        "classes": task.classes,
        "methods": [name for name in ("base", *METHODS) if name in done],
        "config": before.facts.get("config", {}) | {part: outcome.config},
        "seconds": before.facts.get("seconds", {}) | {method: outcome.seconds},
        "rows": {"test": len(labels), "judged": len(judged)},
        "full_precision": before.facts.get("full_precision", {})
        | {name: figures(of, labels, task) for name, of in outcome.confidences.items()},
        "made": before.facts.get("made", {})
        | {method: {"hardware": hardware(task.device), "versions": _versions()}},
        "failed": {of: why for of, why in before.facts["failed"].items() if of != method},
    }
    if outcome.condition is not None:
        facts["condition"] = outcome.condition
    write_result(out, Result(cell, facts, before.arrays | arrays, outcome.filter or before.filter))


def note_failure(out: Path, cell: Cell, method: str, why: str) -> None:
    """Say in what is stored of a cell, if anything is, that a method failed."""
    with suppress(UnlabelError):  # what is stored may be what failed
        before = read_result(out, cell)
        if before is None:
            return
        facts = before.facts | {"failed": before.facts["failed"] | {method: why}}
        write_result(out, Result(cell, facts, before.arrays, before.filter))


def judged_rows(labels: Array, at_most: int | None) -> Array:
    """The first rows of each label, at most so many, in the set's order.

    Examples
    --------
    >>> judged_rows(np.array([1, 0, 1, 1, 0]), 2)
    array([0, 1, 2, 4])
    """
    if at_most is None:
        return np.arange(len(labels))
    firsts = [np.flatnonzero(labels == label)[:at_most] for label in np.unique(labels)]
    return np.sort(np.concatenate(firsts))


def figures(confidences: Floats, labels: Array, task: Task) -> Facts:
    """Accuracy and coverage over all test rows, at full precision."""
    every = range(task.classes)
    outputs = every if confidences.shape[1] == task.classes else task.retained
    of_removed = metrics.mean_accuracy(confidences, labels, outputs, task.removed)
    return {
        "A_R": metrics.mean_accuracy(confidences, labels, outputs, task.retained),
        "A_F": of_removed if task.removed else None,
        "coverage_retained": metrics.coverage(confidences, labels, outputs, task.retained).value,
    }


def hardware(device: torch.device) -> str:
    """What the work is done on."""
    if device.type == "cuda":
        name: str = torch.cuda.get_device_name(device)
        return name
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def _versions() -> dict[str, Any]:
    return {"python": platform.python_version()} | {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # run from its source
        return "not installed"
