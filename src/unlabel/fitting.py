"""Fitting a filter on reference rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from unlabel._labels import as_classes, known_columns
from unlabel._method.literal import fit_literal
from unlabel._method.statistics import fit_chain
from unlabel._method.temperature import fit_temperature
from unlabel._set_aside import SetAside
from unlabel._typing import INPUT_KINDS, METHODS, Columns, Floats, InputKind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.plan import RETIRED, plan_for
from unlabel.validation import (
    as_rows,
    check_rows,
    choice,
    distinct_labels,
    label_values,
    refuse_probabilities,
    true_columns,
)


def fit_filter(
    confidences: Any,
    labels: Any = None,
    *,
    classes: Iterable[Any] | None = None,
    remove: Iterable[Any] | None = None,
    keep: Iterable[Any] | None = None,
    method: Method = "osr",
    input: InputKind = "probabilities",
    calibrate: bool = False,
    ignore: Label | None = None,
    aside: SetAside | None = None,
) -> OutputFilter:
    """Fit a filter on reference rows with any leading dimensions, such as those of tokens.

    Parameters
    ----------
    confidences : array of shape (..., n_labels)
        The model's confidences on the reference inputs, one row per input, token or pixel.
    labels : array of shape (...), optional
        Their true labels.
    classes, remove, keep, method, input, calibrate, ignore
        As in `unlabel.LabelRemover`.
    aside : SetAside, optional
        Counts the rows that are set aside, which a warning counts otherwise.

    Examples
    --------
    >>> tokens = [[[.8, .1, .1], [.2, .7, .1]], [[.1, .6, .3], [.3, .3, .4]]]
    >>> tags = [["O", "LOC"], ["LOC", -100]]
    >>> names = ["O", "LOC", "PER"]
    >>> fitted = fit_filter(tokens, tags, classes=names, remove=["LOC"], ignore=-100)
    >>> fitted.counts
    (2,)
    >>> fitted.apply(tokens).shape
    (2, 2, 2)
    """
    choice(method, METHODS, "method")
    choice(input, INPUT_KINDS, "input")
    names = None if classes is None else as_classes(classes)
    rows, labels, numbers = _rows_and_labels(confidences, labels, names, ignore)
    check_rows(rows, input, names, numbers=numbers)
    if input == "logits":
        refuse_probabilities(rows)
    names = tuple(range(rows.shape[1])) if names is None else names
    plan = plan_for(names, remove, keep)
    columns = plan.outcome(names).removed.tolist()
    removed = [names[column] for column in columns]
    if calibrate and method == "literal":
        raise UnlabelError(
            "calibrate needs probabilities, which method='literal' does not give: use method='osr'."
        )
    needs_truth = calibrate or (method != "mask" and bool(removed))
    if labels is None and needs_truth:
        raise UnlabelError(  # the first half is scikit-learn's wording
            "The filter requires y to be passed, but the target y is None: give each reference "
            "row's true label."
        )
    counted = SetAside(names) if aside is None else aside
    truth = np.full(len(rows), -1)
    if labels is not None:
        truth = true_columns(labels, names, len(rows), counted)
    # Sort once: a pass over all rows per label would be slow with many labels.
    order = np.argsort(truth, kind="stable")
    starts, stops = (np.searchsorted(truth[order], columns, side) for side in ("left", "right"))
    references = [rows[order[slice(*ends)]] for ends in zip(starts, stops, strict=True)]
    means, shares = np.zeros((2, len(removed), len(names)))
    if method != "mask":
        for reference, label in zip(references, removed, strict=True):
            if len(reference) == 0:
                raise no_reference_rows(label, counted)
        if method == "osr":
            means, shares = fit_chain(references, columns, len(names), input)
        else:
            means, shares = fit_literal(references, columns, len(names), input)
    fitted = OutputFilter(
        classes_in=names,
        plan=plan,
        means=means,
        shares=shares,
        counts=tuple(len(reference) for reference in references),
        method=method,
        input=input,
    )
    if calibrate:
        fitted = calibrated(fitted, rows, truth)
    if aside is None and counted.rows:
        warnings.warn(f"{counted}.", stacklevel=4)  # the line that calls an estimator's fit
    return fitted


def _rows_and_labels(
    confidences: Any, labels: Any, classes: tuple[Label, ...] | None, ignore: Label | None
) -> tuple[Floats, Any, Columns | None]:
    """Lay rows and labels out one after another, without those to ignore; give their numbers."""
    rows = as_rows(confidences, classes, any_shape=True)
    if rows.ndim == 1:
        rows = as_rows(rows, classes)  # which refuses it
    *leading, n_labels = rows.shape
    flat = rows.reshape(math.prod(leading), n_labels)
    if labels is None:
        return flat, None, None
    values = label_values(labels)
    if len(leading) > 1:
        if values.shape != tuple(leading):
            raise UnlabelError(
                f"The confidences have the shape {rows.shape} and the true labels {values.shape}: "
                f"give labels of the shape {tuple(leading)}."
            )
        values = values.ravel()
    if ignore is None or values.shape != (len(flat),):
        return flat, values, None
    distinct, positions = distinct_labels(values)
    numbers = np.flatnonzero((known_columns(distinct, [ignore]) < 0)[positions])
    if len(numbers) == len(flat):
        return flat, values, None
    return flat[numbers], values[numbers], numbers


def no_reference_rows(label: Label, aside: SetAside) -> UnlabelError:
    """Describe a retired label without reference rows; its rows may have been set aside."""
    return UnlabelError(
        f"The label {label!r} has no reference rows{f', and {aside}' if aside.rows else ''}: give "
        "the model's outputs on some inputs of that label, or fit a mask, which needs none "
        "(method='mask', unlabel fit --method mask)."
    )


def calibrated(fitted: OutputFilter, rows: Floats, truth: Columns) -> OutputFilter:
    """Return the filter with the best temperature for the rows whose new label is known.

    A true label of -1 is not known.
    """
    return calibrated_to(fitted, rows, np.where(truth < 0, RETIRED, fitted.outcome.columns[truth]))


def calibrated_to(fitted: OutputFilter, rows: Floats, columns: Columns) -> OutputFilter:
    """Return the filter with the best temperature for the new labels of rows.

    They are given as columns of the result, negative where they are not known.
    """
    at = np.flatnonzero(columns >= 0)
    filtered = np.asarray(fitted.apply_checked(rows, at=at, dtype=np.float64), dtype=np.float64)
    return replace(fitted, temperature=fit_temperature(filtered, columns[at]))
