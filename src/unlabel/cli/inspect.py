"""Print a filter: the destinations of its labels, and where the means of removed ones go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unlabel._plans.outcome import REMOVED, changes_by_column, digest_of
from unlabel._plans.parts import parts_of
from unlabel._printing import printable
from unlabel.cli.changes import count_changes
from unlabel.filter import OutputFilter, outcome_of_filter
from unlabel.labels import listing

MOST_LABELS = 20
MOST_DESTINATIONS = 3
BAR_WIDTH = 24


def describe(fitted: OutputFilter, protocol: int, *, all_labels: bool = False) -> RenderableType:
    """Describe a filter for the terminal."""
    most = len(fitted.classes_in + fitted.classes_out) if all_labels else MOST_LABELS
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("title", fitted.plan.title),
        ("note", fitted.plan.note),
        ("changes", count_changes(fitted)),
        ("removed", f"{len(fitted.removed)}: {listing(fitted.removed, most)}"),
        ("result", f"{len(fitted.classes_out)}: {listing(fitted.classes_out, most)}"),
        ("method", fitted.method),
        ("kind", fitted.kind),
        ("temperature", f"{fitted.temperature:.4g}" if fitted.temperature != 1 else "1 (none)"),
        ("plan", digest_of(fitted.plan)),
        ("protocol", str(protocol)),
    ):
        if value:
            # A note may have lines. Indented, they cannot pass for other facts.
            lines = value.splitlines() if name == "note" else [value]
            facts.add_row(Text(name, style="bold"), Text("\n".join(map(printable, lines))))
    shown: list[RenderableType] = [facts]
    if destinations := [*_destinations(fitted, all_labels)]:
        shown += [Text(), _destination_table(destinations, most)]
    if fitted.removed:
        shown += [Text(), _redistribution(fitted, most)]
    return Group(*shown)


def as_dict(fitted: OutputFilter, protocol: int) -> dict[str, Any]:
    """Describe a filter as plain data, with every label."""
    plan = fitted.plan
    return {
        "protocol": protocol,
        "method": fitted.method,
        "kind": fitted.kind,
        "temperature": fitted.temperature,
        "classes_in": fitted.classes_in,
        "classes_out": fitted.classes_out,
        "removed": [
            {"label": label, "reference_rows": rows}
            for label, rows in zip(fitted.removed, fitted.counts, strict=True)
        ],
        "plan": {
            "title": plan.title,
            "note": plan.note,
            "unlisted": plan.unlisted,
            "digest": digest_of(plan),
            "changes": [
                {"from": label, "to": [{"label": to, "weight": weight} for to, weight in parts]}
                for label, parts in parts_of(plan)
            ],
        },
    }


def _destinations(fitted: OutputFilter, all_labels: bool) -> Iterator[tuple[str, str]]:
    """Name the destination of each label that goes to others, or of every label."""
    columns = outcome_of_filter(fitted).columns
    changes = changes_by_column(fitted.plan, fitted.classes_in)
    for column, label in enumerate(fitted.classes_in):
        if parts := changes.get(column):
            shares = [f" {weight:.4g}" if len(parts) > 1 else "" for _, weight in parts]
            pairs = zip(parts, shares, strict=True)
            yield repr(label), ", ".join(f"{to!r}{share}" for (to, _), share in pairs)
        elif all_labels:
            yield repr(label), "(removed)" if columns[column] == REMOVED else "(stays)"


def _destination_table(destinations: Sequence[tuple[str, str]], most: int) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for heading in ("label", "goes to"):
        table.add_column(heading)
    for row in destinations[:most]:
        table.add_row(*map(Text, row))
    if len(destinations) > most:
        table.add_row(Text(f"and {len(destinations) - most} more"))
    return table


def _redistribution(fitted: OutputFilter, most: int) -> RenderableType:
    if fitted.method == "mask":
        return Text("The mass of removed labels goes to the others in proportion to theirs.")
    # A mean passes the steps before its own unchanged: it holds none of their labels.
    means = replace(fitted, kind="probabilities", temperature=1.0).apply(fitted.means)
    chart = Table(box=None, pad_edge=False)
    for heading in ("removed", "rows", "goes to", ""):
        chart.add_column(heading, justify="right" if heading == "rows" else "left")
    rows = zip(fitted.removed, fitted.counts, means, strict=True)
    for label, count, mixture in islice(rows, most):
        names = (repr(label), f"{count:,}")
        for column in np.argsort(-mixture, kind="stable")[:MOST_DESTINATIONS]:
            bar = "█" * round(BAR_WIDTH * mixture[column])
            cells = (*names, repr(fitted.classes_out[column]), f"{bar} {mixture[column]:.1%}")
            chart.add_row(*(Text(cell) for cell in cells))
            names = ("", "")
    return Group(
        Text("Where the mean vector of each removed label goes", style="bold"),
        chart,
        Text("The mean of its filtered rows can differ: see unlabel evaluate and report."),
    )
