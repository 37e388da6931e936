"""Count the changes of a filter's plan, for the lines that commands print."""

from __future__ import annotations

from unlabel.filter import OutputFilter


def count_changes(fitted: OutputFilter) -> str:
    """Count the labels that are removed, merged, renamed and split.

    Examples
    --------
    >>> classes = ["cat", "dog", "lynx", "puma", "colour"]
    >>> plan = {"cat": None, "lynx": "other", "puma": "other", "colour": "color"}
    >>> count_changes(OutputFilter.from_plan(plan, classes=classes))
    '1 of 5 labels removed, 2 merged into 1, 1 renamed'
    """
    found = fitted.plan.check(fitted.classes_in)
    changes = [
        (len(found.removed), "removed"),
        (len(found.merged), f"merged into {len(found.merged_into)}"),
        (len(found.renamed), "renamed"),
        (len(found.split), "split"),
    ]
    (first, what), *others = [change for change in changes if change[0]] or changes[:1]
    parts = [f"{first} of {len(fitted.classes_in)} labels {what}"]
    return ", ".join(parts + [f"{count} {what}" for count, what in others])
