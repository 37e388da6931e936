"""Open predictions in JSON lines: find the scores, and the labels that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from unlabel._tables.columns.layout import WideColumns, guess_wide
from unlabel._tables.files.formats import Table, errors_naming
from unlabel._tables.files.streams import STANDARD, shown
from unlabel._tables.json_lines.fields import Fields
from unlabel._tables.json_lines.forms import CHOOSE, Search, kind_of
from unlabel._tables.json_lines.lines import OBJECTS, VALUES, JsonLines, plain_value
from unlabel._tables.json_lines.objects import LabelFields, ScoreList
from unlabel._tables.json_lines.predictions import JsonPredictions
from unlabel._tables.predictions import Reading
from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.labels import as_classes, listing


def open_json(
    path: Path, classes: Sequence[Label] | None, reading: Reading, label_column: str | None = None
) -> JsonPredictions:
    """Open a file of JSON lines; without `classes`, find out the labels of its scores."""
    lines = JsonLines(path)
    known = None if classes is None else as_classes(classes)
    if lines.is_empty:
        if known is None:
            raise UnlabelError("It has no lines: give a file with at least one.", path=shown(path))
        return JsonPredictions(lines, reading, LabelFields(tuple(map(str, known))), known, {})
    search = Search(reading, None if known is None else tuple(map(str, known)))
    starts_object = next(lines.head.lines())[1].startswith(b"{")
    with errors_naming(shown(path)):
        head, numbers = lines.head.values(OBJECTS if starts_object else VALUES)
    guess, doubtful = "", ""
    with errors_naming(shown(path), place=lambda row: f"line {numbers[row]}"):
        first = plain_value(next(lines.head.lines())[1])
        form = search.form(first)
        if form is None:
            wide = _guessed(Fields(head), path, label_column)
            known, guess, doubtful = wide.classes, wide.guess, wide.doubtful
            form = LabelFields(tuple(wide.names))
        labels = form.labels_in(first)
        opened = JsonPredictions(lines, reading, form, known or (), first, guess, doubtful)
        if known is None:
            opened.classes = _classes(labels, strips=opened.strips)
            if not isinstance(form, ScoreList):
                opened.guess = (
                    f"The labels were taken to be {listing(opened.classes)}: if not, name them."
                )
    if isinstance(form, ScoreList):
        opened.form = replace(form, count=len(opened.classes))
    opened.names_numbers = not any(isinstance(label, str) for label in labels)
    return opened


def _classes(labels: Sequence[Label], *, strips: bool) -> tuple[Label, ...]:
    """Take the labels that a line names for the model's."""
    for label in labels:
        if not isinstance(label, str | int | float):
            raise UnlabelError(f"It names a label with {kind_of(label)}: give a text.", row=0)
    names = [label.strip() if strips and isinstance(label, str) else label for label in labels]
    return as_classes([*dict.fromkeys(names)])


def _guessed(head: Fields, path: Path, label_column: str | None) -> WideColumns:
    """Take the fields of decimal numbers for the labels'."""
    columns = {}
    for name in dict.fromkeys(chain.from_iterable(head.lines)):
        with suppress(UnlabelError):  # of a nested value
            cells = head.cells((name,))
            if pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type):
                columns[name] = cells
    decimals = [name for name in columns if pa.types.is_floating(columns[name].type)]
    if len([name for name in decimals if name != label_column]) < 2:
        raise UnlabelError(
            f"It has no scores in the fields {listing([*head.lines[0]])}: {CHOOSE}.",
            row=0,
            argument="key",
        )
    batch = pa.record_batch(columns)
    table = Table(path, "jsonl", batch.schema, lambda: iter([(batch, 1.0)]))
    return guess_wide(table, label_column)


def json_names(path: Path, reading: Reading) -> set[str]:
    """Name the fields of a file's first line, and the labels that it names."""
    if path == STANDARD:  # it can be read but once
        return set()
    lines = JsonLines(path)
    if lines.is_empty:
        return set()
    with errors_naming(path):
        value = plain_value(next(lines.head.lines())[1])
    names = {*value} if isinstance(value, dict) else set[str]()
    with suppress(UnlabelError):
        form = Search(reading, None).form(value)
        if form is not None and not isinstance(form, ScoreList):
            names |= {*map(str, form.labels_in(value))}
    return names
