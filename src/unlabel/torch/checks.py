"""Which tensors and which states a filter's module takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from unlabel._labels import listing
from unlabel._typing import Label
from unlabel.errors import UnlabelError


def check_confidences(confidences: Tensor, n_labels: int, dim: int | None) -> None:
    """Refuse what is not a tensor of floats whose dimension `dim` is that of the labels."""
    if not isinstance(confidences, Tensor) or not confidences.is_floating_point():
        kind = getattr(confidences, "dtype", type(confidences).__name__)
        raise UnlabelError(f"The filter was given {kind}: give one tensor of floats.")
    shape = tuple(confidences.shape)
    if dim is None and _is_ambiguous(shape, n_labels):
        raise which_dimension(shape, n_labels)
    at = -1 if dim is None else dim
    if not -len(shape) <= at < len(shape) or shape[at] != n_labels:
        raise UnlabelError(
            f"The confidences have the shape {shape} and the filter {n_labels} labels: dimension "
            f"{at} must be the model's labels, in their order; dim=... says which one it is."
        )


def which_dimension(shape: tuple[int, ...], n_labels: int) -> UnlabelError:
    """Say that the dimension of the labels must be given."""
    return UnlabelError(
        f"The confidences have the shape {shape}: say which dimension is that of the {n_labels} "
        "labels, dim=1 for (N, C, ...) or dim=-1 for (N, ..., C)."
    )


def _is_ambiguous(shape: tuple[int, ...], n_labels: int) -> bool:
    if len(shape) != 3:
        return len(shape) > 3
    # A size that an export leaves open is not compared: it would not be open any more.
    is_open = torch.compiler.is_exporting() and not isinstance(shape[1], int)
    return not is_open and shape[1] == n_labels


def digest(labels: tuple[Label, ...]) -> npt.NDArray[np.uint8]:
    """Labels and their order in a few bytes, which stay what they are in any type of number."""
    return np.frombuffer(hashlib.sha256(json.dumps(labels).encode()).digest(), np.uint8)


def refuse_other_filters(
    module: Any, state: Mapping[str, Tensor], prefix: str, *more: object
) -> None:
    """Refuse the state of a filter for other labels: `classes` would not be those of the result."""
    given = {
        name: tensor.tolist()
        for name in ("removed", "labels")
        if (tensor := state.get(f"{prefix}{name}")) is not None and not tensor.is_meta
    }
    if given.get("removed", module.removed_columns) != module.removed_columns:
        raise UnlabelError(
            f"The state removes the columns {given['removed']} and this module "
            f"{module.removed_columns}: make the module from the same filter."
        )
    labels = digest(module.classes_in).tolist()
    if given.get("labels", labels) != labels:
        raise UnlabelError(
            f"The state is for other labels than {listing(module.classes_in)}, or has them in "
            "another order: make the module from the same filter."
        )
    if given and (f"{prefix}shares" in state) != module.redistributes:
        raise UnlabelError(
            "The state and this module are of different methods: make the module from the same "
            "filter."
        )
