"""Print a filter: its retired and retained labels, and where the means go."""

from __future__ import annotations

from itertools import islice

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unlabel._files.filter_file import PROTOCOL
from unlabel._labels import listing
from unlabel.filter import OutputFilter

MOST_LABELS = 20
DESTINATIONS = 3
BAR_WIDTH = 24


def describe(fitted: OutputFilter) -> RenderableType:
    """Describe a filter for the terminal."""
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("retired", f"{len(fitted.removed)}: {listing(fitted.removed, MOST_LABELS)}"),
        ("retained", f"{len(fitted.classes)}: {listing(fitted.classes, MOST_LABELS)}"),
        ("method", fitted.method),
        ("input", fitted.input),
        ("temperature", f"{fitted.temperature:.4g}" if fitted.temperature != 1 else "1 (none)"),
        ("protocol", str(PROTOCOL)),
    ):
        facts.add_row(Text(name, style="bold"), Text(value))
    return Group(facts, Text(), _destinations(fitted))


def _destinations(fitted: OutputFilter) -> RenderableType:
    if fitted.method == "literal":
        return Text("The published algorithm to the letter, for audit only.")
    if fitted.method == "mask":
        return Text("The mass of retired labels goes to the others in proportion to theirs.")
    chart = Table(box=None, pad_edge=False)
    for heading in ("retired", "rows", "goes to", ""):
        chart.add_column(heading, justify="right" if heading == "rows" else "left")
    rows = zip(fitted.removed, fitted.counts, fitted.filtered_means(), strict=True)
    for label, count, mixture in islice(rows, MOST_LABELS):
        names = (repr(label), f"{count:,}")
        for column in np.argsort(-mixture, kind="stable")[:DESTINATIONS]:
            bar = "█" * round(BAR_WIDTH * mixture[column])
            cells = (*names, repr(fitted.classes[column]), f"{bar} {mixture[column]:.1%}")
            chart.add_row(*(Text(cell) for cell in cells))
            names = ("", "")
    return Group(
        Text("Where the mean vector of each retired label goes", style="bold"),
        chart,
        Text("The mean of its filtered rows can differ: see unlabel evaluate and report."),
    )
