"""Chains of removed labels on rows as networks give them, and the results to compare with."""

import functools
from dataclasses import replace

import numpy as np

import doors


def saturated(n_rows, n, removed, seed, kind="probabilities"):
    """Rows as networks give them, some with all but 1e-7 of their mass on a removed label."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n_rows, n))
    truth = rng.integers(n, size=n_rows)
    truth[: 3 * len(removed)] = np.tile(removed, 3)[:n_rows]
    logits[np.arange(n_rows), truth] += rng.normal(8, 4, size=n_rows)
    logits[::7, removed[0]] += 16
    return (logits if kind == "logits" else softmax(logits)), truth


def softmax(rows):
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@functools.cache
def fitted_once(n, k):
    removed = np.random.default_rng(1).permutation(n)[:k].tolist()
    rows, truth = saturated(8 * n, n, removed, seed=0)
    return doors.fit(rows, truth, remove=removed), removed


def fitted_chain(n, k, **changes):
    fitted, removed = fitted_once(n, k)
    return replace(fitted, **changes), removed


def error(fitted, rows, result, dim=-1):
    """The largest difference from NumPy, for the rows as they were rounded.

    NumPy is given the rows at the filter's temperature, and none.
    """
    wide = rows.detach().double().cpu().movedim(dim, -1).reshape(-1, len(fitted.classes_in)).numpy()
    if fitted.kind == "logits":
        wide = softmax(wide / fitted.temperature)
    else:
        wide = wide ** (1 / fitted.temperature)
        wide /= wide.sum(axis=1, keepdims=True)
    found = result.detach().double().cpu().movedim(dim, -1).reshape(len(wide), -1).numpy()
    expected = replace(fitted, kind="probabilities", temperature=1.0).apply(wide)
    return np.abs(found - expected).max()
