"""The metrics of a trial as plain data, the one source of every report.

A summary holds only dicts, lists, texts and numbers, as `evaluation.summary_layout` describes. A
value that does not exist (no retrained model, no rows of that kind, infinite coverage) is None.
"""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from typing import Any

import numpy as np

from unlabel import metrics
from unlabel._files.atomic import whole_file
from unlabel._files.text_file import parse_json, read_text
from unlabel._plans.outcome import SPLIT, digest_of
from unlabel._typing import Progress
from unlabel.errors import UnlabelError, located
from unlabel.evaluation.details import Details
from unlabel.evaluation.judge import Judge
from unlabel.evaluation.summary_check import check_summary
from unlabel.evaluation.summary_layout import BEFORE_AND_AFTER, SUMMARY
from unlabel.evaluation.trial import AGAIN, BASE, RETRAINED, Trial
from unlabel.evaluation.truth import NO_LABEL
from unlabel.filter import OutputFilter, outcome_of_filter

Summary = dict[str, Any]


def summarise(trial: Trial, progress: Progress = lambda part: None) -> Summary:
    """Compute every metric of a trial."""
    judge, fitted = Judge(trial), trial.fitted
    own, before = judge.base_metrics()
    again = trial.candidates.get(AGAIN)
    floor = None if again is None else judge.divergences(again.output())
    figures: list[Summary] = [{"output": BASE, "temperature": None} | own]
    details: Summary = {}
    for number, (name, candidate) in enumerate(trial.candidates.items(), start=1):
        filtered = candidate.run()
        output = filtered.confidences
        answers = judge.answers(filtered, is_filter=not name.startswith(RETRAINED))
        figures.append(
            {"output": name, "temperature": candidate.filter.temperature}
            | judge.shared_metrics(output, judge.after)
            | judge.metrics_after(output, answers, floor, is_goal=name == RETRAINED)
        )
        if name == trial.shown:
            details = Details(judge, filtered, answers).to_dict()
            details["impact"] = judge.impact(answers) | {
                "before": {metric: before[metric] for metric in BEFORE_AND_AFTER},
                "after": {metric: figures[-1][metric] for metric in BEFORE_AND_AFTER},
            }
        progress(number / len(trial.candidates))
    summary: Summary = plain(
        {
            "summary": SUMMARY,
            "unlabel": version("unlabel"),
            "made_from": trial.sources.to_dict(),
            "truth": trial.truth if judge.has_truth else None,
            "same_recipe": trial.same_recipe,
            "shown": trial.shown,
            "plan": {
                "title": fitted.plan.title,
                "note": fitted.plan.note,
                "digest": digest_of(fitted.plan),
            },
            "labels": {
                "model": fitted.classes_in,
                "removed": fitted.removed,
                "retained": fitted.classes_out,
                "changes": _changes(fitted),
            },
            "rows": {
                "judged": len(judge.base),
                "of_retained_labels": judge.kinds["retained"].sum(),
                "of_removed_labels": judge.kinds["removed"].sum(),
                "of_split_labels": (judge.to == SPLIT).sum(),
                "without_true_label": (judge.to == NO_LABEL).sum(),
                "fitted_on": trial.rows_fitted_on,
            },
            "epsilon": metrics.EPSILON,
            "figures": figures,
            "floor": floor,
            "reliability": {figure["output"]: figure.pop("bins") for figure in figures},
            "notes": trial.notes,
        }
        | details
    )
    return summary


def _changes(fitted: OutputFilter) -> list[Summary]:
    """List the labels that do not simply stay, and where they go: nowhere if they are removed."""
    outcome = outcome_of_filter(fitted)
    merge = outcome.merge
    sources = targets = np.arange(len(outcome.retained))
    weights = np.ones(len(sources))
    if merge is not None:
        sources, targets, weights = merge.sources, merge.targets, merge.weights
    to: list[list[Summary]] = [[] for _ in fitted.classes_in]
    for column, target, weight in zip(outcome.retained[sources], targets, weights, strict=True):
        to[column].append({"label": outcome.classes[target], "weight": weight})
    return [
        {"from": label, "to": parts}
        for label, parts in zip(fitted.classes_in, to, strict=True)
        if [part["label"] for part in parts] != [label]
    ]


def write_summary(summary: Summary, path: str | os.PathLike[str]) -> None:
    """Write a summary as JSON, whole or not at all."""
    with whole_file(path) as part:
        part.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_summary(path: str | os.PathLike[str]) -> Summary:
    """Read a summary that `write_summary` wrote, or raise an error for anything else."""
    text, _ = read_text(path)
    advice = "evaluate the change again."
    with located(path):
        summary: Summary = parse_json(text)
        if not isinstance(summary, dict) or summary.get("summary") != SUMMARY:
            raise UnlabelError(f"It is not a summary of this version: {advice}")
        try:
            check_summary(summary)
        except UnlabelError as error:
            reason = error.problem.rstrip(".")
            raise UnlabelError(f"It is not a valid summary ({reason}): {advice}") from error
    return summary


def plain(value: Any) -> Any:
    """Turn NumPy's types into plain ones for JSON, and numbers that are not finite into None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
