"""Count the changes of a filter's plan, for the lines that commands print."""

from __future__ import annotations

from unlabel._plans.check import check
from unlabel.filter import OutputFilter


def count_changes(fitted: OutputFilter) -> str:
    """Count the labels that are retired, merged, renamed and split.

    Examples
    --------
    >>> plan = {"cat": None, "lynx": "other", "puma": "other", "colour": "color"}
    >>> count_changes(OutputFilter.mask(["cat", "dog", "lynx", "puma", "colour"], plan))
    '1 of 5 labels retired, 2 merged into 1, 1 renamed'
    """
    found = check(fitted.plan, fitted.classes_in)
    changes = [
        (len(found.retired), "retired"),
        (len(found.merged), f"merged into {len(found.merged_into)}"),
        (len(found.renamed), "renamed"),
        (len(found.split), "split"),
    ]
    (first, what), *others = [change for change in changes if change[0]] or changes[:1]
    parts = [f"{first} of {len(fitted.classes_in)} labels {what}"]
    return ", ".join(parts + [f"{count} {what}" for count, what in others])
