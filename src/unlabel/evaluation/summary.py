"""The metrics of a trial as plain data, the one source of every report.

A summary holds only dicts, lists, texts and numbers, as `evaluation.summary_layout` describes. A
value that does not exist (no retrained model, no rows of that kind, infinite coverage) is None.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel import metrics
from unlabel._files.atomic import cannot_read, require_file, whole_file
from unlabel._files.filter_file import no_constant
from unlabel._labels import known_columns
from unlabel._typing import Float64s, Floats, Progress
from unlabel.errors import UnlabelError
from unlabel.evaluation.summary_layout import SUMMARY, check_summary
from unlabel.evaluation.trial import AGAIN, BASE, RETRAINED, Trial
from unlabel.metrics._rows import by_row, drawn_rows, kl_of, mean_of_known
from unlabel.validation import true_columns

Summary = dict[str, Any]

# Enough for hundreds of thousands of labels. A hostile file of this size takes 2 GB to read.
MAX_BYTES = 64 << 20
MOST_DESTINATIONS = 8
MOST_CHANGED = 10


def summarise(trial: Trial, progress: Progress = lambda part: None) -> Summary:
    """Compute every metric of a trial."""
    judge = _Judge(trial)
    again = trial.candidates.get(AGAIN)
    floor = None if again is None else judge.divergences(again.output())
    figures: list[Summary] = [
        {"output": BASE, "temperature": None} | judge.shared_metrics(judge.base, judge.every)
    ]
    details: Summary = {}
    for number, (name, candidate) in enumerate(trial.candidates.items(), start=1):
        output = candidate.output()
        figures.append(
            {"output": name, "temperature": candidate.filter.temperature}
            | judge.shared_metrics(output, judge.retained)
            | judge.metrics_after(output, floor, is_goal=name == RETRAINED)
        )
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
                "of_retained_labels": judge.kinds["retained"].sum(),
                "of_removed_labels": judge.kinds["removed"].sum(),
                "fitted_on": trial.rows_fitted_on,
            },
            "epsilon": metrics.EPSILON,
            "figures": figures,
            "seed_floor": floor,
            "reliability": {figure["output"]: figure.pop("bins") for figure in figures},
            "notes": trial.notes,
        }
        | details
    )
    return summary


class _Judge:
    """The judged rows of a trial; its labels are columns of the base model."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.base = trial.base.output()
        self.truth = true_columns(trial.labels, trial.classes, len(self.base))
        self.every = range(len(trial.classes))
        self.retained = known_columns(trial.retained, trial.classes).tolist()
        self.removed = known_columns(trial.removed, trial.classes).tolist()
        self.labels = {"retained": self.retained, "removed": self.removed}
        self.kinds = {kind: np.isin(self.truth, labels) for kind, labels in self.labels.items()}
        if not self.kinds["retained"].any():
            raise UnlabelError("There are no rows of retained labels: give some to judge by.")
        # The very rows that `attack_auc` would draw, and which are then all that it is given.
        self.attacked = drawn_rows(map(np.flatnonzero, self.kinds.values()), metrics.ATTACK_ROWS)
        self.top = self.base.argmax(axis=1)
        goal = trial.candidates.get(RETRAINED)
        self.goal = None if goal is None else goal.output()

    def shared_metrics(self, output: Floats, classes: Sequence[int]) -> Summary:
        """Compute the metrics that the base model has too."""
        judged = (output, self.truth, classes)
        accuracy = metrics.label_accuracy(*judged, self.every)
        ranks = {kind: metrics.coverage(*judged, over) for kind, over in self.labels.items()}
        bins = metrics.reliability_bins(*judged, self.retained)
        return {
            "accuracy": {kind: mean_of_known(accuracy[at]) for kind, at in self.labels.items()},
            "coverage": {kind: of_kind.value for kind, of_kind in ranks.items()},
            "ties": ranks["retained"].tie_share,
            "log_loss": metrics.log_loss(*judged, self.retained),
            "calibration_error": bins.calibration_error,
            "bins": [
                {"confidence": confidence, "accuracy": accuracy, "rows": rows}
                for confidence, accuracy, rows in zip(*bins, strict=True)
                if rows
            ],
        }

    def metrics_after(self, output: Floats, floor: Summary | None, *, is_goal: bool) -> Summary:
        """Compare an output over the retained labels with the base and the retrained model."""
        to_base = partial(kl_of, epsilon=metrics.EPSILON, columns=self.retained)
        to_retrained = None if self.goal is None or is_goal else self.divergences(output)
        return {
            "kl_to_base": self.by_kind(by_row(to_base, output, self.base)),
            "changed": self.by_kind(self.changed(output)),
            "attack_auc": self.attack(output),
            "to_retrained": to_retrained,
            "over_floor": to_retrained and floor and _ratios(to_retrained, floor),
        }

    def changed(self, output: Floats) -> npt.NDArray[np.bool_]:
        """Tell which rows have another top label than the base model's."""
        return np.asarray(self.top != np.take(self.retained, output.argmax(axis=1)))

    def divergences(self, output: Floats) -> Summary:
        """Compute the divergences of an output from the retrained model."""
        return {
            "kl": self.by_kind(metrics.kl_divergence(output, self.goal)),
            "js": self.by_kind(metrics.jensen_shannon(output, self.goal)),
        }

    def by_kind(self, values: npt.NDArray[Any]) -> dict[str, float]:
        """Average over the inputs of retained and of retired labels."""
        return {
            kind: float(values[rows].mean()) if rows.any() else np.nan
            for kind, rows in self.kinds.items()
        }

    def attack(self, output: Floats) -> float | None:
        """Measure the attack's success, if there are enough rows for one."""
        try:
            retained, removed = self.attacked
            return metrics.attack_auc(output[removed], output[retained])
        except UnlabelError:
            return None

    def details(self, output: Floats) -> Summary:
        """Describe what one filter does to labels and to single rows."""
        trial, changed = self.trial, self.changed(output)
        kinds = {kind: changed & rows for kind, rows in self.kinds.items()}
        n_rows = np.bincount(self.truth, minlength=len(self.every))
        before = metrics.label_accuracy(self.base, self.truth, self.every)
        after = metrics.label_accuracy(output, self.truth, self.retained, self.every)
        after[self.removed] = np.nan
        mixtures = metrics.destination_matrix(output, self.truth, self.retained, self.removed)
        return {
            "moved_mass": self.by_kind(metrics.removed_mass(self.base, self.every, self.removed)),
            "changed_rows": {kind: rows.sum() for kind, rows in kinds.items()},
            "by_label": [
                {"label": label, "rows": n_rows[i], "before": before[i], "after": after[i]}
                for i, label in enumerate(trial.classes)
            ],
            "destinations": [
                {"label": label, "rows": n_rows[column], "to": self._largest(mixture)}
                for label, column, mixture in zip(
                    trial.removed, self.removed, mixtures, strict=True
                )
            ],
            "most_changed": {k: self._most_changed(output, rows) for k, rows in kinds.items()},
        }

    def _largest(self, mixture: Float64s) -> list[Summary]:
        return [
            {"label": self.trial.retained[column], "share": mixture[column]}
            for column in np.argsort(-mixture, kind="stable")[:MOST_DESTINATIONS]
            if mixture[column] > 0
        ]

    def _most_changed(self, output: Floats, among: npt.NDArray[np.bool_]) -> list[Summary]:
        rows = np.flatnonzero(among)
        padded = metrics.on_all(output[rows], self.retained, self.every)
        distance = metrics.jensen_shannon(padded, self.base[rows])
        largest = rows[np.argsort(-distance, kind="stable")[:MOST_CHANGED]]
        return [
            {
                "row": self.trial.row_numbers[row],
                "label": self.trial.labels[row],
                "before": self.trial.classes[self.base[row].argmax()],
                "before_confidence": self.base[row].max(),
                "after": self.trial.retained[output[row].argmax()],
                "after_confidence": output[row].max(),
            }
            for row in largest
        ]


def write_summary(summary: Summary, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write a summary as JSON."""
    with whole_file(path, overwrite=overwrite) as part:
        part.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_summary(path: str | os.PathLike[str]) -> Summary:
    """Read a summary that `write_summary` wrote; anything else is refused."""
    file = require_file(path)
    try:
        with file.open("rb") as content:
            text = content.read(MAX_BYTES + 1)
    except OSError as error:
        raise cannot_read(file, error) from error
    if len(text) > MAX_BYTES:
        raise UnlabelError(f"{path} is larger than {MAX_BYTES >> 20} MiB, too large for a summary.")
    advice = "make one with unlabel evaluate --json."
    try:
        summary: Summary = json.loads(text.decode("utf-8"), parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise UnlabelError(f"{path} is not a JSON summary: {advice}") from error
    if not isinstance(summary, dict) or summary.get("summary") != SUMMARY:
        raise UnlabelError(f"{path} is not a summary of this version: {advice}")
    try:
        check_summary(summary)
    except UnlabelError as error:
        reason = str(error).rstrip(".")
        raise UnlabelError(f"{path} is not a valid summary ({reason}): {advice}") from error
    return summary


def _ratios(divergences: Summary, floor: Summary) -> Summary:
    return {
        name: {
            kind: metrics.ratio_to_seed_floor(value, floor[name][kind])
            for kind, value in kinds.items()
        }
        for name, kinds in divergences.items()
    }


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
