"""Changes of labels written out plainly: loops over labels, on fractions or decimal numbers."""

from decimal import Decimal, localcontext
from fractions import Fraction

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


def retired(changes):
    return [label for label, to in changes.items() if to is None]


def add_up(changes, labels, row):
    """Add up a row over all labels by destination; what is on retired labels is lost."""
    results = result_labels(changes, labels)
    sums = [type(row[0])(0)] * len(results)
    for label, entry in zip(labels, row, strict=True):
        for to, weight in parts_of(changes, label):
            share = entry * weight.numerator / weight.denominator
            sums[results.index(to)] += share
    return sums


def without_retired(changes, labels, row):
    """Drop retired labels and divide by the sum; all others get the same if nothing is left."""
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
        return add_up(changes, labels, without_retired(changes, labels, row))


def redistributed(changes, labels, row, steps):
    """Change a row of decimal numbers by the method, with the steps of `plain.fit_exactly`."""
    with localcontext(prec=plain.DIGITS):
        left = iter(plain.apply_exactly(row, steps))
        gone = retired(changes)
        whole = [Decimal(0) if label in gone else next(left) for label in labels]
        return add_up(changes, labels, whole)


def at_temperature(row, temperature):
    with localcontext(prec=60):
        powers = [entry ** (1 / Decimal(temperature)) if entry else Decimal(0) for entry in row]
        return [power / sum(powers) for power in powers]


@st.composite
def changes_of(draw, labels, *, removed=None, with_splits=True):
    """Draw changes of some labels: retire, into, merge, rename, swap, split and other."""
    if removed is None:
        removed = draw(st.permutations(labels))[: draw(st.integers(0, len(labels) - 1))]
    staying = [label for label in labels if label not in removed]
    to = st.sampled_from([*staying, *(new for new in NEW_LABELS if new not in removed)])
    weights = st.lists(st.integers(1, 9), min_size=2, max_size=4)

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
