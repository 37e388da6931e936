"""Writes the paper's tables beside ours as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from research.files import whole_file
from research.tables import captions
from research.tables.aggregate import Gathered, gather
from research.tables.kinds import KINDS
from research.tables.layout import Section, Table, build_sections, legend
from research.tables.published import Key, paper_values
from research.tables.settings import settings_section

COLUMNS = (
    "table", *Key._fields, "ours_mean", "ours_low", "ours_high", "seeds", "paper",
    "interval_low", "interval_high",
)  # fmt: skip


def write_tables(results: Path, out: Path) -> str:
    """Write ``tables.md`` and ``tables.csv``, and return the Markdown.

    Parameters
    ----------
    results : path
        The folder that ``research run --out`` wrote. Missing cells are left blank.
    out : path
        The folder to write to.
    """
    gathered = gather(results)
    texts = {"tables.md": markdown(gathered), "tables.csv": tidy(gathered)}
    for name, text in texts.items():
        with whole_file(out / name) as part:
            part.write_text(text, encoding="utf-8")
    return texts["tables.md"]


def markdown(gathered: Gathered) -> str:
    """Write all tables as Markdown, each with its differences from the paper above it."""
    lines = ["# The paper's tables and ours"]
    for name, text in fragments(gathered, heading="##").items():
        lines += ["", text]
        if name == "legend" and (failed := captions.failures(gathered.facts)):
            lines += ["", "Failed methods:", "", *(f"- {note}" for note in failed)]
    return "\n".join(lines) + "\n"


def fragments(gathered: Gathered, *, heading: str) -> dict[str, str]:
    """Write how to read the tables and each section as Markdown, by name."""
    sections = [*build_sections(gathered), settings_section(gathered)]
    return {"legend": legend()} | {
        section.name: "\n".join(_section_lines(section, heading)) for section in sections
    }


def _section_lines(section: Section, heading: str) -> Iterator[str]:
    yield f"{heading} {section.title}"
    yield ""
    yield section.about
    for table in section.tables:
        yield ""
        yield f"{heading}# {table.title}"
        yield ""
        if table.notes:
            yield " ".join(table.notes)
            yield ""
        yield from _table_lines(table)


def _table_lines(table: Table) -> Iterator[str]:
    yield f"| | | {' | '.join(table.columns)} |"
    yield "|---" * (len(table.columns) + 2) + "|"
    for group, rows in table.groups.items():
        for number, row in enumerate(rows):
            yield f"| {group if number == 0 else ''} | {' | '.join(row)} |"


def tidy(gathered: Gathered) -> str:
    """Write our values as CSV, one per line, with the paper's beside them."""
    table_of = {metric.name: kind.name for kind in KINDS for metric in kind.metrics}
    paper = paper_values()
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for key, spread in sorted(gathered.spreads.items()):
        ours = (*map(_digits, spread[:3]), spread.seeds)
        interval = map(_digits, spread.interval or ())
        lines.writerow((table_of[key.metric], *key, *ours, paper.get(key, ""), *interval))
    return text.getvalue()


def _digits(value: float) -> str:
    return f"{value:.6g}"
