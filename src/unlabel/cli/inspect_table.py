"""Print the overview of a table."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from unlabel._printing import printable
from unlabel._tables.overview import Overview
from unlabel.labels import listing

MOST_LABELS = 20


def show(found: Overview, *, all_labels: bool = False) -> RenderableType:
    """Describe a table for the terminal."""
    most = len(found.classes) if all_labels else MOST_LABELS
    sums = ""
    if found.smallest_sum is not None and found.largest_sum is not None:
        smallest, largest = f"{found.smallest_sum:.6g}", f"{found.largest_sum:.6g}"
        sums = f"; rows sum to {smallest}" + (f" to {largest}" if largest != smallest else "")
    tops = [f"{label!r} {rows:,}" for label, rows in found.top_labels[:most]]
    more = len(found.top_labels) - most
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("rows", f"{found.rows:,}"),
        ("layout", found.layout),
        ("labels", f"{len(found.classes)}: {listing(found.classes, most)}"),
        ("values", f"{found.kind}{sums}"),
        ("top labels", ", ".join(tops) + (f" and {more} more" if more > 0 else "")),
        ("beside", listing(found.beside, MOST_LABELS)),
        ("note", found.guess),
    ):
        if value:
            facts.add_row(Text(name, style="bold"), Text(printable(value)))
    return facts
