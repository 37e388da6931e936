"""Merged labels against the product with a dense matrix, which a user would write."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import softmax

from growth import reference_rows
from timing import in_numpy, ratio
from unlabel import OutputFilter
from unlabel.fitting import fit_filter
from workload import logits

# Rows, labels, the labels that are merged, and what they are merged into.
MERGES = (
    (200_000, 10, 10, 4),
    (100_000, 100, 100, 20),
    (10_000, 1000, 1000, 20),
    (10_000, 1000, 20, 10),
)
RETIRED_PART = 0.1
BAR = ((10_000, 1000, 1000, 20), 1.5)


def measure_merges(rng: np.random.Generator, repeats: int, part: int) -> Iterator[dict[str, Any]]:
    """Divide the best time of every path by that of the plain line."""
    for n_rows, n, n_merged, n_groups in MERGES:
        outputs = logits(rng, n_rows // part, n)[0]
        rows = softmax(outputs, axis=1)
        chosen = rng.permutation(n)[:n_merged]
        changes = {int(label): f"group {at % n_groups}" for at, label in enumerate(chosen)}
        merging = OutputFilter.mask(range(n), changes)
        of_logits = merging.taking("logits")
        matrix = dense(merging)
        retired = range(max(1, int(n * RETIRED_PART)))
        merged = {label: to for label, to in changes.items() if label not in retired}
        reference, truth = reference_rows(rng, n, len(retired), 20)
        retiring = fit_filter(reference, truth, remove=dict.fromkeys(retired) | merged)
        keep, kept = retiring.retained_columns, dense(retiring)[retiring.retained_columns]

        def retire_line(rows=rows, keep=keep, kept=kept):  # type: ignore[no-untyped-def]
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
            "retire and merge": ratio(partial(retiring.apply, rows), retire_line, repeats),
            "merge, NumPy alone": ratio(partial(in_numpy, merging, rows), product, repeats),
        }
        if find_spec("torch") is not None:
            found["merge, PyTorch"] = in_torch(merging, rows, matrix, repeats)
        yield found


def dense(merging: OutputFilter) -> Any:
    """Write the destinations of a filter's labels as a dense matrix."""
    matrix = np.zeros((len(merging.classes_in), len(merging.classes)), dtype=np.float32)
    labels = np.flatnonzero(merging.outcome.columns >= 0)
    matrix[labels, merging.outcome.columns[labels]] = 1.0
    return matrix


def in_torch(merging: OutputFilter, rows: Any, matrix: Any, repeats: int) -> float:
    """Compare the module with the product of tensors."""
    import torch

    from unlabel.torch import FilterModule

    module, tensor, dense = FilterModule(merging), torch.from_numpy(rows), torch.from_numpy(matrix)
    return ratio(lambda: module(tensor), lambda: tensor @ dense, repeats)
