"""Merged labels against the product with a dense matrix, which a user would write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import softmax

from growth import reference_rows
from timing import fitted, in_numpy, ratio
from unlabel import OutputFilter
from unlabel.filter import outcome_of_filter
from workload import logits

# Rows, labels, the labels that are merged, and what they are merged into.
MERGES = (
    (200_000, 10, 10, 4),
    (100_000, 100, 100, 20),
    (10_000, 1000, 1000, 20),
    (10_000, 1000, 20, 10),
)
REMOVED_PART = 0.1
TEMPERATURE = 1.3
BAR = ((10_000, 1000, 1000, 20), 1.5)


def measure_merges(rng: np.random.Generator, repeats: int, part: int) -> Iterator[dict[str, Any]]:
    """Divide the best time of every path by that of the plain line."""
    for n_rows, n, n_merged, n_groups in MERGES:
        outputs = logits(rng, n_rows // part, n)[0]
        rows = softmax(outputs, axis=1)
        chosen = rng.permutation(n)[:n_merged]
        changes = {int(label): f"group {at % n_groups}" for at, label in enumerate(chosen)}
        merging = OutputFilter.from_plan(changes, classes=range(n))
        of_logits = replace(merging, kind="logits")
        matrix = dense(merging)
        removed = range(max(1, int(n * REMOVED_PART)))
        merged = {label: to for label, to in changes.items() if label not in removed}
        reference, truth = reference_rows(rng, n, len(removed), 20)
        removing = fitted(reference, truth, plan=dict.fromkeys(removed) | merged)
        keep = outcome_of_filter(removing).retained
        kept = dense(removing)[keep]

        def remove_line(rows=rows, keep=keep, kept=kept):  # type: ignore[no-untyped-def]
            p = rows[:, keep]
            return (p / p.sum(1, keepdims=True)) @ kept

        product = partial(np.matmul, rows, matrix)
        found = {
            "rows": len(rows),
            "labels": n,
            "merged": n_merged,
            "into": n_groups,
            "merge": ratio(partial(merging.apply, rows), product, repeats),
            "merge, logits": ratio(
                partial(of_logits.apply, outputs),
                lambda outputs=outputs, matrix=matrix: softmax(outputs, axis=1) @ matrix,  # type: ignore[misc]
                repeats,
            ),
            "merge, temperature": ratio(
                partial(replace(merging, temperature=TEMPERATURE).apply, rows),
                lambda rows=rows, matrix=matrix: at_temperature(rows) @ matrix,  # type: ignore[misc]
                repeats,
            ),
            "merge, logits, temperature": ratio(
                partial(replace(of_logits, temperature=TEMPERATURE).apply, outputs),
                lambda outputs=outputs, matrix=matrix: (  # type: ignore[misc]
                    softmax(outputs / TEMPERATURE, axis=1) @ matrix
                ),
                repeats,
            ),
            "remove and merge": ratio(partial(removing.apply, rows), remove_line, repeats),
            "merge, NumPy alone": ratio(partial(in_numpy, merging, rows), product, repeats),
        }
        if find_spec("torch") is not None:
            found["merge, PyTorch"] = in_torch(merging, rows, matrix, repeats)
        yield found


def at_temperature(rows: Any) -> Any:
    """Calibrate probabilities as a user would write it."""
    powers = rows ** (1 / TEMPERATURE)
    return powers / powers.sum(axis=1, keepdims=True)


def dense(merging: OutputFilter) -> Any:
    """Write the destinations of a filter's labels as a dense matrix."""
    matrix = np.zeros((len(merging.classes_in), len(merging.classes_out)), dtype=np.float32)
    columns = outcome_of_filter(merging).columns
    labels = np.flatnonzero(columns >= 0)
    matrix[labels, columns[labels]] = 1.0
    return matrix


def in_torch(merging: OutputFilter, rows: Any, matrix: Any, repeats: int) -> float:
    """Compare the module with the product of tensors."""
    import torch

    from unlabel.torch import FilterModule

    module, tensor, dense = FilterModule(merging), torch.from_numpy(rows), torch.from_numpy(matrix)
    return ratio(lambda: module(tensor), lambda: tensor @ dense, repeats)
