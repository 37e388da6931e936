"""Answers by plain loops: allowed labels, unknown, and columns of labels brought up to date."""

import plain_plan


def restricted(row, allowed):
    """Restrict one row to the labels that are allowed; return it, and the mass that was not."""
    lost = sum(entry for entry, may in zip(row, allowed, strict=True) if not may)
    kept = [entry if may else 0.0 for entry, may in zip(row, allowed, strict=True)]
    if sum(kept) == 0:
        return [1 / sum(allowed) if may else 0.0 for may in allowed], 1.0
    return [entry / sum(kept) for entry in kept], lost


def answer(row, removed_mass, names, *, may=None, min_confidence=0.0, max_removed_mass=1.0):
    """Answer one filtered row, which no list has divided, with a label or None for unknown."""
    mass = dict(zip(names, row, strict=True))
    allowed = [name for name in names if may is None or name in may]
    top = max(allowed, key=lambda name: mass[name])  # the first of equal ones
    least = min_confidence
    if isinstance(least, dict):
        least = least.get(top, least.get(None, 0.0))
    if removed_mass > max_removed_mass or mass[top] < least:
        return None
    if may is not None and sum(mass[name] for name in allowed) <= 1e-290:
        return None
    return top


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
