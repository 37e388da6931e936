"""Lists of allowed labels, which may differ from row to row."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from unlabel._files import allow_file
from unlabel.labels import (
    as_labels,
    is_missing,
    known_columns,
    listing,
    nearest,
    no_such_label,
    plain_label,
)
from unlabel._typing import Booleans, Columns, Label
from unlabel.errors import RowError, UnlabelError
from unlabel.validation import choice

Unmatched = Literal["error", "ignore"]
Missing = Literal["error", "all"]
UNMATCHED: tuple[Unmatched, ...] = get_args(Unmatched)
MISSING: tuple[Missing, ...] = get_args(Missing)
MOST_NAMED = 8


@dataclass(frozen=True, eq=False)
class Allowed:
    """Which of a filter's labels each row may have."""

    lists: Booleans  # (l, m): one row per list
    of_row: Columns  # (n_rows,): each row's list


class AllowLists:
    """Named lists of allowed labels, such as species by country or categories by marketplace.

    Parameters
    ----------
    lists : mapping
        The labels of each list, by its name.

    Examples
    --------
    >>> from unlabel import OutputFilter
    >>> lists = AllowLists({"DE": ["cat", "dog"], "AU": ["dog", "dingo"]})
    >>> fitted = OutputFilter.mask(["cat", "dog", "dingo", "fox"], ["fox"])
    >>> rows = [[.4, .4, .1, .1], [.4, .4, .1, .1]]
    >>> fitted.apply(rows, allow=lists.rows(["DE", "AU"])).round(2)
    array([[0.5, 0.5, 0. ],
           [0. , 0.8, 0.2]])
    """

    def __init__(self, lists: Mapping[str, Iterable[Any]]) -> None:
        if not isinstance(lists, Mapping):
            raise UnlabelError(
                f"The lists are a {type(lists).__name__}: give a mapping from names to labels."
            )
        self.names = tuple(map(_text, lists))  # as rows name them by their texts
        for name in (name for name, count in Counter(self.names).items() if count > 1):
            raise UnlabelError(f"Two lists have the name {name!r}: give each its own.")
        number: dict[Any, int] = {}
        columns = []
        for name, labels in lists.items():
            if isinstance(labels, str):
                raise UnlabelError(f"The list {name!r} is a string: give a list, [{labels!r}].")
            if not isinstance(labels, Iterable):
                raise UnlabelError(f"The list {name!r} is {labels!r}: give a list of labels.")
            labels = [*labels]
            if not all(isinstance(label, Hashable) for label in labels):
                as_labels(labels, f"the list {name!r}")  # refuses the label that is not one
            columns.append([number.setdefault(label, len(number)) for label in labels])
            if len({*columns[-1]}) < len(columns[-1]):
                as_labels(labels, f"the list {name!r}")  # refuses the label that comes twice
        self.labels = as_labels(tuple(number), "the lists")
        bits = np.zeros((len(columns), len(number)), dtype=np.bool_)
        for row, at in zip(bits, columns, strict=True):
            row[at] = True
        self._bits = np.packbits(bits, axis=1)
        self._number = {name: row for row, name in enumerate(self.names)}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> AllowLists:
        """Read lists from a .csv or .tsv file with the columns ``list`` and ``label``, or .json."""
        return cls(allow_file.read(path))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return _text(name) in self._number

    def __getitem__(self, name: str) -> tuple[Label, ...]:
        allowed = self._unpacked([self._number[_text(name)]])[0]
        return tuple(self.labels[column] for column in np.flatnonzero(allowed))

    def _unpacked(self, lists: Sequence[int] | slice = slice(None)) -> Booleans:
        bits = np.unpackbits(self._bits[lists], axis=1, count=len(self.labels))
        return bits.astype(np.bool_)

    def matched(
        self,
        classes: Sequence[Label],
        retired: Sequence[Label] = (),
        *,
        unmatched: Unmatched = "error",
    ) -> MatchedLists:
        """Find the labels of a filter's result in the lists.

        Labels match by their texts. Labels that the filter retired are counted; others that are
        not among its labels are an error, unless they are ignored.

        Parameters
        ----------
        classes, retired : labels
            The `classes` and the `removed` of a filter.
        unmatched : {"error", "ignore"}
            As in `rows`.

        Returns
        -------
        MatchedLists
            Its `allowed` is a boolean array with one row per list, in the order of `names`, and
            one column per label of the result.

        Examples
        --------
        >>> lists = AllowLists({"DE": ["cat", "dog"], "AU": ["dog", "dingo"]})
        >>> lists.matched(["cat", "dog", "dingo"]).allowed
        array([[ True,  True, False],
               [False,  True,  True]])
        """
        choice(unmatched, UNMATCHED, "unmatched")
        column_of = {str(label): column for column, label in enumerate(classes)}
        if len(column_of) < len(classes):
            raise UnlabelError(
                "Two of the filter's labels are the same text, and lists tell labels apart by "
                "their texts: rename one of them."
            )
        columns = np.array([column_of.get(str(label), -1) for label in self.labels], dtype=np.intp)
        gone = {str(label) for label in retired}
        strangers = [
            label
            for label, column in zip(self.labels, columns.tolist(), strict=True)
            if column < 0 and str(label) not in gone
        ]
        if strangers and unmatched == "error":
            named = "; ".join(
                f"{label!r}, of which the nearest is {nearest(label, classes)!r}"
                for label in strangers[:MOST_NAMED]
            )
            more = f" and {len(strangers) - MOST_NAMED} more" if len(strangers) > MOST_NAMED else ""
            raise UnlabelError(
                f"The filter does not give {len(strangers)} of the {len(self.labels)} allowed "
                f"labels, {named}{more}: correct them, or ignore them (--allow-unmatched ignore)."
            )
        bits = self._unpacked()
        allowed = np.zeros((len(self), len(classes)), dtype=np.bool_)
        # Of several labels with the same text, such as 1 and "1", one allows it.
        np.logical_or.at(allowed.T, columns[columns >= 0], bits.T[columns >= 0])
        return MatchedLists(
            names=self.names,
            allowed=allowed,
            unmatched=tuple(strangers),
            retired=int((columns < 0).sum()) - len(strangers),
        )

    def rows(
        self, names: Any, *, missing: Missing = "error", unmatched: Unmatched = "error"
    ) -> RowLists:
        """Assign a list to each row by its name, for `OutputFilter.apply`.

        Parameters
        ----------
        names : array of list names, one per row
        missing : {"error", "all"}
            Refuse rows whose list does not exist, or allow them all labels.
        unmatched : {"error", "ignore"}
            Refuse lists with labels that the filter does not give, or ignore these labels.
        """
        choice(missing, MISSING, "missing")
        return RowLists(self, names, missing, unmatched)


@dataclass(frozen=True, eq=False)
class MatchedLists:
    """Lists over the labels of a filter's result."""

    names: tuple[str, ...]
    allowed: Booleans  # (l, m)
    unmatched: tuple[Label, ...]  # labels that the filter does not give
    retired: int  # the number of labels that it retired

    def of_rows(self, names: Any, missing: Missing) -> Allowed:
        """Find each row's list."""
        given = names if isinstance(names, list) else np.asarray(names).ravel().tolist()
        number = {name: at for at, name in enumerate(self.names)}
        try:  # rows are many: look each name up once, and ask questions later
            of_row = np.fromiter(map(number.__getitem__, given), np.intp, len(given))
        except (KeyError, TypeError):
            # 1, 1.0 and True are equal, but not the same name.
            keys = [(type(n), n if isinstance(n, Hashable) else str(n)) for n in given]
            list_of = {key: self._number(key[1], number, missing) for key in {*keys}}
            others = [list_of[key] for key in keys]
            of_row = np.array(others, dtype=np.intp)
            if -1 in others:
                at = others.index(-1)
                which = "no list" if is_missing(given[at]) else f"the unknown list {given[at]!r}"
                raise RowError(
                    at,
                    f" names {which}: the lists are {listing(self.names)}; to allow such rows all "
                    "labels, say missing='all' (--allow-missing all).",
                ) from None
        every = np.ones((1, self.allowed.shape[1]), dtype=np.bool_)
        allowed = np.vstack([self.allowed, every])
        is_named = np.bincount(of_row, minlength=len(allowed)) > 0
        for name in np.array([*self.names, ""])[is_named & ~allowed.any(axis=1)].tolist():
            raise UnlabelError(f"The list {name!r} allows no label of the filter: add one.")
        return Allowed(allowed, of_row)

    def _number(self, name: Any, number: dict[str, int], missing: Missing) -> int:
        """Find a list by the text of its name; a list of all labels comes after the others.

        Whole numbers come as floats where others in their column are missing.
        """
        if isinstance(name, float) and name.is_integer() and str(name) not in number:
            name = int(name)
        found = -1 if is_missing(name) else number.get(_text(name), -1)
        return len(self.names) if found < 0 and missing == "all" else found


def _text(name: Any) -> str:
    return str(plain_label(name))


@dataclass(frozen=True, eq=False)
class RowLists:
    """Lists, and the name of each row's."""

    lists: AllowLists
    names: Any
    missing: Missing = "error"
    unmatched: Unmatched = "error"


def as_allowed(
    allow: Any, classes: Sequence[Label], retired: Sequence[Label], lead: tuple[int, ...]
) -> Allowed:
    """Turn a list of labels, a boolean matrix or `AllowLists.rows` into what each row may have.

    Rows have the dimensions `lead`; a matrix has these too, or one row for each of them.
    """
    n_rows = math.prod(lead)
    if isinstance(allow, AllowLists):
        raise UnlabelError(
            "The lists do not tell which one a row has: give allow=lists.rows(names), with the "
            "name of each row's list."
        )
    if isinstance(allow, RowLists):
        matched = allow.lists.matched(classes, retired, unmatched=allow.unmatched)
        allowed = matched.of_rows(allow.names, allow.missing)
        if len(allowed.of_row) != n_rows:
            raise UnlabelError(
                f"{n_rows} rows have {len(allowed.of_row)} names of lists: give one per row."
            )
        return allowed
    if getattr(allow, "dtype", None) == np.bool_:
        matrix = np.asarray(allow)
        shape = (*lead, len(classes))
        if matrix.shape not in (shape, (n_rows, len(classes))):
            raise UnlabelError(
                f"The allowed labels have the shape {matrix.shape}, not {shape}: give one boolean "
                "per row and label of the filter."
            )
        matrix = matrix.reshape(n_rows, len(classes))
        empty = np.flatnonzero(~matrix.any(axis=1))
        if empty.size:
            raise RowError(int(empty[0]), " is allowed no label: allow it at least one.")
        return Allowed(matrix, np.arange(n_rows))
    labels = as_labels([*allow] if isinstance(allow, set | frozenset) else allow, "allow")
    columns = known_columns(labels, classes)
    for label in (label for label, column in zip(labels, columns, strict=True) if column < 0):
        if known_columns([label], retired)[0] < 0:
            raise no_such_label(label, classes)
    if not (columns >= 0).any():
        raise UnlabelError("The list allows none of the filter's labels: add one.")
    allowed_labels = np.zeros((1, len(classes)), dtype=np.bool_)
    allowed_labels[0, columns[columns >= 0]] = True
    return Allowed(allowed_labels, np.zeros(n_rows, dtype=np.intp))
