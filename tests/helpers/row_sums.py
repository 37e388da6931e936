"""Rows by their sums: the one rule for what a probability row is, as every backend must follow it.

A row is one if its entries are finite, none is negative, and they sum to 1 within a hundredth.
"""

import numpy as np

import doors

CLASSES = ["cat", "dog", "fox", "owl"]
DTYPES = ("float16", "float32", "float64")
TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-12}
SHARES = np.array([0.375, 0.3125, 0.1875, 0.125])

# The row, and words on what is wrong with it, none if nothing is.
ROWS = {
    "all zero": (0 * SHARES, "sums to 0,"),
    "half": (0.5 * SHARES, "sums to 0.5,"),
    "0.98": (0.98 * SHARES, "sums to 0.9[78]"),
    "0.991": (0.991 * SHARES, None),
    "1": (SHARES, None),
    "certain": (np.array([0, 1.0, 0, 0]), None),
    "on a removed label": (np.array([1.0, 0, 0, 0]), None),
    "minus zero": (np.array([-0.0, 0.5, 0.5, -0.0]), None),
    "1.009": (1.009 * SHARES, None),
    "1.02": (1.02 * SHARES, "sums to 1.02"),
    "1.5": (1.5 * SHARES, "sums to 1.5,"),
    "NaN": (np.array([0.5, np.nan, 0.25, 0.25]), "is NaN"),
    "infinite": (np.array([0.5, np.inf, 0.25, 0.25]), "is infinite"),
    "minus infinite": (np.array([0.5, -np.inf, 0.25, 0.25]), "is -inf"),
    "negative": (np.array([0.5, 0.625, -0.125, 0]), "is -0.125"),
}
VALID = [name for name, (_, words) in ROWS.items() if words is None]
INVALID = [name for name in ROWS if name not in VALID]


def filters():
    """Return filters that remove a label, by the method and by a mask, merge and calibrate."""
    reference = np.random.default_rng(0).dirichlet(np.ones(4), 40)
    truth = np.array(CLASSES)[np.arange(40) % 4]
    osr = doors.fit(reference, truth, classes=CLASSES, remove=["cat"])
    merging = doors.fit(reference, truth, classes=CLASSES, plan={"cat": None, "fox": "owl"})
    return {
        "osr": osr,
        "mask": doors.mask(CLASSES, ["cat"]),
        "merge": merging,
        "calibrated": doors.at_temperature(osr, 1.7),
    }


def expected(fitted, row, dtype):
    """Return what a filter makes of a row that is valid: what it makes of the row by its sum."""
    exact = row.astype(dtype).astype(np.float64)
    return fitted.apply(exact / exact.sum())
