"""Read named lists of labels from csv, tsv and JSON files."""

from __future__ import annotations

import os

from unlabel._files.text_file import TABLES, parse_json, read_text, table_rows
from unlabel.errors import UnlabelError, located
from unlabel.labels import SHORT


def read(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Return the labels of each list, from a pair per line or an object of lists."""
    text, ending = read_text(path, (*TABLES, ".json"))
    with located(path):
        lists = _table(text) if ending in TABLES else parse_json(text)
        if not isinstance(lists, dict) or not lists:
            raise UnlabelError("It has no lists: write the labels of each list under its name.")
        return lists


def _table(text: str) -> dict[str, list[str]]:
    lists: dict[str, dict[str, None]] = {}
    for line, (name, label) in table_rows(text, [["list"], ["label"]]):
        if not name or not label:
            missing = "label" if name else "list"
            raise UnlabelError(f"It has no {missing}: write one, or drop the line.", row=line)
        labels = lists.setdefault(name, {})
        if label in labels:
            problem = f"It repeats {SHORT.repr(label)} in {SHORT.repr(name)}: give it once."
            raise UnlabelError(problem, row=line)
        labels[label] = None
    return {name: [*labels] for name, labels in lists.items()}
