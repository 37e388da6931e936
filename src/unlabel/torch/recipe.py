"""A filter's recipe as tensors, which a module keeps as buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from unlabel.filter import OutputFilter

STEPS = ("residual_weights", "shares", "diagonal", "complement", "no_residual_below", "share_sums")
MERGE = ("sources", "starts", "weights", "by_size", "places")


class Recipe(NamedTuple):
    """The arrays of the core's recipe.

    Destinations with the same number of sources are added up at once, one slice of the labels
    after another. Unlike sums into given places, this gives the same bits on a GPU every time.
    """

    n_retained: int
    order: Tensor
    residual_weights: Tensor
    shares: Tensor
    diagonal: Tensor
    complement: Tensor
    no_residual_below: Tensor
    share_sums: Tensor
    temperature: Tensor | None  # none: it is 1
    sources: Tensor  # these are none where no labels are merged or split
    starts: Tensor
    weights: Tensor
    by_size: Tensor  # (e,): the entries, those of smaller destinations first
    places: Tensor  # (m,): where the result's labels stand then
    groups: tuple[tuple[int, int], ...]  # numbers of destinations, and of sources of each

    @property
    def n_results(self) -> int:
        """The number of the result's labels."""
        return len(self.places) if self.groups else self.n_retained


def arrays_of(filter: OutputFilter) -> tuple[dict[str, Any], tuple[tuple[int, int], ...]]:
    """Return the arrays of a filter by their names here, and the groups of its merge."""
    recipe = filter.recipe
    diagonal, complement, no_residual_below, share_sums = recipe.numbers
    arrays: dict[str, Any] = {
        "order": recipe.order,
        "residual_weights": recipe.pulls,
        "shares": recipe.shares,
        "diagonal": diagonal,
        "complement": complement,
        "no_residual_below": no_residual_below,
        "share_sums": share_sums,
        "temperature": np.float64(filter.temperature),
    }
    merge = recipe.merge
    if merge is None:
        return arrays, ()
    sizes = np.diff(merge.starts, append=len(merge.sources))
    arrays |= {"sources": merge.sources, "starts": merge.starts, "weights": merge.weights}
    arrays["by_size"] = np.argsort(sizes[merge.targets], kind="stable")
    arrays["places"] = np.argsort(np.argsort(sizes, kind="stable"))
    found, numbers = np.unique(sizes, return_counts=True)
    return arrays, tuple(zip(numbers.tolist(), found.tolist(), strict=True))
