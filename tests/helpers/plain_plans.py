"""Plans applied plainly, label by label and with fractions, and random plans to apply."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import plain

NEW = ("other", "new", "dog")


def parts_of(label, plan):
    """Give the labels that a label goes to, with their weights: none if it is retired."""
    to = plan.get(label, label)
    if to is None:
        return {}
    return to if isinstance(to, dict) else {to: 1}


def result_labels(classes, plan):
    names = []
    for label in classes:
        for to in parts_of(label, plan):
            if to not in names:
                names.append(to)
    return names


def first_source(name, classes, plan):
    return next(label for label in classes if name in parts_of(label, plan))


def changed_row(row, classes, plan, steps=None):
    """Retire by mask, or by the fitted steps of `plain.fit`, and add up by destination."""
    retained = [label for label in classes if parts_of(label, plan)]
    if steps is None:
        values = [Fraction(float(row[classes.index(label)])) for label in retained]
        values = [value / sum(values) for value in values]
    else:
        values = plain.apply_row(np.asarray(row, dtype=float), steps).tolist()
    result = dict.fromkeys(result_labels(classes, plan), 0)
    for label, value in zip(retained, values, strict=True):
        for to, weight in parts_of(label, plan).items():
            result[to] += value * (Fraction(weight) if steps is None else weight)
    return result


def changed_rows(rows, classes, plan, steps=None):
    results = [changed_row(row, classes, plan, steps) for row in rows]
    return np.array([[float(value) for value in result.values()] for result in results])


def plain_steps(rows, truth, classes, plan):
    """Fit the steps of a plan's retired labels, in the plan's order."""
    retired = [label for label, to in plan.items() if to is None]
    references = [
        [row for row, label in zip(rows, truth, strict=True) if label == each] for each in retired
    ]
    return plain.fit(references, [classes.index(each) for each in retired], len(classes))


def is_change(before, after, plan):
    """Tell whether an answer changed: the new one is not a destination of the old one."""
    return after not in parts_of(before, plan)


@st.composite
def plans(draw, classes):
    """A random plan: labels are retired, merged, renamed, swapped, split and sent to others."""
    changes = {}
    retired = draw(st.sets(st.sampled_from(classes), max_size=len(classes) - 1))
    goals = [label for label in [*classes, *NEW] if label not in retired]
    for label in draw(st.permutations(classes)):
        kind = draw(st.sampled_from(["stay", "stay", "one", "split"]))
        if label in retired:
            changes[label] = None
        elif kind == "one":
            changes[label] = draw(st.sampled_from(goals))
        elif kind == "split" and len(goals) > 1:
            goal = st.lists(st.sampled_from(goals), min_size=2, max_size=3, unique=True)
            parts = draw(goal)
            eighths = [1] * (len(parts) - 1)
            weights = [*(each / 8 for each in eighths), 1 - sum(eighths) / 8]
            changes[label] = dict(zip(parts, weights, strict=True))
    return changes
