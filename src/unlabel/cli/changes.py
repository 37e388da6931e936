"""Count the changes of a filter's plan, for the lines that commands print."""

from __future__ import annotations

from collections import Counter

from unlabel.filter import OutputFilter
from unlabel.plan import RETIRED, SPLIT


def count_changes(fitted: OutputFilter) -> str:
    """Count the labels that are retired, merged, renamed and split.

    Examples
    --------
    >>> plan = {"cat": None, "lynx": "other", "puma": "other", "colour": "color"}
    >>> count_changes(OutputFilter.mask(["cat", "dog", "lynx", "puma", "colour"], plan))
    '1 of 5 labels retired, 2 merged into 1, 1 renamed'
    """
    columns = fitted.outcome.columns.tolist()
    sources = Counter(columns)
    # A label that others are merged into is merged with them.
    merged_into = [to for to, count in sources.items() if to >= 0 and count > 1]
    renamed = [
        to
        for label, to in zip(fitted.classes_in, columns, strict=True)
        if to >= 0 and sources[to] == 1 and fitted.classes[to] != label
    ]
    changes = [
        (sources[RETIRED], "retired"),
        (sum(sources[to] for to in merged_into), f"merged into {len(merged_into)}"),
        (len(renamed), "renamed"),
        (sources[SPLIT], "split"),
    ]
    (first, what), *others = [change for change in changes if change[0]] or changes[:1]
    parts = [f"{first} of {len(columns)} labels {what}"]
    return ", ".join(parts + [f"{count} {what}" for count, what in others])
