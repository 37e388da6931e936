"""Validation of the tensors and the states that a filter's module is given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, outcome_of_filter

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


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
            f"{at} must be that of the labels, or name another",
            argument="dim",
        )


def check_allow(allow: Tensor, result: tuple[int, ...], dim: int) -> None:
    """Require booleans that broadcast to the shape of the result, with its labels along `dim`."""
    if not isinstance(allow, Tensor) or allow.dtype != torch.bool:
        kind = getattr(allow, "dtype", type(allow).__name__)
        problem = f"The allowed labels are {kind}: give a boolean tensor"
        raise UnlabelError(problem, argument="allow")
    shape = tuple(allow.shape)
    has_labels = -dim <= len(shape) <= len(result) and shape[dim] == result[dim]
    # From the end, where dimensions that `allow` does not have are left.
    sizes = zip(shape[::-1], result[::-1], strict=False)
    if not has_labels or not all(size == 1 or size == whole for size, whole in sizes):
        raise UnlabelError(
            f"The allowed labels have the shape {shape} and the result has {result}: give a shape "
            f"that broadcasts to it, with the {result[dim]} labels along dimension {dim}",
            argument="allow",
        )


def which_dimension(shape: tuple[int, ...], n_labels: int) -> UnlabelError:
    """Return the error for a shape that leaves open which dimension is that of the labels."""
    return UnlabelError(
        f"The confidences have the shape {shape}: name the dimension of the {n_labels} labels, "
        "1 for (N, C, ...) or -1 for (N, ..., C)",
        argument="dim",
    )


def _is_ambiguous(shape: tuple[int, ...], n_labels: int) -> bool:
    if len(shape) != 3:
        return len(shape) > 3
    # Comparing a size that an export leaves open would fix it.
    is_open = torch.compiler.is_exporting() and not isinstance(shape[1], int)
    return not is_open and shape[1] == n_labels


def digest_of(filter: OutputFilter) -> list[int]:
    """Hash the model's labels and what becomes of them.

    No conversion of a module's floats changes these bytes.
    """
    outcome = outcome_of_filter(filter)
    content = [filter.method, filter.classes_in, filter.classes_out, outcome.removed.tolist()]
    if merge := outcome.merge:
        content += [merge.sources.tolist(), merge.starts.tolist(), merge.weights.tolist()]
    return [*hashlib.sha256(json.dumps(content).encode()).digest()]


def refuse_other_filters(module: Any, state: Mapping[str, Tensor], prefix: str, *_: object) -> None:
    """Refuse the state of a filter with other labels: `classes_out` would be wrong."""
    labels = state.get(prefix + "labels")
    if labels is None or labels.is_meta or labels.tolist() == module.digest:
        return
    raise UnlabelError(
        "The state is of a filter that changes other labels, or in another way: make the module "
        "from the same filter."
    )
