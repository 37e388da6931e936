"""What one filter does to labels and to single rows."""

from __future__ import annotations

import numpy as np

from unlabel import metrics
from unlabel._typing import Booleans, Columns, Float64s, Floats, Label
from unlabel.evaluation.impact import Answers, Values
from unlabel.evaluation.judge import Judge
from unlabel.evaluation.summary_layout import UNKNOWN_ABOVE
from unlabel.evaluation.truth import true_labels_of
from unlabel.filter import FilteredRows
from unlabel.metrics._rows import by_row, group_means, normalised

MOST_DESTINATIONS = 8
MOST_CHANGED = 10


class Details:
    """The labels and rows of a judged trial, as one output's answers change them."""

    def __init__(self, judge: Judge, filtered: FilteredRows, answers: Answers) -> None:
        self.judge, self.trial, self.outcome = judge, judge.trial, judge.outcome
        self.known, self.truth, self.kinds = judge.known, judge.truth, judge.kinds
        self.output, self.removed_mass, _ = filtered
        self.answers = answers

    def to_dict(self) -> Values:
        """Return the details as they stand in a summary."""
        changed = self.judge.top_changed(self.answers)
        kinds = {kind: changed & rows for kind, rows in self.kinds.items()}
        tries_unknown = self.judge.has_truth and len(self.outcome.removed) > 0
        return {
            "moved_mass": self.judge.by_kind(self.removed_mass),
            "unknown": self._unknown() if tries_unknown else [],
            "changed_rows": {kind: rows.sum() for kind, rows in kinds.items()},
            "by_label": self._accuracy_by_label(),
            "destinations": self._destinations(),
            "most_changed": {k: self._most_changed(rows) for k, rows in kinds.items()},
        }

    def _accuracy_by_label(self) -> list[Values]:
        """Compute the share of each true label's rows that are right before and after."""
        labels, n_labels = self.known.labels, len(self.known.labels)
        n_rows = np.bincount(self.truth[self.truth >= 0], minlength=n_labels)
        right = self.judge.top == self.truth
        if self.trial.truth == "new":
            right = np.append(self.known.numbers, -1)[self.truth] == self._answers_before()
        before = group_means(right, self.truth, n_labels)
        group = np.where(self.kinds["retained"], self.truth, -1)
        after = group_means(self.answers.top == self.judge.to, group, n_labels)
        return [
            {
                "label": label,
                "to": self._destination(column),
                "rows": n_rows[column],
                "before": before[column],
                "after": after[column],
            }
            for column, label in enumerate(labels)
        ]

    def _answers_before(self) -> Columns:
        """Return the base model's answers as numbers of true labels."""
        old = true_labels_of(self.trial.classes, self.outcome, "old")
        return np.asarray(old.numbers[self.judge.top])

    def _destinations(self) -> list[Values]:
        """Describe where the inputs of each removed label go, by mean mass and by answer."""
        removed = self.trial.fitted.removed
        if not self.judge.has_truth:
            return [{"label": label, "rows": 0, "to": [], "answers": []} for label in removed]
        numbers, over = self.judge.after.rows, self.judge.after.over["removed"]
        mixtures = metrics.destination_matrix(*self.judge.after.of(self.output), over)
        groups = np.where(self.kinds["removed"], numbers - self.judge.after.n_outputs, -1)
        rows = np.bincount(groups[groups >= 0], minlength=len(removed))
        common = self.answers.most_common(groups, len(removed), MOST_DESTINATIONS)
        return [
            {"label": label, "rows": n_rows, "to": self._largest(mixture), "answers": listed}
            for label, n_rows, mixture, listed in zip(removed, rows, mixtures, common, strict=True)
        ]

    def _unknown(self) -> list[Values]:
        """Compute the share of each kind of rows that are answered with unknown."""
        shares = (
            metrics.unknown_share(self.removed_mass[self.kinds[kind]], UNKNOWN_ABOVE)
            for kind in ("removed", "retained")
        )
        return [
            {"above": above, "caught": caught, "lost": lost}
            for above, caught, lost in zip(UNKNOWN_ABOVE, *shares, strict=True)
        ]

    def _destination(self, column: int) -> Label | None:
        """Return the label that a true label becomes, None if it is removed or split."""
        to = self.judge.to_of_label[column]
        return self.outcome.classes[to] if to >= 0 else None

    def _largest(self, mixture: Float64s) -> list[Values]:
        return [
            {"label": self.outcome.classes[column], "share": mixture[column]}
            for column in np.argsort(-mixture, kind="stable")[:MOST_DESTINATIONS]
            if mixture[column] > 0
        ]

    def _moved(self, base: Floats, output: Floats) -> Float64s:
        """Measure how far rows moved, over the result's labels and, beside them, the removed."""
        base, removed = normalised(base), self.outcome.removed
        before = np.hstack([self.judge.added_up(base), base[:, removed]])
        after = np.hstack([output, np.zeros((len(output), len(removed)))])
        return metrics.jensen_shannon(after, before)

    def _most_changed(self, among: Booleans) -> list[Values]:
        rows = np.flatnonzero(among)
        distance = by_row(self._moved, self.judge.base[rows], self.output[rows])
        largest = rows[np.argsort(-distance, kind="stable")[:MOST_CHANGED]]
        return [
            {
                "row": self.trial.row_numbers[row],
                "label": self.known.labels[self.truth[row]],
                "to": self._destination(self.truth[row]),
                "before": self.trial.classes[self.judge.base[row].argmax()],
                "before_confidence": self.judge.base[row].max(),
                "after": self.outcome.classes[self.output[row].argmax()],
                "after_confidence": self.output[row].max(),
            }
            for row in largest
        ]
