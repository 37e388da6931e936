"""The ways into unlabel, under the names of the design: what is renamed is renamed here, once.

Modules are imported on use, since the core's tests run without the extras.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unlabel import AnswerRule, LabelPlan, OutputFilter, UnlabelError
from unlabel.fitting import fit_filter

__all__ = [
    "apply",
    "apply_table",
    "at_temperature",
    "draft",
    "evaluate",
    "explore",
    "fit",
    "mask",
    "research_tables",
    "run",
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
    allow_chance: bool = True,
    **options: Any,
) -> OutputFilter:
    """Return a fitted filter, without a word on its rows and however good the model is on them.

    Without confidences it is the one that a plan alone makes, a mask.
    """
    if confidences is None:
        return mask(classes, remove if plan is None else plan, **options)
    changes = {"plan": plan, "remove": remove, "keep": keep}
    options |= {"classes": classes, "allow_chance": allow_chance}
    return OutputFilter(**fit_filter(confidences, labels, **changes, **options).state)


def mask(classes: Any, changes: Any, *, kind: str = "probabilities") -> OutputFilter:
    """Return the filter that a plan, its changes or labels to remove make without rows."""
    plan = changes if isinstance(changes, LabelPlan | Mapping) else LabelPlan(changes)
    return OutputFilter.from_plan(plan, classes=classes, kind=kind)


def with_kind(filter: OutputFilter, kind: str) -> OutputFilter:
    """Return the filter for rows of another kind."""
    return replace(filter, kind=kind)


def at_temperature(filter: OutputFilter, temperature: float) -> OutputFilter:
    """Return the filter with another temperature."""
    return replace(filter, temperature=temperature)


def draft(path: Any, **columns: Any) -> Any:
    """Return the draft of a plan from a table of pairs."""
    from unlabel._plans.draft import draft_pairs

    return draft_pairs(path, **columns)


def run(filter: OutputFilter, confidences: Any, **options: Any) -> Any:
    """Return the new confidences of rows, and their mass on removed and other labels."""
    return filter.run(confidences, **options)


def apply(filter: OutputFilter, confidences: Any, **options: Any) -> Any:
    """Return the new confidences of rows."""
    return filter.apply(confidences, **options)


# What options of tables are called today.
TABLE_OPTIONS = {"answer": "top_label", "field": "list_column"}


def apply_table(
    table: Any,
    filter: OutputFilter,
    out: Any,
    *,
    rule: AnswerRule | None = None,
    **options: Any,
) -> Any:
    """Write a table with a filter applied to it, and return how many rows it has."""
    from unlabel.tables import apply_table

    options = {TABLE_OPTIONS.get(name, name): value for name, value in options.items()}
    return apply_table(filter, table, out, rule=rule, force=True, **options)


def evaluate(
    confidences: Any,
    labels: Any,
    *,
    filter: OutputFilter | None = None,
    retrained: Any = (),
    **options: Any,
) -> dict[str, Any]:
    """Return the figures of a change of labels, or of a fitted filter, on rows of true labels."""
    from unlabel.evaluation import summarise, try_filter, try_labels

    if filter is not None:
        return summarise(try_filter(filter, confidences, labels, retrained=retrained))
    return summarise(try_labels(confidences, labels, retrained=retrained, **options))


def explore(confidences: Any, labels: Any = None, *, classes: Any, **options: Any) -> str:
    """Return the HTML of a page to explore changes of labels on."""
    from unlabel.explore import render

    return render(confidences, classes, labels, **options)


def serve_once(
    filter: OutputFilter,
    response: Mapping[str, Any],
    request: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return a model server's response, given as decoded JSON, with a filter applied to it."""
    from unlabel.serve import ServedFilter

    return ServedFilter(filter, **options).answer(response, request)


def to_torch(filter: OutputFilter, **options: Any) -> Any:
    """Return a filter as a PyTorch module."""
    from unlabel.torch import FilterModule

    return FilterModule(filter, **options)


def to_onnx(
    model: Any, filter: OutputFilter, *, kind: str | None = None, tensor: str | None = None
) -> Any:
    """Return an ONNX model with a filter appended."""
    from unlabel.onnx import attach

    return attach(model, filter, kind, output=tensor)


def research_tables(results: Any, out: Any) -> str:
    """Return the printed tables of a folder of results, which are written to another folder."""
    from commands import research

    code, printed, trouble = research("tables", results, "--out", out)
    if code:
        raise UnlabelError(trouble)
    return printed
