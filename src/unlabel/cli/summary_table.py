"""Print a summary as a table in the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from unlabel._printing import printable
from unlabel._typing import Label
from unlabel.evaluation.summary import Summary
from unlabel.labels import listing
from unlabel.report.changes import ChangedLabels, describe
from unlabel.report.comparison import METRICS, best_outputs, competing_values, value_at
from unlabel.report.formatting import percent
from unlabel.report.sentences import unknown_at_half

# The metrics that are shown, by their paths in a summary, with their headings.
COLUMNS = {
    ("accuracy", "retained"): "accu-\nracy",
    ("share_right", "retained"): "rows\nright",
    ("log_loss",): "log-\nloss",
    ("calibration_error",): "calib\nerror",
    ("to_retrained", "kl", "retained"): "KL,\nkept",
    ("to_retrained", "kl", "removed"): "KL,\ngone",
}
MOST_LABELS, MOST_PAIRS = 10, 5


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
    below = [*_how_to_read(summary), *map(printable, summary["notes"])]
    tables = [table] if shown else []
    return Group(Text(_lead(summary)), Text(_impact(summary)), *tables, *map(Text, below))


def _lead(summary: Summary) -> str:
    rows, changes = summary["rows"], describe(summary)
    if changes["only_removed"] or len(summary["labels"]["changes"]) <= MOST_LABELS:
        by_kind: dict[str, list[str]] = {}
        for each in changes["groups"]:
            by_kind.setdefault(each.kind, []).append(_in_words(each))
        said = " ".join(f"{kind.capitalize()}: {'; '.join(by_kind[kind])}." for kind in by_kind)
    else:
        said = f"{', '.join(changes['counts'])}."
    kinds = f"{rows['of_retained_labels']:,} rows of retained"
    if summary["labels"]["removed"]:
        kinds += f" and {rows['of_removed_labels']:,} of removed"
    left_out = rows["of_split_labels"]
    split = f"; {left_out:,} of split labels are left out" if left_out else ""
    fitted = f"fitted on {rows['fitted_on']:,} other rows" if rows["fitted_on"] else "filter given"
    judged = f"Judged on {kinds} labels ({fitted}){split}."
    if summary["truth"] is None:
        judged = f"{rows['judged']:,} rows without true labels."
    title = printable(summary["plan"]["title"])
    return "\n".join(filter(None, [title, f"{said} {judged}".lstrip()]))


def _impact(summary: Summary) -> str:
    """Count the answers that change, and name the most common changes."""
    impact = summary["impact"]
    counts = next(e["impact"] for e in summary["figures"] if e["output"] == summary["shown"])

    def of(kind: str, over: str = "rows_of_retained_labels") -> str:
        return f"{counts[kind]:,} ({percent(counts[kind] / counts[over])})"

    said = [f"{of('changed', 'rows')} of {counts['rows']:,} answers change"]
    if counts["unknown"] is not None:
        said.append(f", {of('unknown', 'rows')} to unknown")
    if counts["corrected"] is not None:
        said.append(
            f"; of {counts['rows_of_retained_labels']:,} rows of retained labels, "
            f"{of('corrected')} are corrected and {of('regressed')} regressed"
        )
    lines = [f"{''.join(said)}."]
    if impact["pairs"]:
        most = [
            f"{_label(pair['from'])} to {_label(pair['to'])} {pair['rows']:,}"
            for pair in impact["pairs"][:MOST_PAIRS]
        ]
        lines.append(f"Most often: {'; '.join(most)}.")
    if summary["truth"]:
        log_loss, error = (
            f"{_short(impact['before'][key])} to {_short(impact['after'][key])}"
            for key in ("log_loss", "calibration_error")
        )
        lines.append(
            f"Log-loss goes from {log_loss}, calibration error from {error} (before: confidences "
            "added up by destination)."
        )
    return "\n".join(lines)


def _label(label: Label | None) -> str:
    return "unknown" if label is None else listing([label])


def _in_words(changed: ChangedLabels) -> str:
    labels = listing(changed.labels, MOST_LABELS)
    if not changed.to:
        return labels
    preposition = "to" if changed.kind == "renamed" else "into"
    return f"{labels} {preposition} {listing([to for to, _ in changed.to], MOST_LABELS)}"


def _how_to_read(summary: Summary) -> Iterator[str]:
    if summary["truth"] is None:
        return
    kl = METRICS["to_retrained", "kl", "retained"]
    has_kl = bool(competing_values(kl, summary["figures"]))
    yield (
        f"All values{' but KL' if has_kl else ''} are of rows of retained labels. Accuracy (A_R) "
        "is a mean over labels, beside the share of rows that are right; lower is better in all "
        "others."
    )
    if has_kl:
        yield "KL is to the retrained model, on rows of retained (kept) and removed labels (gone)."
    if summary["floor"]:
        which = "differs in its seed alone" if summary["same_recipe"] else "is a second model"
        yield f"'retrained again' {which}: its KL is the floor."
    at = unknown_at_half(summary)
    if at and at["caught"] is not None:
        yield (
            f"Unknown above a removed mass of .5 would catch {percent(at['caught'])} of the rows "
            f"of removed labels and lose {percent(at['lost'])} of the others. It gives the former "
            "away."
        )


def _short(value: float | None) -> str:
    """Write a value in five characters."""
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 1 else f"{value:.4f}".removeprefix("0")
