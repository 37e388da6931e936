"""Notes on results that the cells do not contain, such as how their images were stored.

A file ``notes.json`` in the folder of a set or of one network has sentences to print above their
tables, each under the name of its table or under "every": ``{"every": "...", "time": "..."}``.
"""

from __future__ import annotations

import json
from pathlib import Path

from unlabel import UnlabelError

EVERY = "every"
TABLES = [
    "accuracy",
    "intervals",
    "coverage",
    "kl_retrained",
    "kl_base",
    "beside",
    "orders",
    "time",
]

Notes = dict[str, list[str]]


def read_notes(results: Path, set: str, architecture: str) -> Notes:
    """Read the sentences for each table of a network, those of its set first."""
    notes: Notes = {table: [] for table in TABLES}
    for folder in (results / set, results / set / architecture):
        for table, sentence in _read(folder / "notes.json").items():
            for name in TABLES if table == EVERY else (table,):
                notes[name].append(sentence)
    return notes


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise _not_notes(path) from error
    if not isinstance(found, dict) or not found.keys() <= {EVERY, *TABLES}:
        raise _not_notes(path)
    if not all(isinstance(sentence, str) for sentence in found.values()):
        raise _not_notes(path)
    return found


def _not_notes(path: Path) -> UnlabelError:
    return UnlabelError(
        f"{path} does not hold notes: write JSON with one text per key, the keys being any of "
        f"{', '.join((EVERY, *TABLES))}."
    )
