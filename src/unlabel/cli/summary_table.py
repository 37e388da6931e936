"""Print a summary as a table in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unlabel._printing import printable
from unlabel.evaluation.summary import Summary
from unlabel.report.comparison import from_chance, high, low
from unlabel.validation import listing

# A column's heading, the place of its value in a summary, and how bad a value is.
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
    """Show the values of a summary, the best of each column in bold."""
    rows = summary["rows"]
    fitted = f"fitted on {rows['fitted_on']:,} other rows" if rows["fitted_on"] else "filter given"
    lead = (
        f"Retired: {listing(summary['labels']['removed'], MOST_LABELS)}. Judged on "
        f"{rows['of_retained_labels']:,} rows of retained and {rows['of_removed_labels']:,} of "
        f"retired labels ({fitted})."
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    lines = [[Text(entry["output"])] for entry in summary["figures"]]
    for heading, path, badness in COLUMNS:
        if competing := _competing(summary, path):
            table.add_column(heading, justify="right", vertical="bottom")
            best = min(competing.values(), key=badness)
            for entry, line in zip(summary["figures"], lines, strict=True):
                is_best = competing.get(entry["output"]) == best
                line.append(Text(_short(figure(entry, path)), style="bold" if is_best else ""))
    for line in lines:
        table.add_row(*line)
    notes = map(printable, summary["notes"])
    return Group(Text(lead), table, *map(Text, [*_how_to_read(summary), *notes]))


def _how_to_read(summary: Summary) -> Iterator[str]:
    yield (
        "Accuracy (A_R), log-loss, calibration error and coverage are of rows of retained labels; "
        "lower is better in all but accuracy."
    )
    if _competing(summary, ("to_retrained", "kl", "retained")):
        yield "KL is to the retrained model, on rows of retained (kept) and retired labels (gone)."
    if summary["seed_floor"]:
        yield "'retrained again' differs in its seed alone: its KL is the floor."


def figure(entry: Summary, path: tuple[str, ...]) -> float | None:
    """Look up a value of one of a summary's outputs, None if it has none."""
    value: Any = entry
    for key in path:
        value = None if value is None else value.get(key)
    return None if value is None else float(value)


def _short(value: float | None) -> str:
    """Format a value in five characters."""
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 1 else f"{value:.4f}".removeprefix("0")


def _competing(summary: Summary, path: tuple[str, ...]) -> dict[str, float]:
    """Give the values of the outputs that compete for the best.

    The base model does not, as it still has the labels, nor do retrained models in their
    distance from one of them.
    """
    is_distance = path[0] == "to_retrained"
    return {
        entry["output"]: value
        for entry in summary["figures"][1:]
        if (value := figure(entry, path)) is not None
        and not (is_distance and entry["output"].startswith("retrained"))
    }
