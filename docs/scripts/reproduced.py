"""Writes the tables of the page on the reproduction, from the committed results.

PYTHONPATH=. python docs/scripts/reproduced.py
"""

from __future__ import annotations

from pathlib import Path

from research.tables.aggregate import gather
from research.tables.layout import build_sections, legend
from research.tables.write import section_lines

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "research" / "stored" / "paper"
FOLDER = DOCS / "tables" / "reproduced"


def fragments(results: Path) -> dict[str, str]:
    """Return one file per table of the paper, and one that says how to read them."""
    gathered = gather(results)
    texts = {"legend.md": legend(gathered)}
    for section in build_sections(gathered):
        texts[f"{section.name}.md"] = "\n".join(section_lines(section, heading="##"))
    return {name: text + "\n" for name, text in texts.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in fragments(RESULTS).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
