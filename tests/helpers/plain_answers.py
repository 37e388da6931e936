"""Answers by plain loops: allowed labels, unknown, and columns of labels brought up to date."""

import plain_plan


def restricted(row, allowed, scores="renormalised"):
    """Restrict one row to the labels that are allowed; give it, and the mass that was not."""
    lost = sum(entry for entry, may in zip(row, allowed, strict=True) if not may)
    kept = [entry if may else 0.0 for entry, may in zip(row, allowed, strict=True)]
    if scores == "absolute":
        return kept, lost
    if sum(kept) == 0:
        return [1 / sum(allowed) if may else 0.0 for may in allowed], lost
    return [entry / sum(kept) for entry in kept], lost


def removed_mass(plan, labels, row):
    gone = plain_plan.removed(plan)
    return sum(entry for label, entry in zip(labels, row, strict=True) if label in gone)


def top(names, row, allowed):
    """Find the label with the most, an allowed one."""
    return max((name for name in names if name in allowed), key=lambda n: row[names.index(n)])


def updated(plan, labels, value, old_top, answer, allowed):
    """Bring a cell of a column of labels up to date."""
    if value not in labels:
        return value
    parts = plain_plan.parts_of(plan, value)
    has_one = len(parts) == 1 and parts[0][0] in allowed
    return answer if value == old_top or not has_one else parts[0][0]


def is_stale(plan, labels, value):
    """Tell whether a cell names a label that is no longer what it was."""
    return value in labels and [to for to, _ in plain_plan.parts_of(plan, value)] != [value]
