"""The judged rows of a trial, and the metrics of each output on them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unlabel import metrics
from unlabel._method.masses import row_blocks
from unlabel._plans.outcome import REMOVED
from unlabel._typing import Booleans, Columns, Float64s, Floats
from unlabel.answers import answer_columns
from unlabel.errors import UnlabelError
from unlabel.evaluation.impact import Answers, Values
from unlabel.evaluation.summary_layout import rule_as_dict
from unlabel.evaluation.trial import RETRAINED, Trial
from unlabel.evaluation.truth import NO_LABEL, destinations, true_labels_of
from unlabel.filter import FilteredRows, outcome_of_filter
from unlabel.metrics._rows import (
    by_row,
    kl_of,
    mean_of_known,
    normalised,
)
from unlabel.validation import true_columns


class _Truth(NamedTuple):
    """The true labels as numbers, the first of which are the columns of an output."""

    rows: Columns
    n_outputs: int
    over: dict[str, list[int]]  # the numbers of the labels of each kind

    def of(self, output: Floats) -> tuple[Floats, Columns, range]:
        """Return the first arguments of a metric."""
        return output, self.rows, range(self.n_outputs)


class Judge:
    """The judged rows of a trial, by kind.

    Rows of split labels are of neither kind: their new label is not known. Without true labels, no
    row is of any kind.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial, self.outcome = trial, outcome_of_filter(trial.fitted)
        self.base = trial.base.output()
        n_after, n_removed = len(self.outcome.classes), len(self.outcome.removed)
        self.known = true_labels_of(trial.classes, self.outcome, trial.truth)
        self.to_of_label = destinations(self.known.numbers, self.outcome)
        self.has_truth = trial.labels is not None
        truth = np.full(len(self.base), -1)
        numbers = truth
        if self.has_truth:
            truth = true_columns(trial.labels, self.known.labels, len(self.base))
            numbers = self.known.numbers[truth]
        self.truth = truth
        self.to = np.where(truth < 0, NO_LABEL, self.to_of_label[truth])  # the result's column
        self.kinds = {"retained": self.to >= 0, "removed": self.to == REMOVED}
        if self.has_truth and not self.kinds["retained"].any():
            raise UnlabelError("There are no rows of retained labels: give some to judge by.")
        # Labels that the result does not have are numbered after those that it has.
        removed = [*range(n_after, n_after + n_removed)]
        over = {"retained": [*range(n_after)], "removed": removed}
        self.after = _Truth(numbers, n_after, over)
        self.added = _Truth(numbers, n_after + n_removed, over)
        self.top = self.base.argmax(axis=1)
        goal = trial.candidates.get(RETRAINED)
        self.goal = None if goal is None else goal.output()

    def base_metrics(self) -> tuple[Values, Values]:
        """Compute the metrics of the base model, and of its confidences added up by destination.

        The second are what to compare an output with, like with like: confidences are added up by
        destination as in the output, but those of removed labels stay where they are, beside the
        new ones. Only these are known if true labels are new; the base model has them, too, then.
        """
        if not self.has_truth:
            return (self.shared_metrics(self.base, self.after),) * 2
        added = self._added_up_beside_removed()
        if self.trial.truth == "new":
            return (self.shared_metrics(added, self.added),) * 2
        judged, retained = self.added.of(added), self.added.over["retained"]
        before = {
            "log_loss": metrics.log_loss(*judged, retained),
            "calibration_error": metrics.expected_calibration_error(*judged, retained),
        }
        del added, judged  # as large as the table
        of_label = self.outcome.columns
        over = {
            "retained": np.flatnonzero(of_label >= 0).tolist(),
            "removed": self.outcome.removed.tolist(),
        }
        own = _Truth(self.truth, len(of_label), over)
        return self.shared_metrics(self.base, own), before

    def _added_up_beside_removed(self) -> Floats:
        """Add the base model's confidences up by destination, with those of removed labels last."""
        n_columns = len(self.outcome.classes) + len(self.outcome.removed)
        dtype = np.promote_types(self.base.dtype, np.float32)
        result = np.empty((len(self.base), n_columns), dtype=dtype)
        blocks = row_blocks(self.base), row_blocks(result, self.base.shape[1])
        for block, out in zip(*blocks, strict=True):
            rows = normalised(block)
            out[:] = np.hstack([self.added_up(rows), rows[:, self.outcome.removed]])
        return result

    def shared_metrics(self, output: Floats, truth: _Truth) -> Values:
        """Compute the metrics that the base model has too."""
        if not self.has_truth:
            none = dict.fromkeys(self.kinds)
            values = dict.fromkeys(("ties", "log_loss", "calibration_error"))
            return {"accuracy": none, "share_right": none, "coverage": none, **values, "bins": []}
        judged = truth.of(output)
        every = range(truth.n_outputs + len(self.trial.classes))
        accuracy = metrics.label_accuracy(*judged, every)
        ranks = {kind: metrics.coverage(*judged, over) for kind, over in truth.over.items()}
        bins = metrics.reliability_bins(*judged, truth.over["retained"])
        return {
            "accuracy": {kind: mean_of_known(accuracy[over]) for kind, over in truth.over.items()},
            "share_right": self.by_kind(output.argmax(axis=1) == truth.rows),
            "coverage": {kind: of_kind.value for kind, of_kind in ranks.items()},
            "ties": ranks["retained"].tie_share,
            "log_loss": metrics.log_loss(*judged, truth.over["retained"]),
            "calibration_error": bins.calibration_error,
            "bins": [
                {"confidence": confidence, "accuracy": accuracy, "rows": rows}
                for confidence, accuracy, rows in zip(*bins, strict=True)
                if rows
            ],
        }

    def answers(self, filtered: FilteredRows, *, is_filter: bool) -> Answers:
        """Compare the answers of an output with the base model's; only filters know unknown."""
        rows, mass, _ = filtered
        rule = self.trial.rule if is_filter else None
        return Answers(
            self.trial.classes,
            self.outcome,
            self.top,
            rows.argmax(axis=1),
            None if rule is None else answer_columns(rule, self.outcome.classes, rows, mass) < 0,
            self.to if self.has_truth else None,
        )

    def metrics_after(
        self, output: Floats, answers: Answers, floor: Values | None, *, is_goal: bool
    ) -> Values:
        """Compare an output over the result's labels with the base and the retrained model."""
        changes = {"impact": answers.counts()}
        if not self.has_truth:
            none = dict.fromkeys(self.kinds)
            values = dict.fromkeys(("to_retrained", "over_floor"))
            return changes | {"kl_to_base": none, "changed": none, **values}
        to_base = partial(kl_of, epsilon=metrics.EPSILON, reduce=self.added_up)
        to_retrained = None if self.goal is None or is_goal else self.divergences(output)
        return changes | {
            "kl_to_base": self.by_kind(by_row(to_base, output, self.base)),
            "changed": self.by_kind(self.top_changed(answers)),
            "to_retrained": to_retrained,
            "over_floor": to_retrained and floor and _ratios(to_retrained, floor),
        }

    def added_up(self, rows: Float64s) -> Float64s:
        """Add up confidences in the model's labels by destination; removed labels have none."""
        retained, merge = self.outcome.retained, self.outcome.merge
        if merge is None:
            return rows.take(retained, axis=1)
        # Not `merge.add_up`, which may divide by the sum: without the removed labels it is below 1.
        parts = rows.take(retained[merge.sources], axis=1) * merge.weights
        return np.asarray(np.add.reduceat(parts, merge.starts, axis=1))

    def top_changed(self, answers: Answers) -> Booleans:
        """Whether each row has another top label than the base model's destination."""
        return self.outcome.has_changed(self.top, answers.top)

    def divergences(self, output: Floats) -> Values:
        """Compute the divergences of an output from the retrained model."""
        return {
            "kl": self.by_kind(metrics.kl_divergence(output, self.goal)),
            "js": self.by_kind(metrics.jensen_shannon(output, self.goal)),
        }

    def by_kind(self, values: npt.NDArray[Any]) -> dict[str, float]:
        """Average over the inputs of retained and of removed labels."""
        return {
            kind: float(values[rows].mean()) if rows.any() else np.nan
            for kind, rows in self.kinds.items()
        }

    def impact(self, answers: Answers) -> Values:
        """Describe the answers that one filter changes, by label.

        Labels are the true ones or, where there are none, the old answers.
        """
        pairs, others = answers.pairs()
        labels = self.known.labels if self.has_truth else self.trial.classes
        return {
            "rule": None if self.trial.rule is None else rule_as_dict(self.trial.rule),
            "pairs": pairs,
            "other_pairs": others,
            "by_label": answers.by_label(labels, self.truth if self.has_truth else self.top),
        }


def _ratios(divergences: Values, floor: Values) -> Values:
    return {
        name: {
            kind: metrics.ratio_to_seed_floor(value, floor[name][kind])
            for kind, value in kinds.items()
        }
        for name, kinds in divergences.items()
    }
