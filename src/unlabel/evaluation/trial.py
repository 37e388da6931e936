"""A removal put to the test: filters, and retrained models, on rows with known labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._labels import as_classes, columns_of, label_key, labels_to_remove
from unlabel._typing import Columns, Floats, InputKind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import calibrated, fit_filter
from unlabel.validation import as_confidences, refuse_probabilities, true_columns

NAMES: dict[Method, str] = {"osr": "OSR", "mask": "mask", "literal": "literal"}
BASE, RETRAINED, AGAIN, CALIBRATED = "base model", "retrained", "retrained again", ", calibrated"


@dataclass(frozen=True)
class Candidate:
    """A way to do without the labels: a model's outputs on the judged rows, and a filter."""

    rows: Floats
    filter: OutputFilter

    def output(self) -> Floats:
        """The probabilities of the labels that remain."""
        return self.filter.apply_checked(self.rows)


@dataclass(frozen=True)
class Trial:
    """The candidates, the one that matters most, and the rows that they are judged on."""

    base: Candidate
    candidates: dict[str, Candidate]
    shown: str
    removed: tuple[Label, ...]
    labels: npt.NDArray[Any]
    row_numbers: Columns
    rows_fitted_on: int
    notes: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels of the base model."""
        return self.base.filter.classes

    @property
    def retained(self) -> tuple[Label, ...]:
        """The labels that remain."""
        return without(self.classes, self.removed)


def try_labels(
    base: Any,
    labels: Any,
    *,
    classes: Sequence[Label],
    remove: Sequence[Label],
    retrained: Sequence[Any] = (),
    input: InputKind = "probabilities",
    seed: int = 0,
) -> Trial:
    """Try the removal of labels with filters that are fitted on half of the rows.

    Parameters
    ----------
    base : array of shape (n_rows, n_labels)
        The model's confidences.
    labels : array of shape (n_rows,)
        The true labels.
    classes : sequence of labels
        The names of the columns of `base`.
    remove : sequence of labels
        The labels to remove.
    retrained : up to two arrays of shape (n_rows, n_labels - n_removed)
        What models retrained without the labels say of the same rows, their columns in the
        order of `classes`.
    input : {"probabilities", "logits"}
        What all of the confidences are.
    seed : int
        Draws one half of each label's rows to fit on. The other half is judged.
    """
    names = as_classes(classes)
    rows = as_confidences(base, input, names)
    columns = true_columns(labels, names, len(rows))
    truth = _as_array(labels)
    removed = labels_to_remove(names, remove, None)
    keep = without(names, removed)
    fitting, judged = _halves(columns, seed)
    candidates: dict[str, Candidate] = {}
    uncalibrated: dict[str, list[str]] = {}

    def enter(name: str, half: Floats, other: Floats, of: OutputFilter, columns: Columns) -> None:
        """Enter a filtered model as it is and, where one half allows it, calibrated."""
        candidates[name] = Candidate(other, of)
        try:
            better = calibrated(of, half, columns[fitting])
        except UnlabelError as error:
            uncalibrated.setdefault(str(error), []).append(name)
        else:
            candidates[name + CALIBRATED] = Candidate(other, better)

    half, other = rows[fitting], rows[judged]
    methods: tuple[Method, ...] = ("osr", "mask")
    for method in methods:
        of = fit_filter(
            half,
            truth[fitting],
            classes=names,
            remove=removed,
            method=method,
            input=input,
        )
        enter(NAMES[method], half, other, of, columns)
    column_after = np.cumsum(np.isin(np.arange(len(names)), of.retained_columns)) - 1
    column_after[of.removed_columns] = -1
    for name, model in _retrained(retrained, keep, input, len(rows)):
        of_model = unchanged(keep, input)
        enter(name, model[fitting], model[judged], of_model, column_after[columns])
    return Trial(
        base=Candidate(other, unchanged(names, input)),
        candidates=candidates,
        shown=NAMES["osr"],
        removed=removed,
        labels=truth[judged],
        row_numbers=judged,
        rows_fitted_on=len(fitting),
        notes=tuple(f"{', '.join(of)}: {why}" for why, of in uncalibrated.items()),
    )


def try_filter(
    fitted: OutputFilter, base: Any, labels: Any, *, retrained: Sequence[Any] = ()
) -> Trial:
    """Try a filter on rows that it was not fitted on; `try_labels` describes the arguments."""
    if fitted.method == "literal":
        raise UnlabelError(
            "A filter with method='literal' does not give probabilities and cannot be judged: fit "
            "one with method='osr'."
        )
    rows = _confidences(base, fitted.input, fitted.classes_in)
    shown = NAMES[fitted.method]
    filters = {shown: replace(fitted, temperature=1.0)}
    if fitted.temperature != 1:
        shown += CALIBRATED
        filters[shown] = fitted
    filters[NAMES["mask"]] = OutputFilter.mask(
        fitted.classes_in, fitted.removed, input=fitted.input
    )
    candidates = {name: Candidate(rows, of) for name, of in filters.items()}
    for name, model in _retrained(retrained, fitted.classes, fitted.input, len(rows)):
        candidates[name] = Candidate(model, unchanged(fitted.classes, fitted.input))
    return Trial(
        base=Candidate(rows, unchanged(fitted.classes_in, fitted.input)),
        candidates=candidates,
        shown=shown,
        removed=fitted.removed,
        labels=_as_array(labels),
        row_numbers=np.arange(len(rows)),
        rows_fitted_on=0,
    )


def without(labels: Sequence[Label], removed: Sequence[Label]) -> tuple[Label, ...]:
    """The labels that are not among the removed ones."""
    gone = columns_of(tuple(removed))
    return tuple(label for label in labels if label_key(label) not in gone)


def unchanged(classes: Sequence[Label], input: InputKind) -> OutputFilter:
    """A filter that removes nothing: it turns confidences into probabilities."""
    return OutputFilter.mask(classes, (), input=input)


def _halves(columns: Columns, seed: int) -> tuple[Columns, Columns]:
    """Split rows into halves, those of each label alike."""
    shuffled = np.random.default_rng(seed).permutation(len(columns))
    by_label = shuffled[np.argsort(columns[shuffled], kind="stable")]
    return np.sort(by_label[::2]), np.sort(by_label[1::2])


def _confidences(values: Any, input: InputKind, classes: Sequence[Label]) -> Floats:
    """Rows of confidences; probabilities that were said to be logits are refused."""
    rows = as_confidences(values, input, classes)
    if input == "logits":
        refuse_probabilities(rows)
    return rows


def _as_array(labels: Any) -> npt.NDArray[Any]:
    """Labels as an array; those of a list keep their types, as in `true_columns`."""
    return np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)


def _retrained(
    outputs: Sequence[Any], keep: Sequence[Label], input: InputKind, n_rows: int
) -> list[tuple[str, Floats]]:
    if len(outputs) > 2:
        raise UnlabelError(f"There are {len(outputs)} retrained models: give two at the most.")
    models = [_confidences(model, input, keep) for model in outputs]
    for model in models:
        if len(model) != n_rows:
            raise UnlabelError(
                f"The base model has {n_rows} rows and a retrained one {len(model)}: give the same "
                "rows in the same order."
            )
    return list(zip((RETRAINED, AGAIN), models, strict=False))
