"""The judged rows of a trial, and the metrics of each output on them."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unlabel import metrics
from unlabel._typing import Columns, Float64s, Floats, Label
from unlabel.errors import UnlabelError
from unlabel.evaluation.summary_layout import UNKNOWN_ABOVE
from unlabel.evaluation.trial import RETRAINED, Trial
from unlabel.metrics._rows import (
    by_row,
    drawn_rows,
    group_means,
    kl_of,
    mean_of_known,
    normalised,
)
from unlabel.plan import RETIRED
from unlabel.validation import true_columns

Values = dict[str, Any]

MOST_DESTINATIONS = 8
MOST_CHANGED = 10


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

    Rows of split labels are of neither kind: their new label is not known.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial, self.outcome = trial, trial.fitted.outcome
        self.base = trial.base.output()
        n_before, n_after = len(trial.classes), len(self.outcome.classes)
        truth = true_columns(trial.labels, trial.classes, len(self.base))
        self.to = self.outcome.columns[truth]  # the result's column of each true label
        self.kinds = {"retained": self.to >= 0, "removed": self.to == RETIRED}
        if not self.kinds["retained"].any():
            raise UnlabelError("There are no rows of retained labels: give some to judge by.")
        removed = self.outcome.removed
        has_column = np.flatnonzero(self.outcome.columns >= 0).tolist()
        self.before = _Truth(truth, n_before, {"retained": has_column, "removed": removed.tolist()})
        # Labels that the result does not have are numbered after those that it has.
        self.after = _Truth(
            np.where(self.to >= 0, self.to, n_after + truth),
            n_after,
            {"retained": [*range(n_after)], "removed": (n_after + removed).tolist()},
        )
        # The very rows that `attack_auc` would draw, and which are then all that it is given.
        self.attacked = drawn_rows(map(np.flatnonzero, self.kinds.values()), metrics.ATTACK_ROWS)
        self.top = self.base.argmax(axis=1)
        goal = trial.candidates.get(RETRAINED)
        self.goal = None if goal is None else goal.output()

    def shared_metrics(self, output: Floats, truth: _Truth) -> Values:
        """Compute the metrics that the base model has too."""
        judged = truth.of(output)
        every = range(truth.n_outputs + len(self.trial.classes))
        accuracy = metrics.label_accuracy(*judged, every)
        ranks = {kind: metrics.coverage(*judged, over) for kind, over in truth.over.items()}
        bins = metrics.reliability_bins(*judged, truth.over["retained"])
        return {
            "accuracy": {kind: mean_of_known(accuracy[over]) for kind, over in truth.over.items()},
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

    def metrics_after(self, output: Floats, floor: Values | None, *, is_goal: bool) -> Values:
        """Compare an output over the result's labels with the base and the retrained model."""
        to_base = partial(kl_of, epsilon=metrics.EPSILON, reduce=self.added_up)
        to_retrained = None if self.goal is None or is_goal else self.divergences(output)
        return {
            "kl_to_base": self.by_kind(by_row(to_base, output, self.base)),
            "changed": self.by_kind(self.changed(output)),
            "attack_auc": self.attack(output),
            "to_retrained": to_retrained,
            "over_floor": to_retrained and floor and _ratios(to_retrained, floor),
        }

    def added_up(self, rows: Float64s) -> Float64s:
        """Add up confidences in the model's labels by destination; retired labels have none."""
        retained, merge = self.outcome.retained, self.outcome.merge
        if merge is None:
            return rows.take(retained, axis=1)
        # Not `merge.add_up`, which may divide by the sum: without the retired labels it is below 1.
        parts = rows.take(retained[merge.sources], axis=1) * merge.weights
        return np.asarray(np.add.reduceat(parts, merge.starts, axis=1))

    def changed(self, output: Floats) -> npt.NDArray[np.bool_]:
        """Tell which rows have another top label than the base model's destination."""
        return self.trial.fitted.has_changed(self.top, output.argmax(axis=1))

    def divergences(self, output: Floats) -> Values:
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

    def details(self, output: Floats) -> Values:
        """Describe what one filter does to labels and to single rows."""
        classes, changed = self.trial.classes, self.changed(output)
        kinds = {kind: changed & rows for kind, rows in self.kinds.items()}
        truth, removed = self.before.rows, self.before.over["removed"]
        n_rows = np.bincount(truth, minlength=len(classes))
        before = metrics.label_accuracy(*self.before.of(self.base))
        group = np.where(self.kinds["retained"], truth, -1)
        after = group_means(output.argmax(axis=1) == self.to, group, len(classes))
        mixtures = metrics.destination_matrix(*self.after.of(output), self.after.over["removed"])
        mass = self.trial.candidates[self.trial.shown].removed_mass()
        return {
            "moved_mass": self.by_kind(mass),
            "unknown": self._unknown(mass) if removed else [],
            "changed_rows": {kind: rows.sum() for kind, rows in kinds.items()},
            "by_label": [
                {
                    "label": label,
                    "to": self._destination(column),
                    "rows": n_rows[column],
                    "before": before[column],
                    "after": after[column],
                }
                for column, label in enumerate(classes)
            ],
            "destinations": [
                {"label": classes[column], "rows": n_rows[column], "to": self._largest(mixture)}
                for column, mixture in zip(removed, mixtures, strict=True)
            ],
            "most_changed": {k: self._most_changed(output, rows) for k, rows in kinds.items()},
        }

    def _unknown(self, mass: Float64s) -> list[Values]:
        """Compute the share of each kind of rows that are answered with unknown."""
        shares = (
            metrics.unknown_share(mass[self.kinds[kind]], UNKNOWN_ABOVE)
            for kind in ("removed", "retained")
        )
        return [
            {"above": above, "caught": caught, "lost": lost}
            for above, caught, lost in zip(UNKNOWN_ABOVE, *shares, strict=True)
        ]

    def _destination(self, column: int) -> Label | None:
        """Give the label that a label of the model becomes, None if it is retired or split."""
        to = self.outcome.columns[column]
        return self.outcome.classes[to] if to >= 0 else None

    def _largest(self, mixture: Float64s) -> list[Values]:
        return [
            {"label": self.outcome.classes[column], "share": mixture[column]}
            for column in np.argsort(-mixture, kind="stable")[:MOST_DESTINATIONS]
            if mixture[column] > 0
        ]

    def _moved(self, base: Floats, output: Floats) -> Float64s:
        """Measure how far rows moved, over the result's labels and, beside them, the retired."""
        base, removed = normalised(base), self.outcome.removed
        before = np.hstack([self.added_up(base), base[:, removed]])
        after = np.hstack([output, np.zeros((len(output), len(removed)))])
        return metrics.jensen_shannon(after, before)

    def _most_changed(self, output: Floats, among: npt.NDArray[np.bool_]) -> list[Values]:
        rows = np.flatnonzero(among)
        distance = by_row(self._moved, self.base[rows], output[rows])
        largest = rows[np.argsort(-distance, kind="stable")[:MOST_CHANGED]]
        return [
            {
                "row": self.trial.row_numbers[row],
                "label": self.trial.classes[self.before.rows[row]],
                "to": self._destination(self.before.rows[row]),
                "before": self.trial.classes[self.base[row].argmax()],
                "before_confidence": self.base[row].max(),
                "after": self.outcome.classes[output[row].argmax()],
                "after_confidence": output[row].max(),
            }
            for row in largest
        ]


def _ratios(divergences: Values, floor: Values) -> Values:
    return {
        name: {
            kind: metrics.ratio_to_seed_floor(value, floor[name][kind])
            for kind, value in kinds.items()
        }
        for name, kinds in divergences.items()
    }
