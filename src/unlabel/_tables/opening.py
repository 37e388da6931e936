"""Open tables of predictions, whatever their layout."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from unlabel._tables.columns import ColumnPredictions
from unlabel._tables.formats import open_table
from unlabel._tables.layout import table_columns
from unlabel._tables.predictions import Predictions, Reading
from unlabel._tables.streams import JSON_ENDINGS
from unlabel._typing import Label
from unlabel.errors import needs_extra


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
    if is_json_lines(Path(path), reading):
        with needs_extra("cli"):
            from unlabel._tables.json_opening import open_json
        return open_json(Path(path), classes, reading, label_column)
    table = open_table(path)
    columns = table_columns(
        table, classes, list_column=reading.list_column, label_column=label_column
    )
    return ColumnPredictions(table, columns, reading.logs)


def names_in(path: str | os.PathLike[str], reading: Reading) -> set[str]:
    """Name the columns of a table, and the labels that it names itself."""
    if is_json_lines(Path(path), reading):
        with needs_extra("cli"):
            from unlabel._tables.json_opening import json_names
        return json_names(Path(path), reading)
    table = open_table(path)
    return {*table.schema.names, *map(str, table.classes or ())}


def is_json_lines(path: Path, reading: Reading) -> bool:
    """Tell whether a file is JSON lines, by the format that was given or else by its ending."""
    if reading.format is not None:
        return reading.format == "jsonl"
    return path.name.endswith(JSON_ENDINGS)
