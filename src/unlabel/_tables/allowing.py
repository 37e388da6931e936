"""Allowed labels of a table's rows: one list for all of them, or a column with each row's."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from unlabel._tables.cells import plain
from unlabel._tables.predictions import Part
from unlabel.allow import Allowed, BoundLists
from unlabel.errors import UnlabelError


def check_lists(lists: BoundLists | None, by: str | None) -> None:
    """Raise an error for lists that do not fit the column with each row's list."""
    if lists is None and by is not None:
        problem = "A column names lists of allowed labels, and there are none: give them too."
        raise UnlabelError(problem, argument="allow_by")
    if lists is not None and (lists.names is None) is not (by is None):
        has = "one list for all rows" if lists.names is None else "lists with names"
        advice = (
            "leave the column out" if lists.names is None else "name the column with each row's"
        )
        raise UnlabelError(f"There are {has}: {advice}.", argument="allow_by")


def allowed_labels(lists: BoundLists, by: str | None, part: Part) -> Allowed:
    """Find the labels that each row of a part may have."""
    if by is None:
        return lists.of_rows(None, len(part))
    column = part.cells(by)
    try:
        names = pc.cast(plain(column), pa.string())
    except pa.ArrowException as error:
        problem = f"The column {by!r} has the type {column.type}: give names of lists."
        raise UnlabelError(problem, argument="allow_by") from error
    encoded = names.dictionary_encode("encode")
    try:
        distinct = lists.of_rows(encoded.dictionary.to_pylist(), len(encoded.dictionary))
    except UnlabelError:  # say it again, of the row
        return lists.of_rows(names.to_pylist(), len(names))
    return Allowed(distinct.lists, distinct.of_row[encoded.indices.to_numpy()])
