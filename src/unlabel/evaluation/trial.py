"""Trials: filters and retrained models, judged on rows with known labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._labels import as_classes, columns_of, label_key
from unlabel._typing import TRUTHS, Columns, Float64s, Floats, InputKind, Label, Method, Truth
from unlabel.errors import UnlabelError
from unlabel.evaluation.sources import NO_FILES, Sources
from unlabel.evaluation.truth import destinations, true_labels_of
from unlabel.filter import OutputFilter, require_filter
from unlabel.fitting import calibrated_to, fit_filter
from unlabel.plan import RETIRED, plan_for
from unlabel.validation import as_confidences, choice, refuse_probabilities, true_columns

NAMES: dict[Method, str] = {"osr": "OSR", "mask": "mask", "literal": "literal"}
BASE, RETRAINED, AGAIN, CALIBRATED = "base model", "retrained", "retrained again", ", calibrated"


@dataclass(frozen=True)
class Candidate:
    """A model's confidences, the filter that they go through, and the rows that are judged."""

    rows: Floats
    filter: OutputFilter
    judged: Columns | None = None  # by default all

    def output(self) -> Floats:
        """Filter the judged rows: probabilities of the result's labels."""
        return self.filter.apply_checked(self.rows, at=self.judged)

    def removed_mass(self) -> Float64s:
        """Compute the removed mass of the judged rows, as for an answer of unknown."""
        filtered = self.filter.filter_checked(self.rows, at=self.judged, with_mass=True)
        return np.asarray(filtered.removed_mass)


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
    unknown_above: float | None = None  # the removed mass above which filters answer with unknown
    same_recipe: bool = False  # whether retrained models are known to differ in their seeds alone
    sources: Sources = NO_FILES

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels of the base model."""
        return self.base.filter.classes

    @property
    def fitted(self) -> OutputFilter:
        """The filter whose details are shown; all others have the same plan."""
        return self.candidates[self.shown].filter


def try_labels(
    base: Any,
    labels: Any,
    *,
    classes: Sequence[Label],
    remove: Iterable[Any],
    retrained: Sequence[Any] = (),
    input: InputKind = "probabilities",
    truth: Truth = "old",
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
    remove : sequence of labels, mapping of labels to destinations, or LabelPlan
        The labels to retire, or to change in another way.
    retrained : up to two arrays of shape (n_rows, number of the result's labels)
        The confidences of models retrained on the changed labels, on the same rows, with columns
        in the order of ``LabelPlan(remove).outcome(classes).classes``.
    input : {"probabilities", "logits"}
        The kind of confidences, the same in all arrays.
    truth : {"old", "new"}
        Whether `labels` are the model's or already the result's. Rows of labels that are retired or
        split have no new label, and keep the old one.
    seed : int
        Draws the half of each label's rows to fit on. The other half is judged.
    """
    names = as_classes(classes)
    rows = as_confidences(base, input, names)
    choice(truth, TRUTHS, "truth")
    outcome = plan_for(names, remove, None).outcome(names)
    known = true_labels_of(names, outcome, truth)
    columns = true_columns(labels, known.labels, len(rows))
    own_labels, to = _as_array(labels), destinations(known.numbers[columns], outcome)
    fitting, judged = _halves(columns, seed)
    retired = fitting[to[fitting] == RETIRED]
    osr = fit_filter(
        rows[retired if len(outcome.removed) else fitting],
        own_labels[retired] if len(outcome.removed) else None,
        classes=names,
        remove=remove,
        input=input,
    )
    to[judged] = RETIRED  # not to be fitted on
    candidates: dict[str, Candidate] = {}
    uncalibrated: dict[str, list[str]] = {}

    def add(name: str, model: Floats, as_is: OutputFilter) -> None:
        """Add a filtered model as it is and, if the half to fit on allows it, calibrated."""
        candidates[name] = Candidate(model, as_is, judged)
        try:
            fitted = calibrated_to(as_is, model, to)
            candidates[name + CALIBRATED] = Candidate(model, fitted, judged)
        except UnlabelError as error:
            uncalibrated.setdefault(str(error), []).append(name)

    for as_is in (osr, osr.as_mask()):
        add(NAMES[as_is.method], rows, as_is)
    for name, model in _retrained(retrained, osr.classes, input, len(rows)):
        add(name, model, unchanged(osr.classes, input))
    return Trial(
        base=Candidate(rows, unchanged(names, input), judged),
        candidates=candidates,
        shown=NAMES["osr"],
        labels=own_labels[judged],
        row_numbers=judged,
        rows_fitted_on=len(fitting),
        notes=tuple(f"{', '.join(outputs)}: {why}" for why, outputs in uncalibrated.items()),
        truth=truth,
    )


def try_filter(
    fitted: OutputFilter,
    base: Any,
    labels: Any = None,
    *,
    retrained: Sequence[Any] = (),
    truth: Truth = "old",
) -> Trial:
    """Try a filter on rows that it was not fitted on; `try_labels` describes the arguments.

    Without true labels, only the answers before and after are compared.
    """
    choice(truth, TRUTHS, "truth")
    require_filter(fitted)
    if fitted.method == "literal":
        raise UnlabelError(
            "A filter with method='literal' does not give probabilities and cannot be judged: fit "
            "one with method='osr'."
        )
    classes, input = fitted.classes_in, fitted.input
    rows = _confidences(base, input, classes)
    if labels is None and retrained:
        raise UnlabelError(
            "Retrained models are judged by true labels, and there are none: give them."
        )
    shown = NAMES[fitted.method]
    candidates = {shown: Candidate(rows, replace(fitted, temperature=1.0))}
    if fitted.temperature != 1:
        shown += CALIBRATED
        candidates[shown] = Candidate(rows, fitted)
    candidates[NAMES["mask"]] = Candidate(rows, fitted.as_mask())
    for name, model in _retrained(retrained, fitted.classes, input, len(rows)):
        candidates[name] = Candidate(model, unchanged(fitted.classes, input))
    return Trial(
        base=Candidate(rows, unchanged(classes, input)),
        candidates=candidates,
        shown=shown,
        labels=None if labels is None else _as_array(labels),
        row_numbers=np.arange(len(rows)),
        rows_fitted_on=0,
        truth=truth,
    )


def without(labels: Sequence[Label], removed: Sequence[Label]) -> tuple[Label, ...]:
    """Leave the retired labels out."""
    gone = columns_of(tuple(removed))
    return tuple(label for label in labels if label_key(label) not in gone)


def unchanged(classes: Sequence[Label], input: InputKind) -> OutputFilter:
    """Make a filter that changes no label: it turns confidences into probabilities."""
    return OutputFilter.mask(classes, (), input=input)


def _halves(columns: Columns, seed: int) -> tuple[Columns, Columns]:
    """Split the rows of each label into halves."""
    shuffled = np.random.default_rng(seed).permutation(len(columns))
    by_label = shuffled[np.argsort(columns[shuffled], kind="stable")]
    return np.sort(by_label[::2]), np.sort(by_label[1::2])


def _confidences(values: Any, input: InputKind, classes: Sequence[Label]) -> Floats:
    """Check confidences, and refuse probabilities that are given as logits."""
    rows = as_confidences(values, input, classes)
    if input == "logits":
        refuse_probabilities(rows)
    return rows


def _as_array(labels: Any) -> npt.NDArray[Any]:
    """Make an array of labels; those of a list keep their types, as in `true_columns`."""
    return np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)


def _retrained(
    outputs: Sequence[Any], classes: Sequence[Label], input: InputKind, n_rows: int
) -> list[tuple[str, Floats]]:
    if len(outputs) > 2:
        raise UnlabelError(f"There are {len(outputs)} retrained models: give at most two.")
    models = [_confidences(model, input, classes) for model in outputs]
    for model in models:
        if len(model) != n_rows:
            raise UnlabelError(
                f"The base model has {n_rows} rows and a retrained one {len(model)}: give the same "
                "rows in the same order."
            )
    return list(zip((RETRAINED, AGAIN), models, strict=False))
