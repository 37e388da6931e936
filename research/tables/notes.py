"""Notes on results that the cells do not contain, such as how their images were stored.

A file ``notes.json`` in the folder of a set or of one network has sentences to print above their
tables, each under the name of its table or under "every": ``{"every": "...", "time": "..."}``.
"""

from __future__ import annotations

import json
from pathlib import Path

from research.tables.kinds import KINDS
from unlabel import UnlabelError

EVERY = "every"
TABLES = [kind.name for kind in KINDS]

Notes = dict[str, list[str]]


def read_notes(results: Path, set: str, architecture: str) -> Notes:
    """Read the sentences for each table of a network, those of its set first."""
    notes: Notes = {table: [] for table in TABLES}
    for folder in (results / set, results / set / architecture):
        path = folder / "notes.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if unknown := {*found} - {EVERY, *TABLES}:
            names = ", ".join((EVERY, *TABLES))
            raise UnlabelError(f"{path} has {min(unknown)!r}: name any of {names}.")
        for table, sentence in found.items():
            for name in TABLES if table == EVERY else (table,):
                notes[name].append(sentence)
    return notes
