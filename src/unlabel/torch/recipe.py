"""A filter's recipe as tensors, which a module keeps as buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from unlabel.filter import OutputFilter, recipe_of

STEPS = ("residual_weights", "shares", "diagonal", "complement", "no_residual_below", "share_sums")
MERGE = ("sources", "starts", "weights", "by_size", "places")
ARRAYS = ("order", *STEPS, "temperature", *MERGE)


class Recipe(NamedTuple):
    """The arrays of the core's recipe.

    Destinations with the same number of sources are added up at once, one slice of the labels
    after another. Unlike sums into given places, this gives the same bits on a GPU every time.
    """

    order: Tensor
    residual_weights: Tensor
    shares: Tensor
    diagonal: Tensor
    complement: Tensor
    no_residual_below: Tensor
    share_sums: Tensor
    temperature: Tensor
    sources: Tensor  # this and the next four are None where no labels are merged or split
    starts: Tensor
    weights: Tensor
    by_size: Tensor  # (e,): the entries, those of smaller destinations first
    places: Tensor  # (m,): where the result's labels stand then
    n_retained: int
    is_calibrated: bool  # whether the temperature is not 1
    groups: tuple[tuple[int, int], ...]  # numbers of destinations, and of sources of each

    @property
    def n_results(self) -> int:
        """The number of the result's labels."""
        return len(self.places) if self.groups else self.n_retained


def arrays_of(filter: OutputFilter) -> tuple[dict[str, Any], tuple[tuple[int, int], ...]]:
    """Return the arrays of a filter by their names here, and the groups of its merge."""
    recipe = recipe_of(filter)
    arrays: dict[str, Any] = {name: getattr(recipe, name) for name in ("order", *STEPS)}
    arrays["temperature"] = np.float64(recipe.temperature)
    merge = recipe.merge
    if merge is None:
        return arrays, ()
    sizes = np.diff(merge.starts, append=len(merge.sources))
    arrays |= {"sources": merge.sources, "starts": merge.starts, "weights": merge.weights}
    arrays["by_size"] = np.argsort(sizes[merge.targets], kind="stable")
    arrays["places"] = np.argsort(np.argsort(sizes, kind="stable"))
    found, numbers = np.unique(sizes, return_counts=True)
    return arrays, tuple(zip(numbers.tolist(), found.tolist(), strict=True))
