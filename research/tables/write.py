"""Writes the paper's tables beside ours as Markdown, CSV and HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from research.files import cannot_write, whole_file
from research.tables import captions
from research.tables.aggregate import Gathered, gather
from research.tables.html import render
from research.tables.layout import KINDS, Entry, Section, Table, build_sections, legend
from research.tables.published import Key, paper_values

COLUMNS = ("table", *Key._fields, "ours_mean", "ours_low", "ours_high", "seeds", "paper")


def write_tables(results: Path, out: Path) -> str:
    """Write ``tables.md``, ``tables.csv`` and ``tables.html``, and return the Markdown.

    Parameters
    ----------
    results : path
        The folder that ``research run --out`` wrote. Missing cells are left blank.
    out : path
        The folder to write to.
    """
    gathered = gather(results)
    texts = {
        "tables.md": markdown(gathered),
        "tables.csv": tidy(gathered),
        "tables.html": render(gathered),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from error
    for name, text in texts.items():
        with whole_file(out / name) as part:
            part.write_text(text, encoding="utf-8")
    return texts["tables.md"]


def markdown(gathered: Gathered) -> str:
    """Write all tables as Markdown, each with its differences from the paper above it."""
    lines = ["# The paper's tables and ours", "", legend(gathered)]
    if failed := captions.failures(gathered.facts):
        lines += ["", "Failed methods:", "", *(f"- {note}" for note in failed)]
    for section in build_sections(gathered):
        lines += ["", *section_lines(section, heading="##")]
    return "\n".join(lines).rstrip() + "\n"


def section_lines(section: Section, *, heading: str) -> Iterator[str]:
    """Write one table of the paper as Markdown, network by network."""
    yield f"{heading} {section.title}"
    yield ""
    yield section.about
    for table in section.tables:
        yield ""
        yield f"{heading}# {table.title}"
        yield ""
        yield " ".join(table.notes)
        yield ""
        yield from table_lines(table)


def table_lines(table: Table) -> Iterator[str]:
    """Write a table as Markdown."""
    yield "| | | F1 | F2 | F3 | F4 |"
    yield "|---|---|---|---|---|---|"
    for group, rows in table.groups.items():
        for number, row in enumerate(rows):
            name = f"{row.name}: {row.component}" if row.component else row.name
            cells = " | ".join(map(_cell, row.entries))
            yield f"| {group if number == 0 else ''} | {name} | {cells} |"


def tidy(gathered: Gathered) -> str:
    """Write our values as CSV, one per line, with the paper's beside them."""
    table_of = {metric.name: kind.name for kind in KINDS for metric in kind.metrics}
    paper = paper_values()
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for key, spread in sorted(gathered.spreads.items()):
        table = table_of[key.metric]
        lines.writerow((table, *key, *map(_digits, spread[:3]), spread.seeds, paper.get(key, "")))
    return text.getvalue()


def _cell(entry: Entry) -> str:
    ours = f"**{entry.ours}**" if entry.best else entry.ours
    return " ".join(filter(None, (ours, entry.spread, f"({entry.paper})" if entry.paper else "")))


def _digits(value: float) -> str:
    return f"{value:.6g}"
