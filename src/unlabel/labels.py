"""Lists of labels: checking them, finding their columns, naming them in messages."""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from itertools import filterfalse
from reprlib import Repr
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._typing import Columns, Label
from unlabel.errors import UnlabelError

# Suggesting the nearest label must not take seconds: compare at most so many labels and letters.
MAX_COMPARED, COMPARED_LETTERS = 10_000, 32
SHORT = Repr()
SHORT.maxstring = SHORT.maxother = SHORT.maxlong = 60
SURROGATES = re.compile("[\ud800-\udfff]")  # no file can hold them


def as_labels(values: Iterable[Any], argument: str) -> tuple[Label, ...]:
    """Convert labels to plain Python values, and refuse duplicates."""
    if isinstance(values, str):
        raise UnlabelError(f"{argument}={values!r} is a string: give a list, [{values!r}].")
    if isinstance(values, Mapping | Set):  # their own order could pair labels with wrong columns
        raise UnlabelError(f"{argument} is a {type(values).__name__}: give a list, in order.")
    # Refuse iterators: a second fit would find them exhausted and remove nothing.
    if not isinstance(values, Collection) or getattr(values, "ndim", 1) == 0:
        raise UnlabelError(f"{argument}={values!r} is not a list of labels: give a list.")
    if getattr(values, "ndim", 1) > 1:  # a data frame would give the names of its columns
        raise UnlabelError(f"{argument} is a table: give a list of labels.")
    labels = tuple(values)
    if set(map(type, labels)) - {int}:
        labels = tuple(map(plain_label, labels))
        for bad in filterfalse(_can_be_label, labels):
            raise UnlabelError(f"{argument} holds {bad!r}: labels are strings or finite numbers.")
    for duplicate in _duplicates(labels):
        raise UnlabelError(f"The label {duplicate!r} appears twice in {argument}: give it once.")
    return labels


def as_classes(values: Iterable[Any], argument: str = "classes") -> tuple[Label, ...]:
    """Convert a model's labels, a list in the order of its outputs or an `id2label` mapping."""
    if not isinstance(values, Mapping):
        return as_labels(values, argument)
    ids = range(len(values))
    if set(values) == set(ids):
        return as_labels([values[i] for i in ids], argument)
    # JSON turns ids into strings. A `label2id` may have such keys too, but its values are numbers.
    if set(values) == set(map(str, ids)) and all(isinstance(v, str) for v in values.values()):
        return as_labels([values[str(i)] for i in ids], argument)
    raise UnlabelError(
        f"{argument} is a mapping whose keys are not 0 to {len(values) - 1}: give a list in the "
        "order of the model's outputs, or an id2label mapping."
    )


def plain_label(value: Any) -> Any:
    """Convert numbers and strings of other types, such as NumPy's or an enumeration's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Enum):  # whose own text is another one
        for kind, content in ((str, str.__str__), (int, int.__int__), (float, float.__float__)):
            if isinstance(value, kind):
                return content(value)
    return value


def _can_be_label(value: object) -> bool:
    if isinstance(value, str):
        return not SURROGATES.search(value)
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _duplicates(labels: tuple[Label, ...]) -> Iterator[Label]:
    if set(map(type, labels)) == {int}:  # sorting is much faster for many integers
        with suppress(OverflowError):
            ordered = np.sort(np.array(labels, dtype=np.int64))
            yield from ordered[1:][ordered[1:] == ordered[:-1]].tolist()
            return
    seen: set[str] = set()
    for label in labels:
        if (key := label_key(label)) in seen:
            yield label
        seen.add(key)


def label_key(label: object) -> str:
    """Return a string that equal labels share, to look them up by.

    Python salts the hashes of strings but not of numbers: a hostile file could choose numbers
    that collide, so that looking them up takes minutes.
    """
    if type(label) is int:  # the usual case first, as this is called once per label and more
        return f"{label:x}"
    if isinstance(label, str):
        return f"'{label}"
    if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        return f"{int(label):x}"
    return repr(label)


@lru_cache(maxsize=2)  # a fit looks up the same labels eight times
def columns_of(classes: tuple[Label, ...]) -> dict[str, int]:
    """Map each label's `label_key` to its column."""
    return {label_key(label): column for column, label in enumerate(classes)}


def known_columns(labels: Iterable[Any], classes: Sequence[Label]) -> Columns:
    """Find the column of each label, -1 if it is not among the classes.

    True equals 1 in Python, but a boolean mask does not mean the labels 0 and 1.
    """
    column_of = columns_of(tuple(classes))
    plain = [*map(plain_label, labels)]
    columns = [column_of.get(label_key(label), -1) for label in plain]
    if bool in {*map(type, classes), *map(type, plain)}:
        for at, column in enumerate(columns):
            if column >= 0 and isinstance(classes[column], bool) != isinstance(plain[at], bool):
                columns[at] = -1
    return np.array(columns, dtype=np.intp)


def label_array(labels: Sequence[Label]) -> npt.NDArray[Any]:
    """Convert labels to an array that keeps their types."""
    return np.array(labels, dtype=None if len(set(map(type, labels))) == 1 else object)


def listing(names: Sequence[object], most: int = 8) -> str:
    """List the first few names, shortened, and count the others."""
    shown = ", ".join(SHORT.repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def is_missing(label: Any) -> bool:
    """Tell whether a true label is missing: None, NaN, an empty text, or NA of pandas."""
    with suppress(TypeError):  # NA is neither equal to itself nor different
        return bool(label is None or label == "" or label != label)
    return True


def nearest(label: object, classes: Sequence[Label]) -> Label | None:
    """Find the label whose text is most like another's, among the first of them."""
    by_text = {str(known)[:COMPARED_LETTERS]: known for known in classes[:MAX_COMPARED]}
    near = difflib.get_close_matches(str(label)[:COMPARED_LETTERS], by_text, n=1, cutoff=0.0)
    return by_text[near[0]] if near else None


def _looks(label: str) -> str:
    """Give a label with one form for characters that Unicode writes in several."""
    return unicodedata.normalize("NFKC", label)


def no_such_label(label: object, classes: Sequence[Label], where: str = "") -> UnlabelError:
    """Return an error that suggests the nearest label, or how to name the labels."""
    is_name = isinstance(label, str) and not re.fullmatch(r"[-+.\d]*", label)
    if is_name and [*classes] == [*range(len(classes))]:
        hint = ": the labels are numbered from 0; name them with classes=[...] (--classes)"
    else:
        near = nearest(label, classes)
        hint = "" if near is None else f": the nearest is {near!r}"
        if isinstance(near, str) and isinstance(label, str) and _looks(near) == _looks(label):
            hint += ", which has other characters that look the same"
    return UnlabelError(f"The model has no label {label!r}{where}{hint}.")
