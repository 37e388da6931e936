"""Open tables of predictions, whatever their layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unlabel._tables.columns.find_nested import find_nested
from unlabel._tables.columns.layout import table_columns
from unlabel._tables.columns.nested import EntryColumn
from unlabel._tables.columns.predictions import ColumnPredictions
from unlabel._tables.files.formats import format_of, open_table
from unlabel._tables.files.streams import shown
from unlabel._tables.json_lines.opening import json_names, open_json
from unlabel._tables.long.predictions import open_long
from unlabel._tables.predictions import Predictions, Reading
from unlabel._typing import Label
from unlabel.errors import UnlabelError


def open_predictions(
    path: str | os.PathLike[str],
    classes: Sequence[Label] | None,
    reading: Reading,
    *,
    label_column: str | None = None,
) -> Predictions:
    """Open a table; without `classes`, find out the labels of its confidences.

    The column of true labels, if there is one, is not taken for confidences.
    """
    path = Path(path)
    is_json = format_of(path, reading.format) == "jsonl"
    _refuse_misfits(path, reading, is_json)
    if is_json:
        return open_json(path, classes, reading, label_column)
    table = open_table(path, reading)
    if reading.long is not None:
        return open_long(table, classes, reading.long, reading)
    nested = find_nested(table, classes, list_column=reading.list_column, partial=reading.partial)
    if nested is not None:
        is_log = isinstance(nested, EntryColumn) and nested.logs
        return ColumnPredictions(table, nested, reading.logs or is_log)
    columns = table_columns(
        table, classes, list_column=reading.list_column, label_column=label_column
    )
    return ColumnPredictions(table, columns, reading.logs)


def names_in(path: str | os.PathLike[str], reading: Reading) -> set[str]:
    """Name the columns of a table, and the labels that it names itself."""
    path = Path(path)
    if format_of(path, reading.format) == "jsonl":
        return json_names(path, reading)
    table = open_table(path, reading)
    if reading.long is not None:
        return {*map(str, open_long(table, None, reading.long, reading).classes)}
    return {*table.schema.names, *map(str, table.classes or ())}


def _refuse_misfits(path: Path, reading: Reading, is_json: bool) -> None:
    """Refuse options that are for JSON lines, or for other tables."""
    for_json = {"key": reading.key, "other_labels": reading.other_labels != "error"}
    for_others = {
        "long": reading.long,
        "list_column": reading.list_column,
        "separator": reading.separator,
    }
    for argument, value in (for_others if is_json else for_json).items():
        if value:
            which, other = ("JSON lines", "columns") if is_json else ("columns", "JSON lines")
            problem = f"It has {which}, and an option is for {other}: leave it out."
            raise UnlabelError(problem, argument=argument, path=shown(path))
