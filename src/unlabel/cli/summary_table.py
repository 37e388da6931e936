"""A summary as a table in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unlabel._labels import listing
from unlabel._printing import printable
from unlabel.evaluation.summary import Summary
from unlabel.report.comparison import from_chance, high, low

# Heading, where the figure is in a summary, and how bad a value of it is.
COLUMNS: tuple[tuple[str, tuple[str, ...], Callable[[float], float]], ...] = (
    ("accu-\nracy", ("accuracy", "retained"), high),
    ("log-\nloss", ("log_loss",), low),
    ("calib\nerror", ("calibration_error",), low),
    ("cover-\nage", ("coverage", "retained"), low),
    ("KL,\nkept", ("to_retrained", "kl", "retained"), low),
    ("KL,\ngone", ("to_retrained", "kl", "removed"), low),
    ("attack\nAUC", ("attack_auc",), from_chance),
)
MOST_LABELS = 10


def show(summary: Summary) -> RenderableType:
    """Show the figures of a summary, the best of each kind in bold."""
    rows = summary["rows"]
    fitted = f"fitted on {rows['fitted_on']:,} other rows" if rows["fitted_on"] else "filter given"
    lead = (
        f"Removed: {listing(summary['labels']['removed'], MOST_LABELS)}. Judged on "
        f"{rows['of_retained_labels']:,} rows of retained and {rows['of_removed_labels']:,} of "
        f"removed labels ({fitted})."
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    columns = [column for column in COLUMNS if _rated(summary, column[1])]
    for heading, *_ in columns:
        table.add_column(heading, justify="right", vertical="bottom")
    for entry in summary["figures"]:
        cells = []
        for _, path, badness in columns:
            rated = _rated(summary, path)
            best = min(rated.values(), key=badness)
            is_best = rated.get(entry["output"]) == best
            cells.append(Text(_short(figure(entry, path)), style="bold" if is_best else ""))
        table.add_row(Text(entry["output"]), *cells)
    notes = map(printable, summary["notes"])
    return Group(Text(lead), table, *map(Text, [*_how_to_read(summary), *notes]))


def _how_to_read(summary: Summary) -> Iterator[str]:
    yield (
        "Accuracy (A_R), log-loss, calibration error and coverage are of rows of retained labels; "
        "lower is better in all but accuracy."
    )
    if _rated(summary, ("to_retrained", "kl", "retained")):
        yield "KL is to the retrained model, on rows of retained (kept) and removed labels (gone)."
    if summary["seed_floor"]:
        yield "'retrained again' differs in its seed alone: its KL is the floor."


def figure(entry: Summary, path: tuple[str, ...]) -> float | None:
    """A figure of one of a summary's outputs, None where there is none."""
    value: Any = entry
    for key in path:
        value = None if value is None else value.get(key)
    return None if value is None else float(value)


def _short(value: float | None) -> str:
    """Five characters for a figure."""
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 1 else f"{value:.4f}".removeprefix("0")


def _rated(summary: Summary, path: tuple[str, ...]) -> dict[str, float]:
    """A figure of the outputs that compete for the best.

    The base model still has the labels, and a retrained one is not far from itself.
    """
    rated = {}
    for entry in summary["figures"][1:]:
        value = figure(entry, path)
        is_itself = path[0] == "to_retrained" and entry["output"].startswith("retrained")
        if value is not None and not is_itself:
            rated[entry["output"]] = value
    return rated
