"""Validation of the tensors and the states that a filter's module is given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unlabel._labels import listing
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DIGEST_SIZE = hashlib.sha256().digest_size


def check_confidences(confidences: Tensor, n_labels: int, dim: int | None) -> None:
    """Require a tensor of floats whose dimension `dim` is that of the labels."""
    if not isinstance(confidences, Tensor) or confidences.dtype not in FLOATS:
        kind = getattr(confidences, "dtype", type(confidences).__name__)
        raise UnlabelError(
            f"The filter was given {kind}: give one tensor of floats, of 16 bits or more."
        )
    shape = tuple(confidences.shape)
    if dim is None and _is_ambiguous(shape, n_labels):
        raise which_dimension(shape, n_labels)
    at = -1 if dim is None else dim
    if not -len(shape) <= at < len(shape) or shape[at] != n_labels:
        raise UnlabelError(
            f"The confidences have the shape {shape} and the filter {n_labels} labels: dimension "
            f"{at} must be that of the labels; dim=... chooses another."
        )


def check_allow(allow: Tensor, result: tuple[int, ...], dim: int) -> None:
    """Require booleans that broadcast to the shape of the result, with its labels along `dim`."""
    if not isinstance(allow, Tensor) or allow.dtype != torch.bool:
        kind = getattr(allow, "dtype", type(allow).__name__)
        raise UnlabelError(f"The allowed labels are {kind}: give a boolean tensor.")
    shape = tuple(allow.shape)
    has_labels = -dim <= len(shape) <= len(result) and shape[dim] == result[dim]
    # From the end, where dimensions that `allow` does not have are left.
    sizes = zip(shape[::-1], result[::-1], strict=False)
    if not has_labels or not all(size == 1 or size == whole for size, whole in sizes):
        raise UnlabelError(
            f"The allowed labels have the shape {shape} and the result has {result}: give a shape "
            f"that broadcasts to it, with the {result[dim]} labels along dimension {dim}."
        )


def which_dimension(shape: tuple[int, ...], n_labels: int) -> UnlabelError:
    """Return the error for a shape that leaves open which dimension is that of the labels."""
    return UnlabelError(
        f"The confidences have the shape {shape}: name the dimension of the {n_labels} labels, "
        "dim=1 for (N, C, ...) or dim=-1 for (N, ..., C)."
    )


def _is_ambiguous(shape: tuple[int, ...], n_labels: int) -> bool:
    if len(shape) != 3:
        return len(shape) > 3
    # Comparing a size that an export leaves open would fix it.
    is_open = torch.compiler.is_exporting() and not isinstance(shape[1], int)
    return not is_open and shape[1] == n_labels


def digests(filter: OutputFilter) -> list[int]:
    """Hash the model's labels, and the destinations of those that are renamed, merged or split.

    No conversion of a module's floats changes these bytes.
    """
    content: list[object] = [filter.classes_in]
    if filter.has_destinations:
        merge = filter.outcome.merge
        arrays = () if merge is None else (merge.sources, merge.starts, merge.weights)
        content.append([filter.classes, *(array.tolist() for array in arrays)])
    hashes = [hashlib.sha256(json.dumps(each).encode()).digest() for each in content]
    return [*b"".join(hashes)]


def refuse_other_filters(
    module: Any, state: Mapping[str, Tensor], prefix: str, *more: object
) -> None:
    """Refuse the state of a filter with other labels: `classes` would be wrong."""
    given = {
        name: tensor.tolist()
        for name in ("labels", "order")
        if (tensor := state.get(prefix + name)) is not None and not tensor.is_meta
    }
    labels, removed = module.digests, module.removed_columns
    found = given.get("labels", labels)
    diagonal = state.get(prefix + "diagonal", module.diagonal)
    if found[:DIGEST_SIZE] != labels[:DIGEST_SIZE]:
        difference = f"is for other labels than {listing(module.classes_in)}, or in another order"
    elif given.get("order", removed)[: len(removed)] != removed:
        names = [module.classes_in[column] for column in removed]
        difference = f"removes other labels than {listing(names)}, or in another order"
    elif found != labels:
        difference = "sends labels to other destinations"
    elif len(diagonal) != len(module.diagonal):
        difference = "is of another method"
    elif "labels" in given and f"{prefix}order" not in state:
        difference = "was saved by another version of unlabel"
    else:
        return
    raise UnlabelError(f"The state {difference}: make the module from the same filter.")
