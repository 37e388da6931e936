"""The blocks of code of the README and of the pages of the docs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def pages():
    """Find all pages; tables are parts of pages."""
    found = [page.relative_to(ROOT) for page in sorted(DOCS.rglob("*.md"))]
    return [
        "README.md",
        *(page.as_posix() for page in found if page.parts[1] not in ("tables", "_build")),
    ]


def blocks(page):
    """Give the kind, the first line's number and the text of each block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [*BLOCK.finditer(text)]
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(found), "an indented block"
    return [(match[1], text.count("\n", 0, match.start(2)), match[2]) for match in found]
