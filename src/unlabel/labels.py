"""Lists of labels: checking them, finding their columns, naming them in messages.

Labels are strings or whole numbers, and no two of a list have the same text.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from functools import lru_cache
from reprlib import Repr
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._typing import Columns, Label
from unlabel.errors import UnlabelError

# Finding the nearest label must not take seconds: compare at most so many labels and letters.
MAX_COMPARED, COMPARED_LETTERS = 10_000, 32
LEAST_SIMILARITY = 0.66  # of `difflib`: three letters of which two changed places
INT64 = 1 << 63


class _Short(Repr):
    """Shortened texts of values, also of whole numbers that are too long for Python to print."""

    def repr_int(self, x: int, level: int) -> str:
        return super().repr_int(x, level) if -INT64 < x < INT64 else "beyond 64 bits"


SHORT = _Short()
SHORT.maxstring = SHORT.maxother = SHORT.maxlong = 60
SURROGATES = re.compile("[\ud800-\udfff]")  # no file can hold them


def as_labels(values: Any, argument: str | None = None) -> tuple[Label, ...]:
    """Return labels as plain strings and whole numbers, or raise an error.

    Iterators are refused, as they can be read only once, and sets and mappings, as their own order
    could pair labels with wrong columns.

    Examples
    --------
    >>> as_labels(np.array([1.0, 2.0]), "classes")
    (1, 2)
    >>> as_labels("cat", "remove")
    Traceback (most recent call last):
    unlabel.errors.UnlabelError: The labels are given as str: give a list, in order (remove=).
    """
    is_list = isinstance(values, Collection) and not isinstance(values, str | bytes | Mapping | Set)
    dimensions = getattr(values, "ndim", 1)
    if not is_list or dimensions != 1:
        kind = "table" if dimensions > 1 else type(values).__name__
        problem = f"The labels are given as {kind}: give a list, in order."
        raise UnlabelError(problem, argument=argument)
    values = values.tolist() if isinstance(values, np.ndarray) else [*values]
    try:  # strings, the usual case, are looked at together
        are_plain = {*map(type, values)} == {str} and not SURROGATES.search("".join(values))
        labels = tuple(values if are_plain else map(plain_label, values))
    except UnlabelError as error:
        error.argument = argument
        raise
    texts = [*map(str, labels)]
    if len({*texts}) < len(texts):
        text = Counter(texts).most_common(1)[0][0]
        first, second = [label for label in labels if str(label) == text][:2]
        twice = "appears twice" if first == second else f"has the text of {second!r}"
        problem = f"The label {SHORT.repr(first)} {twice}: give each label once."
        raise UnlabelError(problem, argument=argument)
    return labels


def as_classes(values: Any, argument: str = "classes") -> tuple[Label, ...]:
    """Return a model's labels from a list in the order of its outputs or an `id2label` mapping."""
    if not isinstance(values, Mapping):
        return as_labels(values, argument)
    ids = range(len(values))
    if {*values} == {*ids}:
        return as_labels([values[i] for i in ids], argument)
    # JSON turns ids into strings. A `label2id` may have such keys too, but its values are numbers.
    if {*values} == {*map(str, ids)} and all(isinstance(v, str) for v in values.values()):
        return as_labels([values[str(i)] for i in ids], argument)
    raise UnlabelError(
        f"The keys of the mapping are not 0 to {len(values) - 1}: give a list in the order of the "
        "model's outputs, or an id2label mapping.",
        argument=argument,
    )


def plain_label(value: Any) -> Label:
    """Return a label as a plain string or whole number, or raise an error that names it."""
    if type(value) is str and not SURROGATES.search(value):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -INT64 <= value < INT64:
        return int(value)
    if isinstance(value, str) and not SURROGATES.search(value):
        return str.__str__(value)  # a member of an enumeration has another text of its own
    problem = f"The label {SHORT.repr(value)} is neither a string nor a whole number."
    raise UnlabelError(problem)


@lru_cache(maxsize=4)  # a fit looks up the same labels several times
def columns_of(classes: tuple[Label, ...]) -> dict[Label, int]:
    """Map each label to its column."""
    return {label: column for column, label in enumerate(classes)}


def known_columns(labels: Iterable[Any], classes: Sequence[Label]) -> Columns:
    """Find the column of each label, -1 if it is not among the classes."""
    column_of = columns_of(tuple(classes))

    def column(label: Any) -> int:
        if type(label) is not str and type(label) is not int:  # True equals 1 in Python
            try:
                label = plain_label(label)
            except UnlabelError:
                return -1
        return column_of.get(label, -1)

    return np.fromiter(map(column, labels), np.intp)


def label_array(labels: Sequence[Label]) -> npt.NDArray[Any]:
    """Return labels as an array that keeps their types."""
    return np.array(labels, dtype=None if len({*map(type, labels)}) == 1 else object)


def listing(names: Sequence[object], most: int = 8) -> str:
    """List the first few names, shortened, and count the others."""
    shown = ", ".join(SHORT.repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def is_missing(label: Any) -> bool:
    """Whether a true label is missing: None, NaN, an empty string, or NA of pandas."""
    with suppress(TypeError):  # NA is neither equal to itself nor different
        return bool(label is None or label == "" or label != label)
    return True


def nearest(
    label: object, classes: Sequence[Label], similarity: float = LEAST_SIMILARITY
) -> Label | None:
    """Return the label that is written most like another, None if none is near.

    Examples
    --------
    >>> nearest("lynks", ["cat", "Lynx"]), nearest("oos", ["todo_list", "text"])
    ('Lynx', None)
    """
    by_text = {_folded(k)[:COMPARED_LETTERS]: k for k in reversed(classes[:MAX_COMPARED])}
    text = _folded(label)[:COMPARED_LETTERS]
    near = difflib.get_close_matches(text, by_text, n=1, cutoff=similarity)
    return by_text[near[0]] if near else None


def _folded(label: object) -> str:
    return unicodedata.normalize("NFKC", str(label)).casefold()


def no_such_label(
    label: object,
    classes: Sequence[Label],
    *,
    owner: str = "model",
    argument: str | None = None,
    row: int | str | None = None,
) -> UnlabelError:
    """Return an error for a label that a model lacks, with the nearest one if any is near."""
    near = nearest(label, classes)
    if near is not None:
        hint = f"the nearest is {SHORT.repr(near)}"
        if isinstance(near, str) and isinstance(label, str) and _folded(near) == _folded(label):
            hint += ", which is written differently"
    elif isinstance(label, str) and [*classes] == [*range(len(classes))]:
        hint, argument = "its labels are numbered from 0; give their names", "classes"
    else:
        hint = f"it has {len(classes):,} labels: {listing(classes, 3)}"
    problem = f"The {owner} has no label {SHORT.repr(label)}: {hint}."
    return UnlabelError(problem, argument=argument, row=row)
