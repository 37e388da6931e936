"""Allowed labels of a table's rows: one list for all of them, or a column with each row's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._labels import listing
from unlabel._tables.cells import plain
from unlabel._tables.predictions import Part
from unlabel._typing import SCORES, Scores
from unlabel.allow import MISSING, Allowed, AllowLists, MatchedLists, Missing, Unmatched
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.validation import choice


@dataclass(frozen=True, eq=False)
class Allowing:
    """Lists matched to a filter's labels, and how they restrict the rows of a table."""

    matched: MatchedLists
    by: str | None = None  # the column with each row's list; without it there is one list
    missing: Missing = "error"
    scores: Scores = "renormalised"
    not_allowed: bool = False  # whether the mass that was not allowed becomes a column

    def of_rows(self, part: Part) -> Allowed:
        """Find the labels that each row of a part may have."""
        if self.by is None:
            only = self.matched.of_rows([*self.matched.names], self.missing)
            return Allowed(only.lists, np.zeros(len(part), dtype=np.intp))
        names = self._names(part.cells(self.by))
        encoded = names.dictionary_encode("encode")
        try:
            distinct = self.matched.of_rows(encoded.dictionary.to_pylist(), self.missing)
        except UnlabelError:  # say it again, of the row
            return self.matched.of_rows(names.to_pylist(), self.missing)
        return Allowed(distinct.lists, distinct.of_row[encoded.indices.to_numpy()])

    def _names(self, column: pa.Array) -> pa.Array:
        try:
            return pc.cast(plain(column), pa.string())
        except pa.ArrowException as error:
            raise UnlabelError(
                f"The column {self.by!r} has the type {column.type} and names of lists are texts "
                "or numbers: choose another one with allow_by (--allow-by)."
            ) from error


def allowing(
    fitted: OutputFilter,
    lists: AllowLists | None,
    *,
    by: str | None = None,
    missing: Missing = "error",
    unmatched: Unmatched = "error",
    scores: Scores = "renormalised",
    not_allowed: bool = False,
) -> Allowing | None:
    """Match lists to a filter's labels, and refuse options that do not fit them."""
    choice(missing, MISSING, "missing")
    choice(scores, SCORES, "scores")
    if lists is None:
        _refuse_without_lists(
            {
                "allow_by (--allow-by)": by is not None,
                "missing (--allow-missing)": missing != "error",
                "unmatched (--allow-unmatched)": unmatched != "error",
                "scores (--scores)": scores != "renormalised",
                "not_allowed (--not-allowed)": not_allowed,
            }
        )
        return None
    if not isinstance(lists, AllowLists):
        given: Any = lists
        raise UnlabelError(
            f"The allowed labels are a {type(given).__name__}: give AllowLists, with the labels of "
            "each list by its name."
        )
    if by is None and len(lists) != 1:
        raise UnlabelError(
            f"There are {len(lists)} lists, {listing(lists.names)}: name the column with each "
            "row's list with allow_by (--allow-by)."
        )
    matched = lists.matched(fitted.classes, fitted.removed, unmatched=unmatched)
    return Allowing(matched, by, missing, scores, not_allowed)


def _refuse_without_lists(is_given: dict[str, bool]) -> None:
    for option in (option for option, given in is_given.items() if given):
        raise UnlabelError(
            f"{option} is for lists of allowed labels: give them with allow (--allow)."
        )
