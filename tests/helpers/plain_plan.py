"""Changes of labels written out plainly: loops over labels, on fractions or decimal numbers."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import plain

OLD = ["cat", "dog", "fox", "owl", "pig", "rat"]
NEW_LABELS = ("x", "y", "other")


def parts_of(changes, label):
    """List the labels that a label goes to, with their weights as fractions."""
    to = changes.get(label, label)
    if to is None:
        return []
    if not isinstance(to, dict):
        return [(to, Fraction(1))]
    total = sum(map(Fraction, to.values()))
    return [(name, Fraction(weight) / total) for name, weight in to.items()]


def result_labels(changes, labels):
    """List the result's labels in the order of the first old label that goes there."""
    found = []
    for label in labels:
        for to, _ in parts_of(changes, label):
            if to not in found:
                found.append(to)
    return found


def removed(changes):
    return [label for label, to in changes.items() if to is None]


def add_up(changes, labels, row):
    """Add up a row over all labels by destination; what is on removed labels is lost."""
    results = result_labels(changes, labels)
    sums = [type(row[0])(0)] * len(results)
    for label, entry in zip(labels, row, strict=True):
        for to, weight in parts_of(changes, label):
            share = entry * weight.numerator / weight.denominator
            sums[results.index(to)] += share
    return sums


def without_removed(changes, labels, row):
    """Drop removed labels and divide by the sum; all others get the same if nothing is left."""
    kept = [
        entry * (changes.get(label, label) is not None)
        for label, entry in zip(labels, row, strict=True)
    ]
    if sum(kept) == 0:
        kept = [type(row[0])(changes.get(label, label) is not None) for label in labels]
    return [entry / sum(kept) for entry in kept]


def masked(changes, labels, row):
    """Change a row, given as fractions or decimal numbers, by ``method="mask"``."""
    with localcontext(prec=plain.DIGITS):
        return add_up(changes, labels, without_removed(changes, labels, row))


def redistributed(changes, labels, row, steps):
    """Change a row of decimal numbers by the method, with the steps of `plain.fit_exactly`."""
    with localcontext(prec=plain.DIGITS):
        left = iter(plain.apply_exactly(row, steps))
        gone = removed(changes)
        whole = [Decimal(0) if label in gone else next(left) for label in labels]
        return add_up(changes, labels, whole)


def changed_rows(changes, labels, rows, steps=None):
    """Change rows by mask, or by the steps of `steps_of`, as an array of floats."""
    results = []
    for row in rows:
        exact = [*map(Fraction, map(float, row))]
        if steps is None:
            results.append(masked(changes, labels, exact))
            continue
        left = iter(plain.apply_row(np.asarray(row, dtype=float), steps).tolist())
        gone = removed(changes)
        whole = [Fraction(0) if label in gone else Fraction(next(left)) for label in labels]
        results.append(add_up(changes, labels, whole))
    return np.array(results, dtype=float)


def steps_of(changes, labels, rows, truth):
    """Fit the removed labels, in the plan's order."""
    gone = removed(changes)
    references = [[r for r, t in zip(rows, truth, strict=True) if t == label] for label in gone]
    return plain.fit(references, [labels.index(label) for label in gone], len(labels))


def first_source(changes, labels, name):
    """Find the first label that goes to a label of the result."""
    return next(label for label in labels if name in dict(parts_of(changes, label)))


def is_change(changes, before, after):
    """Whether an answer changed: the new one is not a destination of the old one."""
    return after not in dict(parts_of(changes, before))


def at_temperature(row, temperature):
    with localcontext(prec=60):
        powers = [entry ** (1 / Decimal(temperature)) if entry else Decimal(0) for entry in row]
        return [power / sum(powers) for power in powers]


@st.composite
def changes_of(draw, labels, *, removed=None, with_splits=True):
    """Draw changes of some labels: remove, into, merge, rename, swap, split and other."""
    if removed is None:
        removed = draw(st.permutations(labels))[: draw(st.integers(0, len(labels) - 1))]
    staying = [label for label in labels if label not in removed]
    names = dict.fromkeys([*staying, *(new for new in NEW_LABELS if new not in removed)])
    to = st.sampled_from([*names])
    weights = st.lists(st.integers(1, 9), min_size=2, max_size=min(4, len(names)))

    @st.composite
    def split(draw):
        drawn = draw(weights)
        names = draw(st.lists(to, min_size=len(drawn), max_size=len(drawn), unique=True))
        return {name: weight / sum(drawn) for name, weight in zip(names, drawn, strict=True)}

    kinds = [st.none(), to, to, split()] if with_splits and len(staying) > 1 else [st.none(), to]
    changes = dict.fromkeys(removed)
    for label in staying:
        drawn = draw(st.one_of(kinds))
        if drawn is not None:  # otherwise it is not listed, and stays
            changes[label] = drawn
    return changes
