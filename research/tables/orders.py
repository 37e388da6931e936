"""How far OSR's output depends on the order of removal, beside how far it is from mask.

Filters are fitted on one half of each label's stored test rows, in several random orders, and
their outputs on the other half are compared.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from research import filters
from research.arrays import Columns, Float64s, Floats
from research.reference_rows import halves
from unlabel import metrics

ORDERS = 5

Distances = dict[str, Float64s]


def order_distances(
    logits: Float64s, truth: Columns, removed: tuple[int, ...]
) -> tuple[Columns, Distances]:
    """Return the judged rows, and how far each row of two orders, and of OSR and mask, is apart."""
    reference, judged = halves(truth)
    own = reference[np.isin(truth[reference], removed)]
    random = np.random.default_rng(0)

    def output(order: list[int]) -> Floats:
        return filters.osr(logits[own], truth[own], order).apply(logits[judged])

    outputs = [output(random.permutation(removed).tolist()) for _ in range(ORDERS)]
    mask = filters.mask(logits.shape[1], removed).apply(logits[judged])
    to_mask = [metrics.jensen_shannon(each, mask) for each in outputs]
    apart = [metrics.jensen_shannon(*pair) for pair in combinations(outputs, 2)]
    return judged, {
        "between two orders": np.mean(apart, axis=0),
        "from mask": np.mean(to_mask, axis=0),
    }
