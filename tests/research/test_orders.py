"""How far two orders of removal are apart, and OSR and mask, by plain code."""

from itertools import combinations

import numpy as np
import pytest

import plain
import plain_metrics
from research.tables.orders import order_distances

REMOVED = (0, 2, 5)
TRUTH = np.repeat(np.arange(6), 8)


def test_filters_of_random_orders_are_judged_on_the_rows_they_were_not_fitted_on():
    random = np.random.default_rng(4)
    logits = random.normal(0, 2, size=(48, 6)) + 3 * np.eye(6)[TRUTH]
    judged, found = order_distances(logits, TRUTH, REMOVED)
    assert np.bincount(TRUTH[judged]).tolist() == [4] * 6
    rows = plain.softmax(logits)
    reference = np.setdiff1d(np.arange(48), judged)
    outputs, draw = [], np.random.default_rng(0)
    for _ in range(5):
        order = draw.permutation(REMOVED).tolist()
        own = [rows[reference[TRUTH[reference] == label]] for label in order]
        outputs.append(plain.apply(rows[judged], plain.fit(own, order, 6)))
    kept = rows[judged][:, [1, 3, 4]]
    pairs = {
        "between two orders": [*combinations(outputs, 2)],
        "from mask": [(output, kept) for output in outputs],
    }
    assert found.keys() == pairs.keys()
    for name, compared in pairs.items():
        expected = np.mean([plain_metrics.jensen_shannon(*pair) for pair in compared], axis=0)
        assert found[name] == pytest.approx(expected, abs=1e-9)
    assert found["between two orders"].mean() > 1e-6
