"""A temperature by its definition: the least log-loss, found by trying.

The robust log-loss of a row is -log(.999 p + .001 / n), where p is the probability of the row's
label at that temperature and n the number of labels.
"""

import numpy as np

ASTRAY = 1e-3
GOLDEN_RATIO = (np.sqrt(5) - 1) / 2


def at_temperature(rows, temperature):
    powers = np.asarray(rows, dtype=np.float64) ** (1 / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def of_labels(rows, columns, temperature):
    return at_temperature(rows, temperature)[np.arange(len(rows)), columns]


def plain_log_loss(rows, columns, temperature):
    own = of_labels(rows, columns, temperature)
    return -np.log(np.maximum(own, 1e-300)).mean()


def robust_log_loss(rows, columns, temperature):
    own = of_labels(rows, columns, temperature)
    return -np.log((1 - ASTRAY) * own + ASTRAY / np.shape(rows)[1]).mean()


def best_temperature(loss, rows, columns, low=0.25, high=8.0):
    """Shorten the interval by the golden ratio until only rounding is left."""
    low, high = np.log(low), np.log(high)
    left, right = (low + (high - low) * part for part in (1 - GOLDEN_RATIO, GOLDEN_RATIO))
    at_left, at_right = (loss(rows, columns, np.exp(at)) for at in (left, right))
    while high - low > 1e-8:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = low + high - right
            at_left = loss(rows, columns, np.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + high - left
            at_right = loss(rows, columns, np.exp(right))
    return float(np.exp((low + high) / 2))
