"""The ways into unlabel and its experiments, under the names of the design: renamed here, once.

Modules are imported on use, since the core's tests run without the extras.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from unlabel import AnswerRule, LabelPlan, OutputFilter, UnlabelError
from unlabel.fitting import fit_filter

__all__ = [
    "apply",
    "apply_table",
    "as_suite",
    "at_temperature",
    "build_network",
    "draft",
    "evaluate",
    "explore",
    "fit",
    "load_set",
    "mask",
    "method_names",
    "pieces_left",
    "replace_method",
    "research_tables",
    "run",
    "run_method",
    "run_study",
    "serve_once",
    "settings_of",
    "store",
    "stored",
    "to_onnx",
    "to_torch",
    "with_kind",
    "with_settings",
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


def method_names() -> list[str]:
    """Return the names of the methods of the experiments, in the order in which they run."""
    from research.registry import METHODS

    return [*METHODS]


def run_method(name: str, task: Any) -> Any:
    """Return what a method of the experiments makes of a task."""
    from research.registry import METHODS

    return METHODS[name].run(task)


def replace_method(patch: Any, name: str, around: Callable[[Any], Any]) -> None:
    """Run something else, made of a method of the experiments, until a patch is undone."""
    from research.registry import METHODS

    patch.setitem(METHODS, name, replace(METHODS[name], run=around(METHODS[name].run)))


def settings_of(study: Any, method: str) -> Any:
    """Return the settings of a method in a study."""
    return study.settings[method]


def with_settings(study: Any, method: str, **changes: Any) -> Any:
    """Return a study with other settings of a method."""
    changed = replace(study.settings[method], **changes)
    return replace(study, settings={**study.settings, method: changed})


def as_suite(patch: Any, study: Any, suite: str = "quick") -> None:
    """Run one study in place of a suite, until a patch is undone."""
    from research.suites import SUITES

    patch.setitem(SUITES, suite, (study,))


def run_study(out: Path, *only: str, suite: str = "quick", **options: Any) -> dict[str, list[str]]:
    """Run the unfinished pieces of a suite, and return those that failed, by error message."""
    from research.runner import run_studies
    from research.suites import chosen

    return run_studies(chosen(suite), out=out, only=only, **options)


def pieces_left(study: Any, out: Path, *only: str) -> list[str]:
    """Return the pieces of a study that are not finished, each with its cell and its method."""
    from research.runner import pieces_left

    return [str(piece) for piece in pieces_left((study,), out, only)]


def stored(out: Path, cell: Any) -> Any:
    """Return the stored result of a cell: its facts, arrays and filter."""
    from research.results.files import read_result

    return read_result(out, cell)


def store(out: Path, cell: Any, facts: Any, arrays: Any = None, filter: Any = None) -> None:
    """Store the result of a cell."""
    from research.results.files import Result, write_result

    write_result(out, Result(cell, facts, arrays or {}, filter))


def load_set(name: str, folder: Path) -> Any:
    """Return an image set of the experiments."""
    from research.datasets import load_set

    return load_set(name, folder)


def build_network(name: str, labels: int, pretrained: Path | None = None) -> Any:
    """Return an untrained network of the experiments, or one with ImageNet weights."""
    from research import models

    if pretrained is None:
        return models.build(name, labels)
    return models.build_pretrained(name, labels, pretrained)


def research_tables(results: Any, out: Any) -> str:
    """Return the printed tables of a folder of results, which are written to another folder."""
    from commands import research

    code, printed, trouble = research("tables", results, "--out", out)
    if code:
        raise UnlabelError(trouble)
    return printed
