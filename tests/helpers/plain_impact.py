"""Answers before and after a change, compared row by row in plain loops."""

from collections import Counter
from fractions import Fraction

from plain_metrics import top
from plain_plan import is_change, parts_of, removed, result_labels

UNKNOWN = None  # the answer where removed labels have more than a threshold


def new_label(changes, label):
    """Return the single label that a label becomes, None if it is removed or split."""
    parts = parts_of(changes, label)
    return parts[0][0] if len(parts) == 1 else None


def is_unknown(changes, labels, row, above):
    mass = sum(Fraction(float(row[labels.index(label)])) for label in removed(changes))
    return mass / sum(map(Fraction, map(float, row))) > above


def recount(changes, labels, rows, after, truth=None, above=None):
    """Compare the answers to rows, before and `after`, and count everything."""
    results = result_labels(changes, labels)
    counts = Counter()
    pairs, by_label, goes_to = Counter(), {}, {label: Counter() for label in removed(changes)}
    for at, (row, changed_row) in enumerate(zip(rows, after, strict=True)):
        old, new = labels[top(row)], results[top(changed_row)]
        if above is not None and is_unknown(changes, labels, row, above):
            new = UNKNOWN
        true = old if truth is None else truth[at]
        own = by_label.setdefault(true, Counter())
        own["rows"] += 1
        counts["rows"] += 1
        if new is UNKNOWN:
            counts["unknown"] += 1
            own["unknown"] += 1
        if new is UNKNOWN or is_change(changes, old, new):
            counts["changed"] += 1
            own["changed"] += 1
            pairs[old, new] += 1
        if truth is None:
            continue
        if true in goes_to:
            goes_to[true][new] += 1
        goal = new_label(changes, true)
        if goal is None:
            continue
        counts["rows_of_retained_labels"] += 1
        was_right, is_right = new_label(changes, old) == goal, new == goal
        counts["right_before"] += was_right
        counts["right_after"] += is_right
        kind = "neither"
        if was_right != is_right:
            kind = "corrected" if is_right else "regressed"
        counts[kind] += 1
        own[kind] += 1
    return counts, pairs, by_label, goes_to
