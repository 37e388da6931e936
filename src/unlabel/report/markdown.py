"""A summary's impact as GitHub Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from unlabel._printing import printable
from unlabel.evaluation.summary import Summary
from unlabel.report.comparison import TOPICS, Metric, value_at
from unlabel.report.formatting import count, percent, score, shortened
from unlabel.report.sentences import unknown_at

# Together they keep the text below the 65,536 characters that a comment may have.
MOST_PAIRS, MOST_LABELS, MOST_REMOVED, MOST_ANSWERS = 20, 20, 10, 3
MOST_FAILURES, MOST_NOTES, DIGITS = 5, 3, 16
MOST_LETTERS, MOST_LETTERS_OF_SENTENCES = 60, 240
UNKNOWN = "*unknown*"
# Punctuation but for some that means nothing inside a cell; a full stop may start an address, and a
# low line means something unless it is between letters.
OBEYED = r"[^\w .,%'()/;?=-]|(?<=[wW])\.|(?<![^\W_])_|_(?![^\W_])"
COUNTS = {
    "changed": ("Answers that change", "rows"),
    "unknown": ("Become unknown", "rows"),
    "right_before": ("Right before", "rows_of_retained_labels"),
    "right_after": ("Right after", "rows_of_retained_labels"),
    "corrected": ("Corrected", "rows_of_retained_labels"),
    "regressed": ("Regressed", "rows_of_retained_labels"),
    "neither": ("Neither", "rows_of_retained_labels"),
}
OVER = {"rows": "rows", "rows_of_retained_labels": "rows of retained labels"}


def as_markdown(summary: Summary, failures: Sequence[str] = ()) -> str:
    """Write the impact of a change, and the comparison of the outputs, as Markdown.

    Parameters
    ----------
    summary : dict
        A summary by `summarise` or `read_summary` (in `unlabel.evaluation`).
    failures : sequence of str
        Sentences about the conditions that the summary must not meet, and does.
    """
    shown = next(entry for entry in summary["figures"] if entry["output"] == summary["shown"])
    parts = [
        "## Impact of changing labels",
        _lead(summary),
        *([_failures(failures)] if failures else []),
        _counts(summary, shown),
        *_pairs(summary),
        *_by_label(summary),
        *_removed(summary),
        *(_before_and_after(summary) if summary["truth"] else []),
        *(_comparison(summary) if summary["truth"] else []),
        *_notes(summary),
        *_made_from(summary),
    ]
    return "\n\n".join(parts) + "\n"


def quoted(text: object, most: int = MOST_LETTERS) -> str:
    r"""Write a text from others as code that nothing in it can end, and no mention can leave.

    What Markdown may obey stands as entities, which it does not. GitHub looks for mentions outside
    code alone.

    Examples
    --------
    >>> print(quoted("a|b @user <b>`x`\n"))
    <code>a&#124;b &#64;user &#60;b&#62;&#96;x&#96;&#92;n</code>
    >>> print(quoted("card_arrival"))
    <code>card_arrival</code>
    """
    short = shortened(printable(str(text)), most)
    inert = re.sub(OBEYED, _entity, short) if short.strip() else "(empty)"
    return f"<code>{inert}</code>"


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]], *, texts: int = 1) -> str:
    """Lay out a table whose first columns are texts and all others numbers."""
    heads = [*headings]
    rule = ["---" if column < texts else "---:" for column in range(len(heads))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, rule, *rows))


def _lead(summary: Summary) -> str:
    title = f"{quoted(summary['plan']['title'])}: " if summary["plan"]["title"] else ""
    labels = summary["labels"]
    before, after, removed = (len(labels[key]) for key in ("model", "retained", "removed"))
    return (
        f"{title}{count(before)} labels become {count(after)}; {count(removed)} "
        f"{'is' if removed == 1 else 'are'} removed. Answers are those of {summary['shown']}; one "
        "has changed if the new one is not the destination of the old one."
    )


def _failures(failures: Sequence[str]) -> str:
    listed = [f"- {quoted(each, MOST_LETTERS_OF_SENTENCES)}" for each in failures[:MOST_FAILURES]]
    left_out = len(failures) - len(listed)
    more = [f"- and {count(left_out)} more"] if left_out else []
    return "\n".join(["**Failed:**", "", *listed, *more])


def _counts(summary: Summary, shown: Summary) -> str:
    counts = shown["impact"]
    where = unknown_at(summary["impact"]["rule"])
    rows = []
    for key, (name, over) in COUNTS.items():
        if counts[key] is not None:
            said = f"{name} ({where})" if key == "unknown" and where else name
            share = percent(counts[key] / counts[over]) if counts[over] else ""
            rows.append((said, count(counts[key]), f"{count(counts[over])} {OVER[over]}", share))
    return _table(("", "Rows", "Of", "Share"), rows)


def _pairs(summary: Summary) -> list[str]:
    impact = summary["impact"]
    listed, rest = impact["pairs"][:MOST_PAIRS], impact["pairs"][MOST_PAIRS:]
    if not listed:
        return []
    rows = [(quoted(pair["from"]), _answer(pair["to"]), count(pair["rows"])) for pair in listed]
    parts = ["### Answers that change", _table(("From", "To", "Rows"), rows, texts=2)]
    pairs = len(rest) + impact["other_pairs"]["pairs"]
    if pairs:
        others = sum(pair["rows"] for pair in rest) + impact["other_pairs"]["rows"]
        parts.append(f"{count(pairs)} more pairs have {count(others)} rows.")
    return parts


def _by_label(summary: Summary) -> list[str]:
    """Write the labels with most changed answers; few rows have wide intervals."""
    entries = sorted(summary["impact"]["by_label"], key=lambda entry: -entry["changed"]["rows"])
    shown = {
        key: name
        for key, name in (
            *(("changed", "Changed"), ("unknown", "Unknown")),
            *(("corrected", "Corrected"), ("regressed", "Regressed")),
        )
        if any(entry[key] for entry in entries)
    }
    rows = [
        (quoted(entry["label"]), count(entry["rows"]), *(_share(entry, key) for key in shown))
        for entry in entries[:MOST_LABELS]
    ]
    of = "True label" if summary["truth"] else "Old answer"
    parts = [
        f"### By {of.lower()}",
        "Rows, and the 95% interval of their share.",
        _table((of, "Rows", *shown.values()), rows),
    ]
    left_out = len(entries) - len(rows)
    if left_out:
        parts.append(f"{count(left_out)} more labels have fewer changes.")
    return parts


def _share(entry: Summary, key: str) -> str:
    share = entry[key]
    if share is None:
        return ""
    return f"{count(share['rows'])} ({percent(share['low'])} to {percent(share['high'])})"


def _removed(summary: Summary) -> list[str]:
    known = [entry for entry in summary["destinations"] if entry["answers"]]
    known.sort(key=lambda entry: -entry["rows"])
    if not known:
        return []
    rows = []
    for entry in known[:MOST_REMOVED]:
        answers = [
            f"{_answer(to['label'])} {count(to['rows'])} ({percent(to['share'])})"
            for to in entry["answers"][:MOST_ANSWERS]
        ]
        rows.append((quoted(entry["label"]), ", ".join(answers), count(entry["rows"])))
    parts = [
        "### Where inputs of removed labels go",
        _table(("Removed label", "Most common answers", "Rows"), rows, texts=2),
    ]
    if len(known) > len(rows):
        parts.append(f"{count(len(known) - len(rows))} more removed labels have fewer rows.")
    return parts


def _before_and_after(summary: Summary) -> list[str]:
    impact = summary["impact"]
    rows = [
        (name, score(impact["before"][key]), score(impact["after"][key]))
        for key, name in (("log_loss", "Log-loss"), ("calibration_error", "Calibration error"))
    ]
    return [
        "### Probabilities",
        "On rows of retained labels. Before: the base model's, added up by destination.",
        _table(("", "Before", "After"), rows),
    ]


def _comparison(summary: Summary) -> list[str]:
    figures = summary["figures"]
    rows = [
        (_name(topic, metric), *(metric.write(value_at(entry, metric.path)) for entry in figures))
        for topic, metrics in TOPICS.items()
        for metric in metrics
        if any(value_at(entry, metric.path) is not None for entry in figures)
    ]
    return [
        "### Outputs",
        "Accuracy (A_R, A_F) is a mean over labels, beside the plain share of rows.",
        _table(("", *(entry["output"] for entry in figures)), rows),
    ]


def _name(topic: str, metric: Metric) -> str:
    """Name a metric; a distance says what it is to."""
    _, is_distance, to = topic.partition("Distance ")
    return metric.name.replace(",", f" {to},", 1) if is_distance else metric.name


def _notes(summary: Summary) -> list[str]:
    listed = summary["notes"][:MOST_NOTES]
    notes = [f"- {quoted(note, MOST_LETTERS_OF_SENTENCES)}" for note in listed]
    return ["\n".join(notes)] if notes else []


def _made_from(summary: Summary) -> list[str]:
    made_from = summary["made_from"]
    files = [
        (
            table["output"],
            quoted(table["name"]),
            quoted(table["sha256"][:DIGITS]),
            count(table["rows"]),
        )
        for table in made_from["tables"][:3]
    ]
    if made_from["filter"]:
        filter = made_from["filter"]
        files.append(("filter", quoted(filter["name"]), quoted(filter["sha256"][:DIGITS]), ""))
    date = f", {quoted(made_from['date'])}" if made_from["date"] else ""
    digest = quoted(summary["plan"]["digest"][:DIGITS])
    said = f"unlabel {quoted(summary['unlabel'])}, plan {digest}{date}."
    headings = ("Made from", "File", "SHA-256, first digits", "Rows")
    return [*([_table(headings, files, texts=3)] if files else []), said]


def _file(source: Summary) -> tuple[str, str]:
    return quoted(source["name"]), quoted(source["sha256"][:DIGITS])


def _answer(label: object) -> str:
    return UNKNOWN if label is None else quoted(label)
