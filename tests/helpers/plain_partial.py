"""Rows that name only some labels, filtered by plain loops on fractions."""

from fractions import Fraction

import plain_plan


def partial(changes, labels, named):
    """Return the result's named labels with their values, and the removed mass.

    What is hidden is on labels that stay. Where only removed labels are named, nothing is left.
    """
    masses = {label: Fraction(score) for label, score in named.items()}
    removed = sum(masses.get(label, 0) for label in plain_plan.removed(changes))
    kept, found = sum(masses.values()) - removed, {}
    is_whole = set(labels) <= set(named)
    left = kept if is_whole else max(1 - removed, kept)
    for label, score in masses.items():
        for to, weight in plain_plan.parts_of(changes, label):
            found[to] = found.get(to, Fraction(0)) + score * weight
    if kept == 0:
        return {}, float(removed / max(1, removed + kept))
    values = {to: float(mass / left) for to, mass in found.items()}
    return values, float(removed / max(1, removed + kept))
