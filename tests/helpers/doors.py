"""The ways into unlabel, under the names of the design: what is renamed is renamed here, once.

Modules are imported on use, since the core's tests run without the extras.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from unlabel import AllowLists, LabelPlan, OutputFilter
from unlabel.fitting import fit_filter
from unlabel.plan import compose, diff, plan_for

__all__ = [
    "Run",
    "apply",
    "apply_table",
    "at_temperature",
    "changes",
    "compose",
    "diff",
    "evaluate",
    "explore",
    "fit",
    "load",
    "load_plan",
    "mask",
    "run",
    "save",
    "save_plan",
    "serve_once",
    "to_onnx",
    "to_torch",
    "with_kind",
]


def fit(
    confidences: Any = None,
    labels: Any = None,
    *,
    classes: Any = None,
    plan: Any = None,
    remove: Any = None,
    keep: Any = None,
    kind: str = "probabilities",
    method: str = "osr",
    calibrate: bool = False,
    ignore: Any = None,
    allow_chance: bool = True,
) -> OutputFilter:
    """Return a fitted filter; without confidences, the one that a plan alone makes: a mask.

    A plan is a `LabelPlan` or a mapping of its changes; `remove` and `keep` are lists of labels.
    """
    changes = remove if plan is None else plan
    if confidences is not None:
        return fit_filter(
            confidences,
            labels,
            classes=classes,
            remove=changes,
            keep=keep,
            input=kind,
            method=method,
            calibrate=calibrate,
            ignore=ignore,
        )
    return mask(classes, plan_for(tuple(classes), None, keep) if keep else changes, kind=kind)


def mask(classes: Any, changes: Any, *, kind: str = "probabilities") -> OutputFilter:
    """Return the filter that a plan, its changes or labels to remove make without rows."""
    return OutputFilter.mask(classes, changes, input=kind)


def with_kind(filter: OutputFilter, kind: str) -> OutputFilter:
    """Return the filter for rows of another kind."""
    return filter.taking(kind)


def at_temperature(filter: OutputFilter, temperature: float) -> OutputFilter:
    """Return the filter with another temperature."""
    return replace(filter, temperature=temperature)


class Run(NamedTuple):
    """What one pass of a filter finds."""

    confidences: np.ndarray
    removed_mass: np.ndarray
    not_allowed: np.ndarray


def run(filter: OutputFilter, confidences: Any, *, allow: Any = None, allow_by: Any = None) -> Run:
    """Return the new confidences of rows, and their mass on removed and other labels."""
    allow = _allowed(allow, allow_by)
    removed_mass = filter.removed_mass(confidences)
    not_allowed = np.zeros_like(removed_mass)
    if allow is not None:
        not_allowed = filter.not_allowed_mass(confidences, allow)
    return Run(filter.apply(confidences, allow=allow), removed_mass, not_allowed)


def apply(
    filter: OutputFilter, confidences: Any, *, allow: Any = None, allow_by: Any = None
) -> np.ndarray:
    """Return the new confidences of rows."""
    return filter.apply(confidences, allow=_allowed(allow, allow_by))


def _allowed(allow: Any, allow_by: Any) -> Any:
    """Return what rows may have, given labels, booleans, a mapping of names to labels or a file."""
    lists = _lists(allow)
    return allow if lists is None else lists if allow_by is None else lists.rows(allow_by)


def _lists(allow: Any) -> AllowLists | None:
    if isinstance(allow, os.PathLike):
        return AllowLists.read(allow)
    return AllowLists(allow) if isinstance(allow, Mapping) else None


def save(filter: OutputFilter, path: Any) -> None:
    """Write a filter, in the place of any file that is there."""
    filter.save(path, overwrite=True)


def load(path: Any) -> OutputFilter:
    """Read a filter."""
    return OutputFilter.load(path)


def save_plan(plan: LabelPlan, path: Any) -> None:
    """Write a plan, in the place of any file that is there."""
    plan.write(path, overwrite=True)


def changes(plan: LabelPlan) -> dict[Any, Any]:
    """Return the changes that a plan lists."""
    return dict(plan)


def load_plan(path: Any, **columns: Any) -> LabelPlan:
    """Read a plan."""
    return LabelPlan.read(path, **columns)


# What options of tables are called today.
TABLE_OPTIONS = {"answer": "top_label", "field": "list_column", "kind": "input"}


def apply_table(
    table: Any,
    filter: OutputFilter,
    out: Any,
    *,
    allow: Any = None,
    max_removed_mass: float | None = None,
    unknown: Any = None,
    **options: Any,
) -> Any:
    """Write a table with a filter applied to it, and return how many rows it has.

    The answer is unknown where the removed mass is above `max_removed_mass`.
    """
    from unlabel.tables import apply_table

    return apply_table(
        filter,
        table,
        out,
        allow=_lists(allow),
        unknown_above=max_removed_mass,
        unknown=unknown,
        overwrite=True,
        **{TABLE_OPTIONS.get(name, name): value for name, value in options.items()},
    )


def evaluate(
    confidences: Any,
    labels: Any,
    *,
    classes: Any = None,
    plan: Any = None,
    remove: Any = None,
    filter: OutputFilter | None = None,
    kind: str = "probabilities",
    retrained: Any = (),
) -> dict[str, Any]:
    """Return the figures of a change of labels, or of a fitted filter, on rows of true labels."""
    from unlabel.evaluation import summarise, try_filter, try_labels

    if filter is not None:
        return summarise(try_filter(filter, confidences, labels, retrained=retrained))
    changes = remove if plan is None else plan
    options = {"classes": classes, "remove": changes, "input": kind, "retrained": retrained}
    return summarise(try_labels(confidences, labels, **options))


def explore(
    confidences: Any,
    labels: Any = None,
    *,
    classes: Any,
    ids: Any = None,
    kind: str = "probabilities",
    **options: Any,
) -> str:
    """Return the HTML of a page to explore changes of labels on."""
    from unlabel.explore import render

    return render(confidences, classes, labels, ids, input=kind, **options)


def serve_once(
    filter: OutputFilter,
    response: Mapping[str, Any],
    request: Mapping[str, Any] | None = None,
    *,
    allow: Any = None,
    max_removed_mass: float | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return a model server's response, given as decoded JSON, with a filter applied to it."""
    from unlabel.serve import ServedFilter

    options |= {"allow": _lists(allow), "unknown_above": max_removed_mass}
    return ServedFilter(filter, **options).answer(response, request)


def to_torch(filter: OutputFilter, *, kind: str | None = None, **options: Any) -> Any:
    """Return a filter as a PyTorch module."""
    from unlabel.torch import FilterModule

    return FilterModule(filter, kind, **options)


def to_onnx(
    model: Any, filter: OutputFilter, *, kind: str | None = None, tensor: str | None = None
) -> Any:
    """Return an ONNX model with a filter appended."""
    from unlabel.onnx import graft

    return graft(model, filter, kind, output=tensor)
