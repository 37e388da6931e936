"""Labels merged, renamed and split by loops over the labels, independent of the code under test."""

import math
from dataclasses import replace

import numpy as np
import torch

import doors
import plain
import plain_plan

LABELS = [*"abcdefgh"]
# Removed, removed into, merged, renamed, swapped, split, and sent to a new label.
PLAN = {
    "a": None,
    "b": "c",
    "d": "other",
    "e": "f",
    "f": "e",
    "g": {"c": 0.25, "left": 0.5, "right": 0.25},
    "h": "other",
}
SPLITS = {"a": {"x": 0.5, "y": 0.5}, "b": {"z": 1 / 3, "x": 1 / 3, "b": 1 / 3}, "d": None}


def dense(plan, labels):
    """The matrix from the retained labels to the result's."""
    retained = [label for label in labels if plan.get(label, label) is not None]
    results = plain_plan.result_labels(plan, labels)
    matrix = np.zeros((len(retained), len(results)))
    for row, label in enumerate(retained):
        for to, weight in plain_plan.parts_of(plan, label):
            matrix[row, results.index(to)] = weight
    return matrix


def references(plan, n, seed=0):
    """Reference rows of each removed label, in the plan's order."""
    rng = np.random.default_rng(seed)
    removed = [LABELS.index(label) for label, to in plan.items() if to is None]
    return removed, [rng.dirichlet(1 + 4 * np.eye(n)[column], 5) for column in removed]


def fitted_filter(plan, n=8, method="osr", **changes):
    """The filter under test, with settings that are changed afterwards."""
    labels = LABELS[:n]
    if method == "mask":
        return replace(doors.mask(labels, plan), **changes)
    removed, rows = references(plan, n)
    truth = [labels[column] for column in removed for _ in range(5)]
    # A row of a label that stays: without any rows nothing is fitted.
    rows, truth = np.vstack([*rows, np.full((1, n), 1 / n)]), [*truth, staying_label(plan)]
    return replace(doors.fit(rows, truth, classes=labels, plan=plan), **changes)


def staying_label(plan):
    return next(label for label in LABELS if plan.get(label, label) is not None)


def changed(row, plan, method, temperature=1.0):
    """One row of probabilities by the plan, label by label."""
    n = len(row)
    removed, rows = references(plan, n)
    steps = plain.fit(rows, removed, n) if method == "osr" else None
    row = plain.at_temperature(row, temperature)
    sums = plain_plan.changed_rows(plan, LABELS[:n], [row], steps)[0]
    return [value / math.fsum(sums) for value in sums]


def softmax(row):
    powers = np.exp(row - row.max())
    return powers / powers.sum()


def drawn_rows(n, kind, dtype, seed, n_rows=4):
    logits = 3 * np.random.default_rng(seed).normal(size=(n_rows, n))
    rows = logits if kind == "logits" else np.apply_along_axis(softmax, 1, logits)
    return torch.tensor(rows).to(dtype)


def expected_of(rows, kind, plan, method, temperature=1.0):
    """The result for a tensor of rows, as they were rounded."""
    exact = rows.double().cpu().numpy()
    exact = [softmax(row) if kind == "logits" else row / row.sum() for row in exact]
    return np.array([changed(row, plan, method, temperature) for row in exact])


def assert_close(result, expected, tolerance, output="probabilities"):
    result = result.detach().double().cpu()
    result = result.exp() if output == "log_probabilities" else result
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=tolerance)
