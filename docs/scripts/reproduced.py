"""Writes the tables of the page on the reproduction, from the committed results.

PYTHONPATH=. python docs/scripts/reproduced.py
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from research.tables.aggregate import gather
from research.tables.write import fragments

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "research" / "stored" / "paper"
FOLDER = DOCS / "tables" / "reproduced"
gathered = cache(gather)


def files(results: Path) -> dict[str, str]:
    """Return one file per kind of table, and one that says how to read them."""
    found = fragments(gathered(results), heading="##")
    return {f"{name}.md": text + "\n" for name, text in found.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files(RESULTS).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
