"""Confidences added up by destination, in plain PyTorch operators that have gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unlabel._method import merge
from unlabel._typing import Columns, Float64s


class Merge(NamedTuple):
    """The arrays of `unlabel._method.merge.Merge`, and its destinations sorted by their sizes.

    Destinations with the same number of sources are added up at once, one slice of the labels
    after another. Unlike sums into given places, this gives the same bits on a GPU every time.
    """

    sources: Tensor
    starts: Tensor
    weights: Tensor
    by_size: Tensor  # (e,): the entries, with those of smaller destinations first
    places: Tensor  # (m,): where the result's labels stand then
    groups: list[int]  # pairs: a number of destinations, and that of the sources of each of them

    def add_up(self, logs: Tensor) -> Tensor:
        """Turn logarithms of probabilities into those of their sums, each with its own maximum."""
        log_weights = self.weights.to(logs.dtype).log()
        columns, log_weights = (x[self.by_size] for x in (self.sources, log_weights))
        taken = logs.index_select(-1, columns) + log_weights
        shapes = [*zip(self.groups[::2], self.groups[1::2], strict=True)]
        slices = taken.split([number * size for number, size in shapes], -1)
        sums = [
            part if shape[1] == 1 else part.unflatten(-1, shape).logsumexp(-1)
            for part, shape in zip(slices, shapes, strict=True)
        ]
        return torch.cat(sums, -1).index_select(-1, self.places)


def arrays_of(given: merge.Merge) -> dict[str, Columns | Float64s]:
    """Give the arrays of a merge by their names here."""
    sizes = _sizes(given)
    return {
        "sources": given.sources,
        "starts": given.starts,
        "weights": given.weights,
        "by_size": np.argsort(sizes[given.targets], kind="stable"),
        "places": np.argsort(np.argsort(sizes, kind="stable")),
    }


def groups_of(given: merge.Merge) -> list[int]:
    """Give the numbers of destinations of each size, each with the size."""
    sizes, numbers = np.unique(_sizes(given), return_counts=True)
    groups: list[int] = np.stack([numbers, sizes], axis=1).ravel().tolist()
    return groups


def _sizes(given: merge.Merge) -> Columns:
    return np.diff(given.starts, append=len(given.sources))
