"""The tables of the page on what we reproduced, from the committed results.

python docs/reproduced.py
"""

from __future__ import annotations

from pathlib import Path

from unlabel.bench.tables.aggregate import gather
from unlabel.bench.tables.layout import precision, sections
from unlabel.bench.tables.write import LEGEND, section_lines

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results" / "paper"
FOLDER = DOCS / "reproduced"


def fragments(results: Path) -> dict[str, str]:
    """A file a table of the paper, and one with how to read them."""
    gathered = gather(results)
    texts = {"legend.md": f"{LEGEND} {precision(gathered)}"}
    for section in sections(gathered):
        texts[f"{section.name}.md"] = "\n".join(section_lines(section, heading="##"))
    return {name: text + "\n" for name, text in texts.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in fragments(RESULTS).items():
        (FOLDER / name).write_text(text, encoding="utf-8")
