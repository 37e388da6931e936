"""Turns the outcome of a method into the stored result of its cell."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from research.arrays import Array, Floats
from research.grid import Cell
from research.results.files import Facts, Result, read_facts, read_result, rounded, write_result
from research.task import Outcome, Task
from unlabel import UnlabelError, metrics

ROUNDING = 1e-3
LARGEST = float(np.finfo(np.float16).max)
LIBRARIES = ("torch", "torchvision", "numpy", "unlabel")
NEW_FACTS: Facts = {key: {} for key in ("config", "failed", "full_precision", "made", "seconds")}
NEW_FACTS["methods"] = []

Values = dict[str, dict[str, Any]]
Seconds = dict[str, float]


def store_outcome(
    out: Path, cell: Cell, method: str, outcome: Outcome, task: Task, seconds: Seconds
) -> Values:
    """Add the outcome of a method, which took so long, to the result of its cell.

    Returns the accuracies and coverages by output.
    """
    logits = _checked_logits(method, outcome, task)
    labels: Array = task.test_images.labels.cpu().numpy()
    judged = judged_rows(labels, task.study.judged_per_label)
    is_new = read_facts(out, cell) is None
    before = Result(cell, NEW_FACTS) if is_new else read_result(out, cell)
    arrays = {name: rounded(rows[judged]) for name, rows in logits.items()} | outcome.matrices
    if method == "base":
        arrays["labels"] = labels[judged].astype(np.min_scalar_type(task.classes))
    made = {"hardware": hardware(task.device), "versions": _versions()}
    values = {
        name: full_precision(rows, labels, task) for name, rows in outcome.confidences.items()
    }
    settings = task.study.settings
    config = before.facts["config"] | {"training": asdict(task.study.recipe)}
    part = "training" if method == "base" else method
    own = asdict(settings[method]) if method in settings else config.get(part, {})
    config[part] = own | outcome.config
    facts = before.facts | {
        "classes": task.classes,
        "methods": [*before.facts["methods"], method],
        "config": config,
        "seconds": before.facts["seconds"] | {method: outcome.seconds or seconds},
        "rows": {"test": len(labels), "judged": len(judged)},
        "full_precision": before.facts["full_precision"] | values,
        "made": before.facts["made"] | {method: made},
        "failed": {name: why for name, why in before.facts["failed"].items() if name != method},
    }
    if outcome.condition is not None and np.isfinite(outcome.condition):
        facts["condition"] = outcome.condition
    write_result(out, Result(cell, facts, before.arrays | arrays, outcome.filter or before.filter))
    return values


def _checked_logits(method: str, outcome: Outcome, task: Task) -> Mapping[str, Floats]:
    """Return the logits to store, if all rows of the outcome are what the tables need."""
    if not isinstance(outcome, Outcome) or not outcome.confidences:
        raise UnlabelError(
            f"The method {method} returned {outcome!r:.50} and no Outcome with confidences."
        )
    logits, seconds = outcome.logits or {}, outcome.seconds
    each = seconds.values() if isinstance(seconds, Mapping) else [None]
    if not all(isinstance(value, Real) and 0 <= value < math.inf for value in each):
        raise UnlabelError(
            f"The seconds of {method} are {seconds!r:.50}: return finite numbers by component."
        )
    if outcome.filter is not None and method != "osr":
        raise UnlabelError(
            f"The method {method} returned a filter, which osr alone stores: return confidences."
        )
    for name in (*logits, *outcome.confidences, *outcome.matrices):
        if name != method and not name.startswith(f"{method}_"):
            raise UnlabelError(f"The method {method} returned an output {name}: name it {method}.")
    columns = task.classes, len(task.retained)
    for name, matrix in outcome.matrices.items():
        if matrix.shape != columns[::-1] or not np.isfinite(matrix).all():
            raise UnlabelError(
                f"The matrix of {name} needs the shape {columns[::-1]} and finite numbers."
            )
    for kind, outputs in (("logits", logits), ("confidences", outcome.confidences)):
        for name, rows in outputs.items():
            if rows.shape not in [(len(task.test_images), n) for n in columns]:
                raise UnlabelError(
                    f"The {kind} of {name} have the shape {rows.shape}: return one row for each of "
                    f"the {len(task.test_images)} test images, with {columns[0]} or {columns[1]} "
                    "columns."
                )
            if not np.isfinite(rows).all():
                why = ": its training diverged" if kind == "logits" else ""
                raise UnlabelError(f"The {kind} of {name} are not finite{why}.")
            if np.abs(rows).max() > LARGEST:
                raise UnlabelError(
                    f"The {kind} of {name} reach {np.abs(rows).max():g}, which float16 lacks: "
                    f"return none beyond {LARGEST:,.0f}."
                )
    for name, rows in outcome.confidences.items():
        if rows.min() < -ROUNDING or abs(rows.sum(1, float) - 1).max() > ROUNDING:
            raise UnlabelError(f"The confidences of {name} are no probabilities of sum 1.")
    if outcome.logits is None:
        smallest = np.float64(metrics.EPSILON)  # float16 would round it to 0
        return {n: np.log(np.maximum(p, smallest)) for n, p in outcome.confidences.items()}
    return logits


def store_failure(out: Path, cell: Cell, method: str, why: str) -> None:
    """Add the failure of a method to the stored result of its cell, if there is one."""
    with suppress(UnlabelError):  # there may be none, or reading it may be what failed
        before = read_result(out, cell)
        facts = before.facts | {"failed": before.facts["failed"] | {method: why}}
        write_result(out, Result(cell, facts, before.arrays, before.filter))


def judged_rows(labels: Array, at_most: int | None) -> Array:
    """Select the first rows of each label, at most `at_most`, in the order of the set.

    Examples
    --------
    >>> judged_rows(np.array([1, 0, 1, 1, 0]), 2)
    array([0, 1, 2, 4])
    """
    if at_most is None:
        return np.arange(len(labels))
    firsts = [np.flatnonzero(labels == label)[:at_most] for label in np.unique(labels)]
    return np.sort(np.concatenate(firsts))


def full_precision(confidences: Floats, labels: Array, task: Task) -> Facts:
    """Compute accuracy and coverage over all test rows, from confidences that are not rounded."""
    keeps_all = confidences.shape[1] == task.classes
    outputs = range(task.classes) if keeps_all else task.retained
    on_removed = metrics.mean_accuracy(confidences, labels, outputs, task.removed)
    return {
        "A_R": metrics.mean_accuracy(confidences, labels, outputs, task.retained),
        "A_F": on_removed if task.removed else None,
        "coverage_retained": metrics.coverage(confidences, labels, outputs, task.retained).value,
    }


def hardware(device: torch.device) -> str:
    """Name the hardware that does the work."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{platform.machine()} CPU, {os.cpu_count()} cores"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # run from source
            found[name] = version(name)
    return found
