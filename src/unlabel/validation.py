"""Input validation and its error messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._labels import known_columns, label_key, no_such_label
from unlabel._row_sums import (
    SUM_TOLERANCE,
    are_not_probabilities,
    divided_by_sums,
    look_independent,
)
from unlabel._set_aside import SetAside
from unlabel._typing import Columns, Float64s, Floats, InputKind, Label
from unlabel.errors import RowError, UnlabelError


def choice(value: object, options: Sequence[str], name: str) -> None:
    """Refuse a value that is not among the options."""
    if value not in options:
        known = ", ".join(repr(option) for option in options)
        raise UnlabelError(f"{name}={value!r} is not known: use one of {known}.")


def readable(values: Any, name: str) -> Any:
    """Refuse masked entries, and turn tensors into arrays."""
    if isinstance(values, list | tuple) or (np.ma.is_masked(values) and values.ndim):
        for row, entry in enumerate(values):
            if isinstance(entry, np.ma.MaskedArray) and np.ma.is_masked(entry):
                raise UnlabelError(f"Row {row} of the {name} has a masked entry: fill or drop it.")
    if not hasattr(values, "detach"):
        return values
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError) as error:  # bfloat16, a gradient, another device
        raise UnlabelError(
            f"The {name} are a tensor that NumPy cannot read: give tensor.detach().float().cpu()."
        ) from error


def label_values(labels: Any) -> npt.NDArray[Any]:
    """Return true labels as an array."""
    labels = readable(labels, "true labels")
    # NumPy would turn the numbers of a list into strings if there were a string among them.
    return np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)


def distinct_labels(labels: Any) -> tuple[list[Any], Columns]:
    """Return the distinct true labels, and the position of each row's label among them."""
    values = label_values(labels)
    if values.ndim != 1:
        raise UnlabelError(f"The true labels have the shape {values.shape}: give one per row.")
    if values.dtype.kind == "i" and values.size and 0 <= values.min() <= values.max() < values.size:
        is_label = np.bincount(values) > 0  # counting takes a tenth of the time of sorting
        return np.flatnonzero(is_label).tolist(), (np.cumsum(is_label) - 1)[values]
    if values.dtype != object:
        names, positions = np.unique(values, return_inverse=True)
        return names.tolist(), positions
    try:  # True equals 1, but is another label
        keys = [(isinstance(label, bool), label) for label in values.tolist()]
        position = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    except TypeError as error:
        raise UnlabelError("The true labels are not all strings or numbers.") from error
    positions = np.fromiter((position[key] for key in keys), np.intp, len(keys))
    return [label for _, label in position], positions


def true_columns(
    labels: Any, classes: Sequence[Label], n_rows: int, aside: SetAside | None = None
) -> Columns:
    """Find the column of each row's true label, -1 if the row is set aside.

    Without `aside`, where they are counted, no row is.
    """
    distinct, positions = distinct_labels(labels)
    if len(positions) != n_rows:
        raise UnlabelError(f"{n_rows} rows have {len(positions)} true labels: give one per row.")
    columns = known_columns(distinct, classes)
    unknown = np.flatnonzero(columns < 0)
    if len(unknown) and aside is None:
        row = int(np.argmax(positions == unknown[0]))
        raise no_such_label(distinct[unknown[0]], classes, f", the true label of row {row}")
    if len(unknown) and aside is not None:
        counts = np.bincount(positions)
        for at in unknown.tolist():
            aside.add(distinct[at], int(counts[at]))
        aside.refuse_all(n_rows)
    return columns[positions]


def column_names(values: Any) -> tuple[Any, ...]:
    """Return the names of a table's columns; an array has none, nor have numbered columns.

    One row of a data frame, a Series, has these names as its index.
    """
    attribute = "index" if getattr(values, "ndim", None) == 1 else "columns"
    # `column_names` first: the `columns` of an Arrow table are the columns themselves.
    names = getattr(values, "column_names", None) or getattr(values, attribute, ())
    names = tuple(names) if isinstance(names, Iterable) else ()
    if not all(isinstance(name, Hashable) for name in names):
        return ()
    numbered = type(getattr(values, attribute, None)).__name__ == "RangeIndex"  # pandas' default
    return () if numbered and names == tuple(range(len(names))) else names


def _spellings(label: object) -> set[str]:
    return {str(label), label_key(label)}


def check_column_order(names: Sequence[Any], classes: Sequence[Label]) -> None:
    """Refuse columns named after labels that are not in the order of the model's labels."""
    if not names or tuple(names) == tuple(classes):
        return
    known = set().union(*map(_spellings, classes))
    for name, label in zip(names, classes, strict=False):
        if _spellings(name) & known and not _spellings(name) & _spellings(label):
            raise UnlabelError(
                f"The confidences have the column {name!r} where the model has the label "
                f"{label!r}: give the columns in the order of the model's labels."
            )


def check_columns(names: Sequence[Any], classes: Sequence[Label]) -> None:
    """Refuse columns in another order than the labels, or only some of them named after labels.

    Columns none of which is named after a label are taken in their order.
    """
    check_column_order(names, classes)
    pairs = [*zip(names, classes, strict=False)]
    others = [pair for pair in pairs if _spellings(pair[0]).isdisjoint(_spellings(pair[1]))]
    if 0 < len(others) < len(pairs):
        name, label = others[0]
        raise UnlabelError(
            f"The column {name!r} is not named after a label, but other columns are: rename it to "
            f"{label!r} if it holds that label's confidences."
        )


def as_confidences(
    values: Any,
    input_kind: InputKind,
    classes: Sequence[Label] | None = None,
    first_row: int = 0,
    *,
    normalize: bool = False,
) -> Floats:
    """Return valid rows in their own float type, or raise an error that names the first bad row.

    `first_row` is the number of the first row in the table that the rows come from.
    """
    rows = as_rows(values, classes)
    if normalize:
        if input_kind == "logits":
            raise UnlabelError("--normalize is for probabilities, not logits: leave it out.")
        rows = divided_by_sums(rows)
    check_rows(rows, input_kind, classes, first_row)
    return rows


def _are_nullable_floats(values: Any) -> bool:
    """Tell whether all columns are pandas' own floats, which become objects in an array."""
    dtypes = getattr(values, "dtypes", None)
    dtypes = [*dtypes] if isinstance(dtypes, Iterable) else [dtypes]
    return bool(dtypes) and all(
        getattr(dtype, "name", "") in ("Float32", "Float64") for dtype in dtypes
    )


def as_rows(
    values: Any, classes: Sequence[Label] | None = None, *, any_shape: bool = False
) -> Floats:
    """Return rows in their own float type, without checking their values.

    Arrays of any shape have the labels in their last dimension.
    """
    if classes is not None:
        check_columns(column_names(values), classes)
    values = readable(values, "confidences")
    try:
        rows = np.asarray(values, dtype=np.float64 if _are_nullable_floats(values) else None)
        if rows.dtype.kind in "biu":
            rows = rows.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: lists of tensors
        raise UnlabelError(f"The confidences are not an array of numbers: {error}.") from error
    rows = rows.astype(rows.dtype.newbyteorder("="), copy=False)
    if rows.dtype not in SUM_TOLERANCE:
        raise UnlabelError(
            f"The confidences have the type {rows.dtype}: give float16, float32 or float64."
        )
    n_labels = "labels" if classes is None else len(classes)
    if any_shape and rows.ndim and n_labels in ("labels", rows.shape[-1]):
        return rows
    if any_shape:
        raise UnlabelError(
            f"The confidences have the shape {rows.shape}, not (..., {n_labels}): give one column "
            "per label, in the model's order, in the last dimension."
        )
    if rows.ndim != 2 or n_labels not in ("labels", rows.shape[1]):
        raise UnlabelError(
            f"The confidences have the shape {rows.shape}, not (rows, {n_labels}): give one column "
            "per label, in the model's order; a single vector is confidences[None, :]."
        )
    return rows


def check_rows(
    rows: Floats,
    input_kind: InputKind,
    classes: Sequence[Label] | None = None,
    first_row: int = 0,
    numbers: Columns | None = None,
) -> None:
    """Refuse rows that are not probabilities (or logits), naming the first.

    They are numbered from `first_row`, or by `numbers`.
    """
    if rows.size == 0:
        return
    if input_kind == "logits":
        bad, kind = ~np.isfinite(rows.max(axis=1)), "vector of logits"
    else:
        bad, kind = are_not_probabilities(rows), "probability vector"
    if bad.any():
        at = int(np.argmax(bad))
        labels = range(rows.shape[1]) if classes is None else classes
        problem = _problem(rows[at].astype(np.float64), labels, rows)
        number = first_row + at if numbers is None else numbers[at]
        raise RowError(int(number), f" is not a {kind}: {problem}.")


def _problem(row: Float64s, labels: Sequence[Label], rows: Floats) -> str:
    for wrong, name in ((np.isnan(row), "NaN"), (np.isposinf(row), "infinite")):
        if wrong.any():
            label = labels[int(np.argmax(wrong))]
            return f"the label {label!r} is {name}; give a number or drop the row"
    if np.isneginf(row).all():
        return "every label is minus infinity"
    slack = SUM_TOLERANCE[np.dtype(np.float16)]
    if row.min() >= 0 and row.max() < 200 and abs(row.sum() - 100) <= 100 * slack:
        return f"it sums to {row.sum():.6g}, as percentages do; divide by 100"
    if row.min() < 0 or row.max() > 1 + slack:
        at = int(row.argmin() if row.min() < 0 else row.argmax())
        return (
            f"the label {labels[at]!r} is {row[at]:.6g}; if these are logits, declare them with "
            "input='logits' (--input logits)"
        )
    total = f"it sums to {row.sum():.6g}"
    if look_independent(rows):
        return (
            f"{total}, and these look like independent (sigmoid) scores; unlabel is for labels "
            "that exclude each other, as a softmax gives them"
        )
    if row.sum() == 0:
        return f"{total}; give every label's confidence"
    side = "above" if row.sum() > 1 else "below"
    return (
        f"{total}, {abs(row.sum() - 1):.2g} {side} 1 and more than rounding explains; give every "
        "label's confidence, or divide each row by its sum (--normalize)"
    )


# A single row of logits may sum to 1 by chance: where rows come one by one, look at this many.
ENOUGH_TO_TELL = 2


def refuse_probabilities(rows: Floats) -> None:
    """Refuse rows declared as logits if all of them are probabilities or percentages."""
    with np.errstate(over="ignore"):
        sums = rows.sum(axis=1, dtype=np.float64)
    if not len(rows) or rows.min() < 0:
        return
    declare = "declare them with input='probabilities' (--input probabilities)."
    if not are_not_probabilities(rows).any():
        raise UnlabelError(f"The rows are probabilities, not logits: give logits, or {declare}")
    if (np.abs(sums - 100) <= 100 * SUM_TOLERANCE[rows.dtype]).all():
        raise UnlabelError(f"The rows are percentages, not logits: divide by 100, and {declare}")
