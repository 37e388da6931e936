"""Print a summary as a table in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unlabel._labels import listing
from unlabel._printing import printable
from unlabel.evaluation.summary import Summary
from unlabel.report.changes import ChangedLabels, describe
from unlabel.report.comparison import METRICS, best_outputs, competing_values, value_at
from unlabel.report.formatting import percent
from unlabel.report.sentences import unknown_at_half

# The metrics that are shown, by their paths in a summary, with their headings.
COLUMNS = {
    ("accuracy", "retained"): "accu-\nracy",
    ("log_loss",): "log-\nloss",
    ("calibration_error",): "calib\nerror",
    ("coverage", "retained"): "cover-\nage",
    ("to_retrained", "kl", "retained"): "KL,\nkept",
    ("to_retrained", "kl", "removed"): "KL,\ngone",
    ("attack_auc",): "attack\nAUC",
}
MOST_LABELS = 10


def show(summary: Summary) -> RenderableType:
    """Show the metrics of every output, the best value of each in bold."""
    figures = summary["figures"]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    shown = [path for path in COLUMNS if competing_values(METRICS[path], figures)]
    best = {path: best_outputs(METRICS[path], figures) for path in shown}
    for path in shown:
        table.add_column(COLUMNS[path], justify="right", vertical="bottom")
    for entry in figures:
        output = entry["output"]
        cells = [
            Text(_short(value_at(entry, path)), style="bold" if output in best[path] else "")
            for path in shown
        ]
        table.add_row(Text(output), *cells)
    notes = map(printable, summary["notes"])
    return Group(Text(_lead(summary)), table, *map(Text, [*_how_to_read(summary), *notes]))


def _lead(summary: Summary) -> str:
    rows, changes = summary["rows"], describe(summary)
    if changes["only_retired"] or len(summary["labels"]["changes"]) <= MOST_LABELS:
        by_kind: dict[str, list[str]] = {}
        for each in changes["groups"]:
            by_kind.setdefault(each.kind, []).append(_in_words(each))
        said = " ".join(f"{kind.capitalize()}: {'; '.join(by_kind[kind])}." for kind in by_kind)
    else:
        said = f"{', '.join(changes['counts'])}."
    kinds = f"{rows['of_retained_labels']:,} rows of retained"
    if summary["labels"]["removed"]:
        kinds += f" and {rows['of_removed_labels']:,} of retired"
    left_out = rows["of_split_labels"]
    split = f"; {left_out:,} of split labels are left out" if left_out else ""
    fitted = f"fitted on {rows['fitted_on']:,} other rows" if rows["fitted_on"] else "filter given"
    judged = f"Judged on {kinds} labels ({fitted}){split}."
    title = printable(summary["plan"]["title"])
    return "\n".join(filter(None, [title, f"{said} {judged}".lstrip()]))


def _in_words(changed: ChangedLabels) -> str:
    labels = listing(changed.labels, MOST_LABELS)
    if not changed.to:
        return labels
    preposition = "to" if changed.kind == "renamed" else "into"
    return f"{labels} {preposition} {listing([to for to, _ in changed.to], MOST_LABELS)}"


def _how_to_read(summary: Summary) -> Iterator[str]:
    yield (
        "Accuracy (A_R), log-loss, calibration error and coverage are of rows of retained labels; "
        "lower is better in all but accuracy."
    )
    if competing_values(METRICS["to_retrained", "kl", "retained"], summary["figures"]):
        yield "KL is to the retrained model, on rows of retained (kept) and retired labels (gone)."
    if summary["floor"]:
        yield "'retrained again' differs in its seed alone: its KL is the floor."
    at = unknown_at_half(summary)
    if at and at["caught"] is not None:
        yield (
            f"Unknown above a removed mass of .5 would catch {percent(at['caught'])} of the rows "
            f"of retired labels and lose {percent(at['lost'])} of the others. It gives the former "
            "away; see the attack AUC."
        )


def _short(value: float | None) -> str:
    """Write a value in five characters."""
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 1 else f"{value:.4f}".removeprefix("0")
