"""Hypothesis strategies for filters, and rows at the edges of the simplex."""

import numpy as np
from hypothesis import strategies as st

import doors
from plain_plan import changes_of
from worlds import COLDEST, HOTTEST

DTYPES = (np.float16, np.float32, np.float64)
# Zero, the smallest subnormal, numbers whose products underflow, and numbers near 1's rounding.
EDGES = (0.0, 5e-324, 1e-310, 1e-300, 1e-160, 6e-8, 1e-16, 1.1e-16, 1e-3, 1.0)
LOGIT_EDGES = (-np.inf, -1e4, -750.0, -40.0, 0.0, 40.0, 750.0, 1e4)


def probabilities(n):
    entry = st.sampled_from(EDGES) | st.floats(0, 1)
    weights = st.lists(entry, min_size=n, max_size=n).filter(lambda row: sum(row) > 0)
    return weights.map(lambda row: [entry / sum(row) for entry in row])


def logits(n):
    entry = st.sampled_from(LOGIT_EDGES) | st.floats(-1e4, 1e4)
    row = st.lists(entry, min_size=n, max_size=n)
    # Rows that sum to 1 would be mistaken for probabilities.
    return row.filter(lambda row: max(row) > -np.inf and abs(sum(row) - 1) > 0.1)


@st.composite
def cases(draw):
    """A fitted filter and rows for it."""
    n = draw(st.integers(2, 7))
    removed = draw(st.permutations(range(n)))[: draw(st.integers(0, n - 1))]
    kind = draw(st.sampled_from(["probabilities", "logits"]))
    dtype = draw(st.sampled_from(DTYPES))
    row = probabilities(n) if kind == "probabilities" else logits(n)
    changes = dict.fromkeys(removed)
    if draw(st.booleans()):
        changes = draw(changes_of(range(n), removed=removed))
    labels = [label for label in removed for _ in range(draw(st.integers(1, 3)))] or [0]
    reference = draw(st.lists(row, min_size=len(labels), max_size=len(labels)))
    fitted = doors.fit(
        np.array(reference, dtype=dtype),
        labels,
        plan=changes,
        method=draw(st.sampled_from(["osr", "mask"])),
        kind=kind,
    )
    temperature = draw(st.sampled_from([1.0, 1.0, COLDEST, 0.7, 1.9, HOTTEST]))
    rows = draw(st.lists(row, min_size=1, max_size=6))
    return doors.at_temperature(fitted, temperature), np.array(rows, dtype=dtype)
