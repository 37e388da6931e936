"""The figures of a trial as plain data, the one source of every report.

A summary holds dicts, lists, texts and numbers alone, as `evaluation.summary_layout` describes.
A figure that does not exist (no retrained model, no rows of that kind, infinite coverage) is
None.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel import metrics
from unlabel._files.atomic import cannot_read, require_file, whole_file
from unlabel._files.filter_file import no_constant
from unlabel._labels import known_columns
from unlabel._typing import Floats
from unlabel.errors import UnlabelError
from unlabel.evaluation.summary_layout import SUMMARY, check_summary
from unlabel.evaluation.trial import AGAIN, BASE, RETRAINED, Trial
from unlabel.validation import true_columns

Summary = dict[str, Any]
Progress = Callable[[float], None]

# Hundreds of thousands of labels. Read whole, a hostile file of this size takes two gigabytes.
MAX_BYTES = 64 << 20
MOST_DESTINATIONS = 8
MOST_CHANGED = 10


def summarise(trial: Trial, progress: Progress = lambda part: None) -> Summary:
    """Compute every figure of a trial."""
    judge = _Judge(trial)
    again = trial.candidates.get(AGAIN)
    floor = None if again is None else judge.divergences(again.output())
    figures: list[Summary] = [{"output": BASE, "temperature": None} | judge.base_figures()]
    reliability = {BASE: judge.reliability(judge.base, judge.every)}
    details: Summary = {}
    for number, (name, candidate) in enumerate(trial.candidates.items(), start=1):
        output = candidate.output()
        figures.append(
            {"output": name, "temperature": candidate.filter.temperature}
            | judge.figures(output, floor, is_goal=name == RETRAINED)
        )
        reliability[name] = judge.reliability(output, judge.retained)
        if name == trial.shown:
            details = judge.details(output)
        progress(number / len(trial.candidates))
    summary: Summary = plain(
        {
            "summary": SUMMARY,
            "unlabel": version("unlabel"),
            "shown": trial.shown,
            "labels": {"removed": trial.removed, "retained": trial.retained},
            "rows": {
                "judged": len(judge.base),
                "of_retained_labels": int((~judge.of_removed).sum()),
                "of_removed_labels": int(judge.of_removed.sum()),
                "fitted_on": trial.rows_fitted_on,
            },
            "epsilon": metrics.EPSILON,
            "figures": figures,
            "seed_floor": floor,
            "reliability": reliability,
            "notes": trial.notes,
        }
        | details
    )
    return summary


class _Judge:
    """The rows of a trial, by which outputs are judged. Labels are their columns in it."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.base = trial.base.output()
        self.truth = true_columns(trial.labels, trial.classes, len(self.base))
        self.every = range(len(trial.classes))
        self.retained = known_columns(trial.retained, trial.classes).tolist()
        self.removed = known_columns(trial.removed, trial.classes).tolist()
        self.of_removed = np.isin(self.truth, self.removed)
        if self.of_removed.all():
            raise UnlabelError("There are no rows of labels that remain: give some to judge by.")
        goal = trial.candidates.get(RETRAINED)
        self.goal = None if goal is None else goal.output()

    def base_figures(self) -> Summary:
        """Figures of the base model, which still has all labels."""
        labels, classes, retained, removed = self.truth, self.every, self.retained, self.removed
        seen = metrics.coverage(self.base, labels, classes, retained)
        return {
            "accuracy": {
                "retained": metrics.mean_accuracy(self.base, labels, classes, retained),
                "removed": metrics.mean_accuracy(self.base, labels, classes, removed),
            },
            "coverage": {
                "retained": seen.value,
                "removed": metrics.coverage(self.base, labels, classes, removed).value,
            },
            "ties": seen.tie_share,
            "log_loss": metrics.log_loss(self.base, labels, classes, retained),
            "calibration_error": metrics.expected_calibration_error(
                self.base, labels, classes, retained
            ),
        }

    def figures(self, output: Floats, floor: Summary | None, *, is_goal: bool) -> Summary:
        """Figures of an output over the labels that remain."""
        labels, retained = self.truth, self.retained
        seen = metrics.coverage(output, labels, retained)
        changed = metrics.top_label_changed(self.base, self.every, output, retained)
        padded = metrics.on_all(output, retained, self.every)
        result: Summary = {
            "accuracy": {
                "retained": metrics.mean_accuracy(output, labels, retained),
                "removed": metrics.mean_accuracy(output, labels, retained, self.removed),
            },
            "coverage": {"retained": seen.value, "removed": None},
            "ties": seen.tie_share,
            "log_loss": metrics.log_loss(output, labels, retained),
            "calibration_error": metrics.expected_calibration_error(output, labels, retained),
            "kl_to_base": self.by_kind(metrics.kl_divergence(padded, self.base)),
            "changed": self.by_kind(changed),
            "attack_auc": self.attack(output),
            "to_retrained": None,
            "over_floor": None,
        }
        if self.goal is not None and not is_goal:
            result["to_retrained"] = self.divergences(output)
            if floor is not None:
                result["over_floor"] = {
                    name: {kind: _ratio(value, floor[name][kind]) for kind, value in kinds.items()}
                    for name, kinds in result["to_retrained"].items()
                }
        return result

    def divergences(self, output: Floats) -> Summary:
        """Divergences of an output from the retrained model."""
        return {
            "kl": self.by_kind(metrics.kl_divergence(output, self.goal)),
            "js": self.by_kind(metrics.jensen_shannon(output, self.goal)),
        }

    def by_kind(self, values: npt.NDArray[Any]) -> dict[str, float | None]:
        """Means over the inputs of retained and of removed labels."""
        kinds = {"retained": values[~self.of_removed], "removed": values[self.of_removed]}
        return {kind: float(of.mean()) if len(of) else None for kind, of in kinds.items()}

    def attack(self, output: Floats) -> float | None:
        """The attack's success, where there are rows enough for one."""
        try:
            return metrics.attack_auc(output[self.of_removed], output[~self.of_removed])
        except UnlabelError:
            return None

    def reliability(self, output: Floats, classes: Sequence[int]) -> list[Summary]:
        """Confidence and accuracy on inputs of retained labels, bin by bin."""
        bins = metrics.reliability_bins(output, self.truth, classes, self.retained)
        return [
            {"confidence": confidence, "accuracy": accuracy, "rows": rows}
            for confidence, accuracy, rows in zip(*bins, strict=True)
            if rows
        ]

    def details(self, output: Floats) -> Summary:
        """What one filter does: label by label, and to single rows."""
        mass = metrics.removed_mass(self.base, self.every, self.removed)
        changed = metrics.top_label_changed(self.base, self.every, output, self.retained)
        kinds = {"retained": changed & ~self.of_removed, "removed": changed & self.of_removed}
        return {
            "moved_mass": self.by_kind(mass),
            "changed_rows": {kind: int(rows.sum()) for kind, rows in kinds.items()},
            "by_label": self._by_label(output),
            "destinations": self._destinations(output),
            "most_changed": {
                kind: self._most_changed(output, rows) for kind, rows in kinds.items()
            },
        }

    def _by_label(self, output: Floats) -> list[Summary]:
        before = metrics.label_accuracy(self.base, self.truth, self.every)
        after = metrics.label_accuracy(output, self.truth, self.retained, self.every)
        after[self.removed] = np.nan
        rows = np.bincount(self.truth, minlength=len(self.every))
        return [
            {"label": label, "rows": rows[i], "before": before[i], "after": after[i]}
            for i, label in enumerate(self.trial.classes)
        ]

    def _destinations(self, output: Floats) -> list[Summary]:
        matrix = metrics.destination_matrix(output, self.truth, self.retained, self.removed)
        rows = np.bincount(self.truth, minlength=len(self.every))
        return [
            {
                "label": label,
                "rows": rows[column],
                "to": [
                    {"label": self.trial.retained[at], "share": mixture[at]}
                    for at in np.argsort(-mixture, kind="stable")[:MOST_DESTINATIONS]
                    if mixture[at] > 0
                ],
            }
            for label, column, mixture in zip(self.trial.removed, self.removed, matrix, strict=True)
        ]

    def _most_changed(self, output: Floats, among: npt.NDArray[np.bool_]) -> list[Summary]:
        rows = np.flatnonzero(among)
        padded = metrics.on_all(output[rows], self.retained, self.every)
        distance = metrics.jensen_shannon(padded, self.base[rows])
        result = []
        for row in rows[np.argsort(-distance, kind="stable")[:MOST_CHANGED]]:
            before, after = self.base[row].argmax(), output[row].argmax()
            result.append(
                {
                    "row": self.trial.row_numbers[row],
                    "label": self.trial.labels[row],
                    "before": self.trial.classes[before],
                    "before_confidence": self.base[row, before],
                    "after": self.trial.retained[after],
                    "after_confidence": output[row, after],
                }
            )
        return result


def write_summary(summary: Summary, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a summary as JSON."""
    with whole_file(path, overwrite=overwrite) as part:
        part.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_summary(path: str | os.PathLike[str]) -> Summary:
    """Read a summary that `write_summary` wrote: what is another thing is refused."""
    file = require_file(path)
    try:
        with file.open("rb") as content:
            text = content.read(MAX_BYTES + 1)
    except OSError as error:
        raise cannot_read(file, error) from error
    if len(text) > MAX_BYTES:
        raise UnlabelError(f"{path} has over {MAX_BYTES >> 20} MiB, more than a summary has.")
    try:
        summary: Summary = json.loads(text.decode("utf-8"), parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise UnlabelError(
            f"{path} is not JSON: give what unlabel evaluate --json wrote."
        ) from error
    if not isinstance(summary, dict) or summary.get("summary") != SUMMARY:
        raise UnlabelError(
            f"{path} is not a summary of this version: make one with unlabel evaluate --json."
        )
    try:
        check_summary(summary)
    except UnlabelError as error:
        raise UnlabelError(
            f"{path} is not a summary as unlabel evaluate --json wrote it: "
            f"{str(error).rstrip('.')}. Make it anew."
        ) from error
    return summary


def _ratio(value: float | None, floor: float | None) -> float | None:
    return None if value is None or floor is None else metrics.ratio_to_seed_floor(value, floor)


def plain(value: Any) -> Any:
    """Plain data for JSON: no NumPy types, None for what is not finite."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
