"""Relative links of the pages on GitHub and of the docs lead to files and headings that exist."""

import re

import pytest

from page_blocks import BLOCK, DOCS, ROOT

ON_GITHUB = [
    ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
]
IN_DOCS = [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]
MADE_BY_THE_BUILD = [DOCS / "guides" / "explore-cifar10.html"]  # docs/conf.py puts it there
LINK = re.compile(r'\]\(([^)\s]+)|\b(?:href|src)="([^"]+)')


def text_of(page):
    """Read a page without its code, in which brackets are not links."""
    return re.sub(r"`[^`\n]+`", "code", BLOCK.sub("", page.read_text(encoding="utf-8")))


def anchors(page, on_github):
    """Return the anchors of a page's headings, as GitHub or as docutils (MyST) makes them."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = [heading.lower() for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    if on_github:
        return [re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings]
    return [re.sub(r"[^a-z0-9]+", "-", heading).strip("-") for heading in headings]


def broken_links(page, on_github):
    """List the relative links of a page that lead nowhere."""
    broken = []
    for link in map("".join, LINK.findall(text_of(page))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"[a-z]+:", link) or target in MADE_BY_THE_BUILD:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target, on_github)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", ON_GITHUB + IN_DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_exists(page):
    assert broken_links(page, on_github=page in ON_GITHUB) == []


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Top-k: `a` & b\n\n[1](page.md) [2](#top-k-a--b) [3](#top-k-a-b) [4](https://a.b/c)\n"
        '[5](gone.md) [6](page.md#gone) `a[7](gone)` <img src="gone.svg">\n\n'
        "```python\na[8](gone)\n```\n"
    )
    gone = ["gone.md", "page.md#gone", "gone.svg"]
    assert broken_links(page, on_github=True) == ["#top-k-a-b", *gone]
    assert broken_links(page, on_github=False) == ["#top-k-a--b", *gone]
