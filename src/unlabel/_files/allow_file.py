"""Read named lists of labels from csv, tsv and JSON files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from typing import Any

from unlabel._files.atomic import require_file
from unlabel._files.plan_file import naming, read_json, read_text
from unlabel._files.pair_table import DELIMITERS
from unlabel.labels import SHORT, listing
from unlabel.errors import UnlabelError

MAX_BYTES = 64 << 20
ENDINGS = (*DELIMITERS, ".json")
LIST, LABEL = "list", "label"


def read(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the labels of each list: one pair per line, or an object of lists."""
    path = require_file(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise UnlabelError(f"{path} is not named as lists: give a file that ends in {known}.")
    text = read_text(path, MAX_BYTES)
    with naming(path):
        lists = _json(text) if ending == ".json" else _table(text, DELIMITERS[ending])
        if not lists:
            raise UnlabelError("It has no lists: write the name of a list and a label per line.")
        return lists


def _table(text: str, delimiter: str) -> dict[str, list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = next(reader, None) or []
        for name in (LIST, LABEL):
            if header.count(name) != 1:
                raise UnlabelError(
                    f"Line 1 has {header.count(name) or 'no'} column{'s' * (name in header)} "
                    f"{name!r} among {listing(header)}: write {LIST} and {LABEL} above two columns."
                )
        at, label_at = header.index(LIST), header.index(LABEL)
        lists: dict[str, list[str]] = {}
        is_plain = True
        for row in reader:
            if len(row) == len(header):
                lists.setdefault(row[at], []).append(row[label_at])
            else:
                is_plain = False
    except csv.Error as error:
        raise UnlabelError(f"Line {reader.line_num} cannot be read: {error}.") from error
    distinct = [{*labels} for labels in lists.values()]
    has_duplicates = [*map(len, distinct)] != [*map(len, lists.values())]
    if not is_plain or has_duplicates or "" in lists or any("" in each for each in distinct):
        _check_lines(text, delimiter, len(header), at, label_at)
    return lists


def _check_lines(text: str, delimiter: str, cells: int, at: int, label_at: int) -> None:
    """Find the first line that is wrong, if any is: empty lines are not."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    seen: set[tuple[str, str]] = set()
    next(reader)
    for row in filter(None, reader):
        line = f"Line {reader.line_num}"
        if len(row) != cells:
            raise UnlabelError(
                f"{line} does not have as many cells as the header ({len(row)}, not {cells}): "
                "correct it, with quotes around labels that hold separators."
            )
        pair = name, label = row[at], row[label_at]
        if not name or not label:
            missing = "label" if name else "list"
            raise UnlabelError(f"{line} has no {missing}: write one, or drop the line.")
        if pair in seen:
            raise UnlabelError(
                f"{line} repeats {SHORT.repr(label)} in the list {SHORT.repr(name)}: give it once."
            )
        seen.add(pair)


def _json(text: str) -> dict[str, list[str]]:
    content = read_json(text, "write an object of lists")
    if not isinstance(content, dict):
        raise UnlabelError("It is not an object: write the labels of each list under its name.")
    return {name: [*_labels(name, labels)] for name, labels in content.items()}


def _labels(name: str, labels: Any) -> Iterator[str]:
    if not isinstance(labels, list):
        raise UnlabelError(f"The list {SHORT.repr(name)} is not a list: write one of labels.")
    seen: set[str] = set()
    for label in labels:
        if not isinstance(label, str) or not label:
            raise UnlabelError(
                f"The list {SHORT.repr(name)} holds {SHORT.repr(label)}: write labels as texts."
            )
        if label in seen:
            raise UnlabelError(
                f"The list {SHORT.repr(name)} repeats {SHORT.repr(label)}: give it once."
            )
        seen.add(label)
        yield label
