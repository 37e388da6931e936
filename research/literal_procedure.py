"""The paper's procedure as it is written, in NumPy.

Label by label: the null space by Gauss-Jordan elimination, an orthonormal basis by Gram-Schmidt,
vector by vector, and the projector as a dense matrix. `fit` can also run the inner loop of
Gram-Schmidt as two matrix products, which is as fast as the procedure gets without changing it.

Two of its faults are fixed, as in `unlabel`: the residual is clipped and the result divided by
its sum, so that both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from research.arrays import Float64s, Floats


class Step(NamedTuple):
    """What removes one label."""

    column: int  # among the labels that are left
    projector: Float64s
    share: Float64s


def fit(
    references: Sequence[Floats],
    removed: Sequence[int],
    n_labels: int,
    in_products: bool = False,
) -> list[Step]:
    left = list(range(n_labels))
    steps: list[Step] = []
    for reference, label in zip(references, removed, strict=True):
        rows = apply(reference, steps)
        column = left.index(label)
        projector = projector_of(rows.mean(axis=0), in_products)
        projected = np.abs(rows @ projector)
        projected /= projected.sum(axis=1, keepdims=True)
        steps.append(Step(column, projector, np.delete(projected.mean(axis=0), column)))
        del left[column]
    return steps


def projector_of(mean: Float64s, in_products: bool) -> Float64s:
    n, pivot = len(mean), int(np.argmax(mean))
    # The reduced form of a single equation: each vector has one free label and the pivot's.
    basis = np.delete(np.eye(n), pivot, axis=0)
    basis[:, pivot] = np.delete(-mean / mean[pivot], pivot)
    for i, vector in enumerate(basis):
        if in_products:
            vector -= basis[:i].T @ (basis[:i] @ vector)
        else:
            for earlier in basis[:i]:
                vector -= (earlier @ vector) * earlier
        vector /= np.linalg.norm(vector)
    return np.asarray(basis.T @ basis)


def apply(rows: Floats, steps: Sequence[Step]) -> Float64s:
    result = np.asarray(rows, dtype=np.float64)
    for column, projector, share in steps:
        residual = (result @ projector)[:, column].clip(0, 1)
        rest = np.delete(result, column, axis=1)
        rest *= ((1 - residual) / rest.sum(axis=1))[:, None]
        rest += residual[:, None] * share
        result = rest / rest.sum(axis=1, keepdims=True)
    return result
