"""Plans spelt out in loops over labels and exact fractions, and random plans to try."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

OLD = ["cat", "dog", "fox", "owl", "pig", "rat"]
NEW = ["other", "cats", "bird"]


def plain_mask(row, labels, changes):
    """Drop the retired labels, divide by the sum, and add up by destination: {label: share}."""
    destinations = {label: changes.get(label, label) for label in labels}
    exact = dict(zip(labels, map(Fraction, row), strict=True))
    left = sum(exact[label] for label in labels if destinations[label] is not None)
    result = {}
    for label in labels:
        to = destinations[label]
        if to is None:
            continue
        weights = to if isinstance(to, dict) else {to: 1}
        total = sum(map(Fraction, weights.values()))
        for name, weight in weights.items():
            part = exact[label] / left * Fraction(weight) / total
            result[name] = result.get(name, 0) + part
    return result


def random_rows(labels, rows=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(len(labels)), size=rows)


@st.composite
def random_changes(draw, labels=OLD, new=NEW, retire=True, split=True):
    """Draw destinations for some of the labels; at least one label is not retired."""
    listed = draw(st.lists(st.sampled_from(labels), unique=True))
    retired = set()
    if retire and listed:
        retired = set(draw(st.lists(st.sampled_from(listed), max_size=len(labels) - 1)))
    retired = set(sorted(retired)[: len(labels) - 1])
    targets = st.sampled_from([*(label for label in labels if label not in retired), *new])
    changes = {}
    for label in listed:
        if label in retired:
            changes[label] = None
        elif split and draw(st.booleans()):
            parts = draw(st.lists(targets, min_size=2, max_size=3, unique=True))
            shares = draw(st.sampled_from([[1, 1, 1], [1, 2, 5], [3, 1, 4]]))[: len(parts)]
            changes[label] = {
                to: share / sum(shares) for to, share in zip(parts, shares, strict=True)
            }
        else:
            changes[label] = draw(targets)
    return changes
