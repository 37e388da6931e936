"""Check what users give: confidences, true labels, choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._method.masses import SUM_TOLERANCE, are_valid
from unlabel._skipped import SkippedRows
from unlabel._typing import Columns, Floats, Kind, Label
from unlabel.errors import UnlabelError
from unlabel.labels import known_columns, no_such_label

FLOATS = (np.float16, np.float32, np.float64)
FAR = 0.1  # how far from 1, above and below, the sums of independent scores lie
# What tables have and arrays do not: their columns may stand in another order than the labels.
TABLE_ATTRIBUTES = ("columns", "column_names", "iloc")
# Confidences are compared with chance on so many rows, of so many labels.
ENOUGH_ROWS, ENOUGH_LABELS = 50, 2


def choice(value: object, options: Sequence[str], argument: str) -> None:
    """Raise an error for a value that is not among the options."""
    if value not in options:
        known = " or ".join(repr(option) for option in options)
        raise UnlabelError(f"{value!r} is not known: give {known}", argument=argument)


def as_array(
    values: Any, classes: Sequence[Label] | None, result: Sequence[Label] | None = None
) -> Floats:
    """Return confidences in their own float type, the labels in the last dimension.

    Their values are not checked. `result` are the labels of a filter's result: rows of that
    width have probably been filtered already.
    """
    rows = values if type(values) is np.ndarray else _plain_array(values)
    if rows.dtype.kind in "biu":
        rows = rows.astype(np.float64)
    if not rows.dtype.isnative:
        rows = rows.astype(rows.dtype.newbyteorder("="))
    if rows.dtype.type not in FLOATS:
        raise UnlabelError(
            f"The confidences have the type {rows.dtype}: give float16, float32 or float64"
        )
    if rows.ndim and (classes is None or rows.shape[-1] == len(classes)):
        return rows
    width = "labels" if classes is None else len(classes)
    if rows.ndim and result is not None and rows.shape[-1] == len(result):
        raise UnlabelError(
            f"The confidences have the {len(result)} labels of the filter's result and not the "
            f"{width} of its model: they are filtered already, or come from another model"
        )
    raise UnlabelError(
        f"The confidences have the shape {rows.shape}, not (..., {width}): give one column per "
        "label, in the model's order, in the last dimension"
    )


def _plain_array(values: Any) -> npt.NDArray[Any]:
    if any(hasattr(values, name) for name in TABLE_ATTRIBUTES):
        raise UnlabelError(
            f"The confidences are a {type(values).__name__}, whose columns may stand in another "
            "order than the labels: give an array, such as frame[classes].to_numpy()."
        )
    if np.ma.is_masked(values):
        raise UnlabelError("The confidences have masked entries: fill them, or drop their rows.")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # of PyTorch, which says what to do
        raise UnlabelError(f"The confidences are not an array of numbers: {error}") from error


def check_rows(rows: Floats, kind: Kind, classes: Sequence[Label]) -> None:
    """Raise an error that names the first row that is not probabilities, or logits."""
    valid = are_valid(rows, kind) if rows.size else np.ones(0, dtype=np.bool_)
    if not valid.all():
        raise bad_row(rows, int(np.argmin(valid)), kind, classes)


def bad_row(rows: Floats, row: int, kind: Kind, classes: Sequence[Label]) -> UnlabelError:
    """Return the error that says what is wrong with a row that is not valid."""
    what = "vector of logits" if kind == "logits" else "probability vector"
    problem, argument = _problem(rows, row, kind, classes)
    return UnlabelError(f"it is not a {what}: {problem}", row=row, argument=argument)


def _problem(
    rows: Floats, row: int, kind: Kind, classes: Sequence[Label]
) -> tuple[str, str | None]:
    """Return what is wrong with a row, and the argument to blame if there is one."""
    entries = rows[row].astype(np.float64)
    for wrong, name in ((np.isnan(entries), "NaN"), (np.isposinf(entries), "infinite")):
        if wrong.any():
            label = classes[int(np.argmax(wrong))]
            return f"the label {label!r} is {name}; give a number or drop the row.", None
    if kind == "logits":
        return "every label is minus infinity; give a number or drop the row.", None
    with np.errstate(over="ignore", invalid="ignore"):
        total, least, most = entries.sum(), entries.min(), entries.max()
        sums = rows.sum(axis=1, dtype=np.float64)
    if least >= 0 and abs(total - 100) <= 1 and most < 200:
        return f"it sums to {total:.6g}, as percentages do; divide by 100.", None
    if least < 0 or most > 1 + SUM_TOLERANCE:
        label = classes[int(entries.argmin() if least < 0 else entries.argmax())]
        value = least if least < 0 else most
        return f"the label {label!r} is {value:.6g}; if these are logits, say so.", "kind"
    if sums.max() > 2 or (sums.max() > 1 + FAR and sums.min() < 1 - FAR):
        advice = "; these look like independent (sigmoid) scores, for which unlabel is not made."
    else:
        advice = (
            ", more than 1% from 1; give every label's confidence, or divide each row by its sum "
            "if its labels exclude each other."
        )
    return f"it sums to {total:.6g}{advice}", None


def divided_by_sums(rows: Floats) -> Floats:
    """Divide rows by their sums; rows that this does not make probabilities stay as they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=np.float64)
        divisible = (sums > 0) & np.isfinite(sums) & (rows >= 0).all(axis=1)
    return (rows / np.where(divisible, sums, 1.0)[:, None]).astype(rows.dtype)


# A single row of logits may sum to 1 by chance: where rows come one by one, look at this many.
ENOUGH_TO_TELL = 2


def refuse_probabilities(rows: Floats) -> None:
    """Raise an error for rows declared as logits if all of them are probabilities."""
    if len(rows) and are_valid(rows, "probabilities").all():
        raise UnlabelError("The rows are probabilities, not logits: say so.", argument="kind")


def refuse_chance(rows: Floats, columns: Columns) -> None:
    """Raise an error where the model's top answers are no better than chance.

    `columns` are the true columns of the rows. A few rows, or rows of one label, tell nothing.
    """
    if len(rows) < ENOUGH_ROWS or len(np.unique(columns)) < ENOUGH_LABELS:
        return
    chance = 1 / rows.shape[1]
    right = int(np.count_nonzero(rows.argmax(axis=1) == columns))
    expected = len(rows) * chance
    if right <= expected + 2 * np.sqrt(expected * (1 - chance)):
        raise UnlabelError(
            f"The model's top answer is the true label in {right:,} of {len(rows):,} rows of "
            "labels that stay, no better than chance: check the order of the model's labels, and "
            "that the true labels belong to these rows",
            argument="allow_chance",
        )


def distinct_labels(labels: Any) -> tuple[list[Any], Columns]:
    """Return the distinct true labels, and the position of each row's label among them."""
    if np.ma.is_masked(labels):
        raise UnlabelError("The true labels have masked entries: fill them, or drop their rows.")
    # NumPy would turn the numbers of a list into strings if there were a string among them.
    values = np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)
    if values.ndim != 1:
        raise UnlabelError(f"The true labels have the shape {values.shape}: give one per row.")
    if values.dtype != object:
        names, positions = np.unique(values, return_inverse=True)
        return names.tolist(), positions
    try:  # True equals 1, but is not a label
        keys = [(isinstance(label, bool), label) for label in values.tolist()]
        position = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    except TypeError as error:
        raise UnlabelError("The true labels are not all strings or numbers.") from error
    positions = np.fromiter((position[key] for key in keys), np.intp, len(keys))
    return [label for _, label in position], positions


def true_columns(
    labels: Any,
    classes: Sequence[Label],
    n_rows: int,
    skipped: SkippedRows | None = None,
    result: Sequence[Label] = (),
) -> Columns:
    """Find the column of each row's true label, -1 where the model does not have it.

    Names of the filter's `result` are known, though they have no column. Rows of other labels
    are counted in `skipped`; without it, they are an error.
    """
    distinct, positions = distinct_labels(labels)
    if len(positions) != n_rows:
        raise UnlabelError(f"{n_rows} rows have {len(positions)} true labels: give one per row")
    columns = known_columns(distinct, classes)
    unknown = np.flatnonzero((columns < 0) & (known_columns(distinct, result) < 0))
    if len(unknown) and skipped is None:
        row = int(np.argmax(positions == unknown[0]))
        error = no_such_label(distinct[unknown[0]], classes)
        error.row = row
        raise error
    if len(unknown) and skipped is not None:
        counts = np.bincount(positions)
        for at in unknown.tolist():
            skipped.add(distinct[at], int(counts[at]))
        skipped.refuse_all(n_rows)
    return columns[positions]
