"""Lists of allowed labels, which may differ from row to row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unlabel._files.text_file import TABLES, parse_json, read_text, table_rows
from unlabel._plans.outcome import changes_by_column
from unlabel._plans.parts import in_words
from unlabel._typing import Booleans, Columns, Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import SHORT, as_labels, is_missing, listing, no_such_label, plain_label

if TYPE_CHECKING:
    from unlabel.filter import OutputFilter

MOST_NAMED = 8


class Allowed(NamedTuple):
    """Which of a filter's labels each row may have."""

    lists: Booleans  # (l, m): one row per list
    of_row: Columns  # (n_rows,): each row's list


@dataclass(frozen=True, eq=False)
class BoundLists:
    """Lists over the labels of a filter's result."""

    names: tuple[str, ...] | None  # None if there is one list for all rows
    lists: Booleans  # (l, m)

    def of_rows(self, names: Any, n_rows: int) -> Allowed:
        """Find each row's list by its name; whole floats are named as whole numbers."""
        if self.names is None:
            if names is not None:
                raise _nameless()
            return Allowed(self.lists, np.zeros(n_rows, dtype=np.intp))
        if names is None:
            problem = "The lists have names: give the name of each row's list."
            raise UnlabelError(problem, argument="allow_by")
        given = np.asarray(names, dtype=object).ravel().tolist()
        if len(given) != n_rows:
            problem = f"{n_rows} rows have {len(given)} names of lists: give one per row."
            raise UnlabelError(problem, argument="allow_by")
        number = {name: at for at, name in enumerate(self.names)}
        try:  # the fast path: strings that are all names
            of_row = np.fromiter(map(number.__getitem__, given), np.intp, n_rows)
        except (KeyError, TypeError):
            found = (number.get(_text(name), -1) for name in given)
            of_row = np.fromiter(found, np.intp, n_rows)
        if n_rows and of_row.min() < 0:
            row = int(of_row.argmin())
            which = "no list" if is_missing(given[row]) else f"the unknown list {given[row]!r}"
            problem = f"It names {which}: the lists are {listing(self.names)}."
            raise UnlabelError(problem, argument="allow_by", row=row)
        return Allowed(self.lists, of_row)


def bind(allow: Any, fitted: OutputFilter) -> BoundLists:
    """Find the labels of lists among those of a filter's result.

    Parameters
    ----------
    allow : labels, mapping of names to labels, or path
        The path of a .csv or .tsv file with the columns ``list`` and ``label``, or .json.
    fitted : OutputFilter

    Examples
    --------
    >>> from unlabel import OutputFilter
    >>> same = OutputFilter.from_plan([], classes=["cat", "dog"])
    >>> bound = bind({"DE": ["cat"], "AU": ["cat", "dog"]}, same)
    >>> bound.of_rows(["AU", "DE"], 2).lists
    array([[ True, False],
           [ True,  True]])
    """
    path = allow if isinstance(allow, str | os.PathLike) else None
    given = allow if path is None else _read(path)
    with located(path):
        lists = {"": given}
        if isinstance(given, Mapping):
            lists = {_text(name): labels for name, labels in given.items()}
            if not lists or "" in lists or len(lists) < len(given):
                problem = "There is no list, or one without a name of its own: name each list."
                raise UnlabelError(problem, argument="allow")
        labels = {name: _labels_of(name, each) for name, each in lists.items()}
        column_of = {str(label): column for column, label in enumerate(fitted.classes_out)}
        texts = dict.fromkeys(str(label) for each in labels.values() for label in each)
        others = [text for text in texts if text not in column_of]
        if others:
            raise _not_given(others, fitted)
        allowed = np.zeros((len(labels), len(column_of)), dtype=np.bool_)
        for row, each in zip(allowed, labels.values(), strict=True):
            row[[column_of[str(label)] for label in each]] = True
        return BoundLists(tuple(lists) if isinstance(given, Mapping) else None, allowed)


def _labels_of(name: str, given: Any) -> tuple[Label, ...]:
    with located(row=f"the list {name!r}" if name else None):
        labels = as_labels([*given] if isinstance(given, Set) else given, "allow")
        if not labels:
            raise UnlabelError("No label is allowed: allow at least one.", argument="allow")
        return labels


def _not_given(texts: Sequence[str], fitted: OutputFilter) -> UnlabelError:
    """Return an error for labels that a filter does not give, with what became of them."""
    classes = fitted.classes_in
    changes = changes_by_column(fitted.plan, classes)
    became = {str(classes[column]): in_words(parts) for column, parts in changes.items()}
    gone = [f"{SHORT.repr(text)} is now {became[text]}" for text in texts if text in became]
    if not gone:
        return no_such_label(
            texts[0], fitted.classes_out, owner="filter's result", argument="allow"
        )
    shown = ", ".join(gone if len(gone) <= MOST_NAMED else [*gone[:MOST_NAMED], "..."])
    problem = f"The filter changes allowed labels: {shown}. List labels of its result."
    return UnlabelError(problem, argument="allow")


def _nameless() -> UnlabelError:
    problem = "The allowed labels have no names: give a mapping from names to lists."
    return UnlabelError(problem, argument="allow")


def _text(name: Any) -> str:
    """Return the name of a list as text, empty where it is missing."""
    try:
        return "" if is_missing(name) else str(plain_label(name))
    except UnlabelError:
        return str(name)


def allowed_rows(allow: Any, allow_by: Any, fitted: OutputFilter, lead: tuple[int, ...]) -> Allowed:
    """Find what each row of an array with the leading dimensions `lead` may have.

    `allow` may also be a boolean array of the shape of the result.
    """
    if getattr(allow, "dtype", None) != np.bool_:
        return bind(allow, fitted).of_rows(allow_by, prod(lead))
    if allow_by is not None:
        raise _nameless()
    shape, n_rows = (*lead, len(fitted.classes_out)), prod(lead)
    matrix = np.asarray(allow)
    if matrix.shape != shape:
        problem = f"The booleans have the shape {matrix.shape}: give the result's shape, {shape}."
        raise UnlabelError(problem, argument="allow")
    matrix = matrix.reshape(n_rows, shape[-1])
    if not matrix.any(axis=1).all():
        row = int(matrix.any(axis=1).argmin())
        raise UnlabelError("No label is allowed: allow at least one.", argument="allow", row=row)
    return Allowed(matrix, np.arange(n_rows))


def _read(path: str | os.PathLike[str]) -> Any:
    """Return the lists of a file: a pair of a list and a label per line, or JSON."""
    text, ending = read_text(path, (*TABLES, ".json"))
    with located(path):
        if ending == ".json":
            return parse_json(text)
        lists: dict[str, list[str]] = {}
        for line, (name, label) in table_rows(text, [["list"], ["label"]]):
            if not name or not label:
                missing = "label" if name else "list"
                raise UnlabelError(f"It has no {missing}: write one, or drop the line.", row=line)
            lists.setdefault(name, []).append(label)
        return lists
