"""Labels, confidences and true labels that tests share."""

import numpy as np

COLDEST, HOTTEST = 1 / 64, 64.0  # the bounds of temperatures

NAMES = ["cat", "dog", "fox", "owl"]
NUMBERS = np.arange(40) % 4
ROWS = np.random.default_rng(0).dirichlet(np.ones(4), 40)
TRUTH = np.array(NAMES)[NUMBERS]

# Three rows that are read at a glance.
FEW = np.array([[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]])
FEW_NAMES = NAMES[:3]
FEW_TRUTH = ["cat", "cat", "dog"]


def with_row(at, row, rows=ROWS):
    """Return rows, one of them another."""
    changed = rows.copy()
    changed[at] = row
    return changed
