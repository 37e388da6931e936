"""Input validation and its error messages."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from reprlib import Repr
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._typing import Columns, Floats, InputKind, Label
from unlabel.errors import UnlabelError

# How far a row's sum may be from 1: stored tables round their entries. A little more than a
# thousandth, as sums of entries rounded to thousandths would else be let in or not by a bit.
SUM_TOLERANCE = {
    np.dtype(np.float16): 1e-2,
    np.dtype(np.float32): 1.001e-3,
    np.dtype(np.float64): 1.001e-3,
}

# The nearest label is looked for among this many labels, by this many letters: a message
# must not take seconds.
MAX_COMPARED, COMPARED_LETTERS = 10_000, 32
SHORT = Repr()
SHORT.maxstring = SHORT.maxother = SHORT.maxlong = 60
SURROGATES = re.compile("[\ud800-\udfff]")  # no file can hold them


def choice(value: object, options: Sequence[str], name: str) -> None:
    """Refuse a value that is not among the options."""
    if value not in options:
        known = ", ".join(repr(option) for option in options)
        raise UnlabelError(f"{name}={value!r} is not known: use one of {known}.")


def as_labels(values: Iterable[Any], what: str) -> tuple[Label, ...]:
    """Plain Python labels, none of them twice."""
    if isinstance(values, str):
        raise UnlabelError(f"{what}={values!r} is a single text: give a list, [{values!r}].")
    if isinstance(values, Mapping | Set):  # as they iterate, labels would meet other columns
        kind = "mapping" if isinstance(values, Mapping) else "set"
        raise UnlabelError(f"{what} is a {kind}, and the order of labels matters: give a list.")
    # An iterator would be empty the second time, a filter fitted with it would remove nothing.
    if not isinstance(values, Collection) or getattr(values, "ndim", 1) == 0:
        raise UnlabelError(f"{what}={values!r} is not a list of labels: give a list.")
    labels = tuple(values)
    if set(map(type, labels)) - {int}:
        labels = tuple(v.item() if isinstance(v, np.generic) else v for v in labels)
        for label in labels:
            if not _can_be_label(label):
                raise UnlabelError(f"{what} holds {label!r}: labels are texts or finite numbers.")
    for twice in _repeated(labels):
        raise UnlabelError(f"The label {twice!r} stands twice in {what}: give each label once.")
    return labels


def _repeated(labels: tuple[Label, ...]) -> Iterator[Label]:
    """Labels that occurred earlier."""
    if set(map(type, labels)) == {int}:  # a hundred thousand numbers are seen through at once
        with suppress(OverflowError):
            ordered = np.sort(np.array(labels, dtype=np.int64))
            yield from ordered[1:][ordered[1:] == ordered[:-1]].tolist()
            return
    seen: set[str] = set()
    for label in labels:
        key = label_key(label)
        if key in seen:
            yield label
        seen.add(key)


def label_key(label: object) -> str:
    """Give a text that equal labels have in common, to look them up by.

    Python hashes texts with a secret, but numbers to themselves: those of a file could be chosen
    so that looking them up takes minutes.
    """
    if isinstance(label, str):
        return f"'{label}"
    if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        return f"{int(label):x}"
    return repr(label)


@lru_cache(maxsize=2)  # a fit asks for the same labels eight times
def columns_of(classes: tuple[Label, ...]) -> dict[str, int]:
    """Column of each label, by its `label_key`."""
    return {label_key(label): column for column, label in enumerate(classes)}


def as_classes(values: Iterable[Any], what: str = "classes") -> tuple[Label, ...]:
    """Labels of a model in the order of its outputs; an `id2label` says that order itself."""
    if not isinstance(values, Mapping):
        return as_labels(values, what)
    numbers = range(len(values))
    if set(values) == set(numbers):
        return as_labels([values[number] for number in numbers], what)
    # JSON turns the numbers into texts. A `label2id` may have such keys, and numbers as values.
    if set(values) == set(map(str, numbers)) and all(isinstance(v, str) for v in values.values()):
        return as_labels([values[str(number)] for number in numbers], what)
    raise UnlabelError(
        f"{what} is a mapping whose keys are not 0 to {len(values) - 1}: give the labels as a "
        "list in the order of the model's outputs, or as an id2label from numbers to labels."
    )


def _can_be_label(value: object) -> bool:
    if isinstance(value, str):
        return not SURROGATES.search(value)
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def label_array(labels: Sequence[Label]) -> npt.NDArray[Any]:
    """Labels as an array that keeps their types."""
    one_type = len({type(label) for label in labels}) == 1
    return np.array(labels, dtype=None if one_type else object)


def listing(names: Sequence[object], most: int = 8) -> str:
    """Some of the names, long ones cut short, and how many more there are."""
    shown = ", ".join(SHORT.repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def no_such_label(label: object, classes: Sequence[Label], where: str = "") -> UnlabelError:
    """Say that a label does not exist, and which one comes nearest or how to name labels."""
    is_name = isinstance(label, str) and not re.fullmatch(r"[-+.\d]*", label)
    if is_name and [*classes] == [*range(len(classes))]:
        return UnlabelError(
            f"There is no label {label!r}{where}: the {len(classes)} labels of the model have no "
            "names and are numbered from 0; name them with classes=[...] (--classes)."
        )
    by_text = {str(known)[:COMPARED_LETTERS]: known for known in classes[:MAX_COMPARED]}
    text = str(label)[:COMPARED_LETTERS]
    near = difflib.get_close_matches(text, by_text, n=1, cutoff=0.0)
    nearest = f": the nearest is {by_text[near[0]]!r}" if near else ""
    return UnlabelError(
        f"There is no label {label!r} among the {len(classes)} labels of the model{where}{nearest}."
    )


def labels_to_remove(
    classes: Sequence[Label], remove: Iterable[Any] | None, keep: Iterable[Any] | None
) -> tuple[Label, ...]:
    """Resolve `remove` or `keep` into the labels to remove, in order."""
    if (remove is None) == (keep is None):
        raise UnlabelError(
            "Give either the labels to remove (remove=[...], --remove) or the labels to keep "
            "(keep=[...], --keep)."
        )
    if keep is None:
        named = as_labels(remove, "remove")  # type: ignore[arg-type]
    else:  # what is kept stays in the model's order, and so may be a set
        named = as_labels(tuple(keep) if isinstance(keep, Set) else keep, "keep")
    columns = known_columns(named, classes)
    if (columns < 0).any():
        raise no_such_label(named[int(np.argmin(columns))], classes)
    if keep is not None:
        columns = np.delete(np.arange(len(classes)), columns)
    removed = tuple(classes[column] for column in columns)
    if len(removed) == len(classes):
        raise UnlabelError(f"All {len(classes)} labels would be removed: at least one must remain.")
    return removed


def known_columns(labels: Iterable[Any], classes: Sequence[Label]) -> Columns:
    """Column of each label, -1 where it is not among the classes.

    True equals 1 in Python, yet who gives a boolean mask does not mean the labels 0 and 1.
    """
    column_of, columns = columns_of(tuple(classes)), []
    for label in labels:
        plain = label.item() if isinstance(label, np.generic) else label
        column = column_of.get(label_key(plain), -1)
        if column >= 0 and isinstance(classes[column], bool) != isinstance(plain, bool):
            column = -1
        columns.append(column)
    return np.array(columns, dtype=np.intp)


def distinct_labels(labels: Any) -> tuple[list[Any], Columns]:
    """The distinct true labels, and which of them each row has."""
    labels = readable(labels, "true labels")
    # NumPy would turn the numbers of a list into texts if there were a text among them.
    values = np.asarray(labels, dtype=None if hasattr(labels, "__array__") else object)
    if values.ndim != 1:
        raise UnlabelError(
            f"The true labels have the shape {values.shape}: give one true label per row."
        )
    if values.dtype != object:
        names, inverse = np.unique(values, return_inverse=True)
        return names.tolist(), inverse
    try:  # True equals 1, and is another label
        keys = [(isinstance(label, bool), label) for label in values.tolist()]
        position = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    except TypeError as error:
        raise UnlabelError("The true labels are not all texts or numbers.") from error
    codes = np.fromiter((position[key] for key in keys), np.intp, len(keys))
    return [label for _, label in position], codes


def true_columns(labels: Any, classes: Sequence[Label], n_rows: int) -> Columns:
    """Column of each row's true label."""
    distinct, inverse = distinct_labels(labels)
    if len(inverse) != n_rows:
        raise UnlabelError(
            f"There are {n_rows} rows of confidences and {len(inverse)} true labels: give one true "
            "label per row."
        )
    columns = known_columns(distinct, classes)
    if (columns < 0).any():
        at = int(np.argmin(columns))
        row = int(np.argmax(inverse == at))
        raise no_such_label(distinct[at], classes, f", the true label of row {row}")
    return columns[inverse]


def as_confidences(
    values: Any,
    input_kind: InputKind,
    classes: Sequence[Label] | None = None,
    first_row: int = 0,
) -> Floats:
    """Rows of confidences in their own float type, or an error naming the first bad row.

    `first_row` is the number of the first row in the table that the rows come from.
    """
    rows = as_rows(values, classes)
    check_rows(rows, input_kind, first_row)
    return rows


def column_names(values: Any) -> tuple[Any, ...]:
    """The names of a table's columns; none for an array, or where they only count the columns."""
    # Not first `columns`, which in an Arrow table are the columns themselves.
    names = getattr(values, "column_names", None) or getattr(values, "columns", ())
    if not isinstance(names, Iterable):
        return ()
    names = tuple(names)
    if any(not isinstance(name, Hashable) for name in names):
        return ()
    counts = type(getattr(values, "columns", None)).__name__ == "RangeIndex"  # pandas' default
    return () if counts and names == tuple(range(len(names))) else names


def check_column_order(names: Sequence[Any], classes: Sequence[Label]) -> None:
    """Refuse a label's column where the model has another label."""
    if not names or tuple(names) == tuple(classes):
        return
    known = {spelling for label in classes for spelling in (str(label), label_key(label))}
    for at, (name, label) in enumerate(zip(names, classes, strict=False)):
        spellings = {str(name), label_key(name)}
        if spellings & known and spellings.isdisjoint((str(label), label_key(label))):
            raise UnlabelError(
                f"Column {at} of the confidences is {name!r} and the model's label {at} is "
                f"{label!r}: give the columns in the order of the model's labels."
            )


def check_columns(names: Sequence[Any], classes: Sequence[Label]) -> None:
    """Refuse a table with columns of labels in other places, or beside columns of other names.

    Columns none of which is named after a label are taken in their order.
    """
    check_column_order(names, classes)
    own = [
        not {str(name), label_key(name)}.isdisjoint((str(label), label_key(label)))
        for name, label in zip(names, classes, strict=False)
    ]
    if any(own) and not all(own):
        at = own.index(False)
        raise UnlabelError(
            f"Column {at} of the confidences is {names[at]!r}, and others are named after labels: "
            f"rename it to {classes[at]!r} if it holds that label's confidences."
        )


def readable(values: Any, what: str) -> Any:
    """What NumPy can read without losing anything: no masked entries, and tensors as arrays."""
    masked = []
    if isinstance(values, list | tuple):
        masked = [row for row, value in enumerate(values) if isinstance(value, np.ma.MaskedArray)]
        masked = [row for row in masked if np.ma.is_masked(values[row])]
    elif np.ma.is_masked(values):
        masked = np.argwhere(np.ma.getmaskarray(values))[:, 0].tolist()
    if masked:
        raise UnlabelError(
            f"Row {masked[0]} of the {what} has a masked entry: fill it in, or leave the row out."
        )
    if not hasattr(values, "detach"):
        return values
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError) as error:  # bfloat16, a gradient, another device
        raise UnlabelError(
            f"The {what} are a tensor that NumPy cannot read: give tensor.detach().float().cpu()."
        ) from error


def as_rows(values: Any, classes: Sequence[Label] | None = None) -> Floats:
    """Rows in their own float type, whatever they hold."""
    if classes is not None:
        check_columns(column_names(values), classes)
    values = readable(values, "confidences")
    try:
        rows = np.asarray(values)
        if rows.dtype.kind in "biu":
            rows = rows.astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:  # the last by lists of tensors
        raise UnlabelError(f"The confidences are not an array of numbers: {error}.") from error
    rows = rows.astype(rows.dtype.newbyteorder("="), copy=False)
    if rows.dtype not in SUM_TOLERANCE:
        raise UnlabelError(
            f"The confidences have the type {rows.dtype}: give float16, float32 or float64."
        )
    if rows.ndim != 2:
        raise UnlabelError(
            f"The confidences have the shape {rows.shape}: give two dimensions, rows by labels; "
            "a single vector is confidences[None, :]."
        )
    if classes is not None and rows.shape[1] != len(classes):
        raise UnlabelError(
            f"The confidences have {rows.shape[1]} columns and the model {len(classes)} labels: "
            "give one column per label, in the order of the model's labels."
        )
    return rows


def check_rows(rows: Floats, input_kind: InputKind, first_row: int = 0) -> None:
    """Refuse rows that are not probabilities (or logits), naming the first."""
    if rows.size == 0:
        return
    if input_kind == "logits":
        top = rows.max(axis=1)
        _refuse(~np.isfinite(top), rows, first_row, "is not a row of logits: it {holds}.")
        return
    tolerance = SUM_TOLERANCE[rows.dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        # Sums in float32 are fast, and far enough from the tolerance they tell as much.
        near = rows.dtype == np.float32 and np.abs(rows.sum(axis=1) - 1) <= tolerance / 2
        if np.all(near) and rows.min() >= 0:
            return
        sums = rows.sum(axis=1, dtype=np.float64)
    off = ~(np.abs(sums - 1) <= tolerance)
    if off.any() or rows.min() < 0:
        _refuse(
            off | (rows < 0).any(axis=1),
            rows,
            first_row,
            "is not a row of probabilities: it {holds}.",
        )


def refuse_probabilities(rows: Floats) -> None:
    """Refuse rows that were said to be logits and are probabilities, every one of them."""
    with np.errstate(over="ignore"):
        sums = rows.sum(axis=1, dtype=np.float64)
    if not len(rows) or rows.min() < 0:
        return
    if (np.abs(sums - 1) <= SUM_TOLERANCE[rows.dtype]).all():
        raise UnlabelError(
            "The rows are probabilities and logits are expected: give logits, or declare them with "
            "input='probabilities' (--input probabilities)."
        )
    if (np.abs(sums - 100) <= 100 * SUM_TOLERANCE[rows.dtype]).all():
        raise UnlabelError(
            "The rows sum to 100, as percentages do, and logits are expected: divide by 100, and "
            "declare them with input='probabilities' (--input probabilities)."
        )


def _refuse(bad: npt.NDArray[np.bool_], rows: Floats, first_row: int, sentence: str) -> None:
    if not bad.any():
        return
    at = int(np.argmax(bad))
    row = rows[at].astype(np.float64)
    raise UnlabelError(f"Row {first_row + at} " + sentence.format(holds=_what_is_wrong(row)))


def _what_is_wrong(row: npt.NDArray[np.float64]) -> str:
    for wrong, name in ((np.isnan(row), "NaN"), (np.isposinf(row), "infinity")):
        if wrong.any():
            return f"holds {name} in column {int(np.argmax(wrong))}"
    if np.isneginf(row).all():
        return "holds minus infinity in every column"
    slack = SUM_TOLERANCE[np.dtype(np.float16)]
    if row.min() >= 0 and row.max() < 200 and abs(row.sum() - 100) <= 100 * slack:
        return f"sums to {row.sum():.6g}, as percentages do: divide them by 100"
    if row.min() < 0 or row.max() > 1 + slack:
        extreme = int(np.argmin(row)) if row.min() < 0 else int(np.argmax(row))
        return (
            f"holds {row[extreme]:.6g} in column {extreme}; if these are logits, say so "
            "with input='logits' (--input logits)"
        )
    return (
        f"sums to {row.sum():.6g}, not 1; give every label's confidence, or divide each row "
        "by its sum"
    )
