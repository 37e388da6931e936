"""Trials: filters and retrained models, judged on rows with known labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._plans.outcome import REMOVED, Outcome, matched, outcome_of
from unlabel._typing import KINDS, Columns, Floats, Kind, Label, Method
from unlabel.answers import AnswerRule
from unlabel.errors import UnlabelError
from unlabel.evaluation.sources import NO_FILES, Sources
from unlabel.evaluation.truth import TRUTHS, Truth, destinations, true_labels_of
from unlabel.filter import FilteredRows, OutputFilter, outcome_of_filter, require_filter
from unlabel.fitting import fit_filter
from unlabel.labels import as_classes
from unlabel.metrics._rows import checked_rows
from unlabel.plan import LabelPlan
from unlabel.validation import (
    choice,
    refuse_chance,
    refuse_probabilities,
    true_columns,
)

NAMES: dict[Method, str] = {"osr": "OSR", "mask": "mask"}
BASE, RETRAINED, AGAIN, CALIBRATED = "base model", "retrained", "retrained again", ", calibrated"


@dataclass(frozen=True)
class Candidate:
    """A model's confidences, the filter that they go through, and the rows that are judged."""

    rows: Floats
    filter: OutputFilter
    judged: Columns | None = None  # by default all

    def run(self) -> FilteredRows:
        """Filter the judged rows: probabilities of the result's labels, and removed masses."""
        return self.filter.run(self.rows if self.judged is None else self.rows[self.judged])

    def output(self) -> Floats:
        """Return the probabilities of the result's labels alone."""
        return self.run().confidences


@dataclass(frozen=True)
class Trial:
    """The candidates, the one whose details are shown, and the rows that they are judged on."""

    base: Candidate
    candidates: dict[str, Candidate]
    shown: str
    labels: npt.NDArray[Any] | None  # the true labels; without any, only answers are compared
    row_numbers: Columns
    rows_fitted_on: int
    notes: tuple[str, ...] = ()
    truth: Truth = "old"  # whether the true labels are the model's or the result's
    rule: AnswerRule | None = None  # when filters answer with unknown; None if they never do
    same_recipe: bool = False  # whether retrained models are known to differ in their seeds alone
    sources: Sources = NO_FILES

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels of the base model."""
        return self.base.filter.classes_out

    @property
    def fitted(self) -> OutputFilter:
        """The filter whose details are shown; all others have the same plan."""
        return self.candidates[self.shown].filter


def try_labels(
    base: Any,
    labels: Any,
    *,
    classes: Sequence[Label],
    plan: Any,
    retrained: Sequence[Any] = (),
    kind: Kind = "probabilities",
    truth: Truth = "old",
    allow_chance: bool = False,
    seed: int = 0,
) -> Trial:
    """Try a change of labels with filters that are fitted on half of the rows.

    Parameters
    ----------
    base : array of shape (n_rows, n_labels)
        The model's confidences.
    labels : array of shape (n_rows,)
        The true labels.
    classes : sequence of labels
        The names of the columns of `base`.
    plan : LabelPlan, mapping of labels to destinations, or sequence of labels
        The change of labels, or the labels to remove.
    retrained : up to two arrays of shape (n_rows, number of the result's labels)
        The confidences of models retrained on the changed labels, on the same rows, with columns
        in the order of ``LabelPlan(plan).check(classes).result``.
    kind : {"probabilities", "logits"}
        The kind of confidences, the same in all arrays.
    truth : {"old", "new"}
        Whether `labels` are the model's or already the result's. Rows of labels that are removed or
        split have no new label, and keep the old one.
    allow_chance : bool
        Whether to accept confidences that are no better than chance on rows of labels that stay.
    seed : int
        Draws the half of each label's rows to fit on. The other half is judged.
    """
    names = as_classes(classes)
    choice(kind, KINDS, "kind")
    choice(truth, TRUTHS, "truth")
    rows = _confidences(base, kind, names)
    plan = matched(plan if isinstance(plan, LabelPlan) else LabelPlan(plan), names)
    outcome = outcome_of(plan, names)
    known = true_labels_of(names, outcome, truth)
    columns = true_columns(labels, known.labels, len(rows))
    to, old = destinations(known.numbers[columns], outcome), known.columns[columns]
    if not allow_chance:
        _refuse_chance(rows, old, outcome)
    fitting, judged = _halves(columns, seed)
    candidates: dict[str, Candidate] = {}
    notes: list[str] = []
    uncalibrated: dict[str, list[str]] = {}

    def add(
        name: str,
        model: Floats,
        classes: Sequence[Label],
        of_row: Columns,
        plan: LabelPlan,
        method: Method,
    ) -> None:
        """Fit a filter as it is and, if the half to fit on allows it, calibrated."""
        at = fitting[of_row[fitting] >= 0]
        own = np.array(classes, dtype=object)[of_row[at]]
        fit = partial(fit_filter, model[at], own, classes=classes, plan=plan, kind=kind)
        as_is = fit(method=method, allow_chance=True)
        notes.extend(as_is.remarks)
        candidates[name] = Candidate(model, OutputFilter(**as_is.state), judged)
        try:
            calibrated = fit(method=method, allow_chance=True, calibrate=True)
        except UnlabelError as error:
            uncalibrated.setdefault(error.problem, []).append(name)
        else:
            filter = OutputFilter(**calibrated.state)
            candidates[name + CALIBRATED] = Candidate(model, filter, judged)

    for method, name in NAMES.items():
        # A new true label that several old ones become does not tell the model's own.
        add(name, rows, names, old, plan, method)
    for name, model in _retrained(retrained, outcome.classes, kind, len(rows)):
        add(name, model, outcome.classes, to, LabelPlan({}), "mask")
    for why, outputs in uncalibrated.items():
        notes.append(f"{', '.join(outputs)}: {why[0].lower()}{why[1:]}.")
    return Trial(
        base=Candidate(rows, unchanged(names, kind), judged),
        candidates=candidates,
        shown=NAMES["osr"],
        labels=_as_array(labels)[judged],
        row_numbers=judged,
        rows_fitted_on=len(fitting),
        notes=tuple(notes),
        truth=truth,
    )


def try_filter(
    fitted: OutputFilter,
    base: Any,
    labels: Any = None,
    *,
    retrained: Sequence[Any] = (),
    truth: Truth = "old",
    allow_chance: bool = False,
) -> Trial:
    """Try a filter on rows that it was not fitted on; `try_labels` describes the arguments.

    Without true labels, only the answers before and after are compared.
    """
    choice(truth, TRUTHS, "truth")
    require_filter(fitted)
    classes, kind, temperature = fitted.classes_in, fitted.kind, fitted.temperature
    rows = _confidences(base, kind, classes)
    if labels is None and retrained:
        raise UnlabelError(
            "Retrained models are judged by true labels, and there are none: give them."
        )
    if labels is not None and not allow_chance:
        outcome = outcome_of_filter(fitted)
        known = true_labels_of(classes, outcome, truth)
        columns = true_columns(labels, known.labels, len(rows))
        _refuse_chance(rows, known.columns[columns], outcome)
    mask = OutputFilter.from_plan(fitted.plan, classes=classes, kind=kind)
    shown = NAMES[fitted.method] + (CALIBRATED if temperature != 1 else "")
    filters = {shown: fitted, NAMES["mask"]: mask}
    if temperature != 1:
        filters[NAMES["mask"] + CALIBRATED] = replace(mask, temperature=temperature)
    candidates = {name: Candidate(rows, filter) for name, filter in filters.items()}
    for name, model in _retrained(retrained, fitted.classes_out, kind, len(rows)):
        candidates[name] = Candidate(model, unchanged(fitted.classes_out, kind))
    return Trial(
        base=Candidate(rows, unchanged(classes, kind)),
        candidates=candidates,
        shown=shown,
        labels=None if labels is None else _as_array(labels),
        row_numbers=np.arange(len(rows)),
        rows_fitted_on=0,
        truth=truth,
    )


def without(labels: Sequence[Label], removed: Sequence[Label]) -> tuple[Label, ...]:
    """Return the labels without the removed ones."""
    return tuple(label for label in labels if label not in {*removed})


def unchanged(classes: Sequence[Label], kind: Kind) -> OutputFilter:
    """Make a filter that changes no label: it turns confidences into probabilities."""
    return OutputFilter.from_plan({}, classes=classes, kind=kind)


def _refuse_chance(rows: Floats, columns: Columns, outcome: Outcome) -> None:
    """Raise an error if the model is no better than chance on rows of labels that stay."""
    at = np.flatnonzero((columns >= 0) & (outcome.columns[columns] != REMOVED))
    refuse_chance(rows[at], columns[at])


def _halves(columns: Columns, seed: int) -> tuple[Columns, Columns]:
    """Split the rows of each label into halves."""
    shuffled = np.random.default_rng(seed).permutation(len(columns))
    by_label = shuffled[np.argsort(columns[shuffled], kind="stable")]
    return np.sort(by_label[::2]), np.sort(by_label[1::2])


def _confidences(values: Any, kind: Kind, classes: Sequence[Label]) -> Floats:
    """Check confidences, and that probabilities are not given as logits."""
    rows = checked_rows(values, kind, classes)
    if kind == "logits":
        refuse_probabilities(rows)
    return rows


def _as_array(labels: Any) -> npt.NDArray[Any]:
    """Return labels as an array; those of a list keep their types, as in `true_columns`."""
    return np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)


def _retrained(
    outputs: Sequence[Any], classes: Sequence[Label], kind: Kind, n_rows: int
) -> list[tuple[str, Floats]]:
    if len(outputs) > 2:
        raise UnlabelError(f"There are {len(outputs)} retrained models: give at most two.")
    models = [_confidences(model, kind, classes) for model in outputs]
    for model in models:
        if len(model) != n_rows:
            raise UnlabelError(
                f"The base model has {n_rows} rows and a retrained one {len(model)}: give the same "
                "rows in the same order."
            )
    return list(zip((RETRAINED, AGAIN), models, strict=False))
