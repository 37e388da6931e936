"""Probability rows on a GPU, filtered by fused kernels behind one PyTorch operator."""

# No postponed annotations: PyTorch reads an operator's types.
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# The kernels subtract a residual from 1. What is left of 1 is at least the part of a label's own
# entry that goes along its mean: below this, a millionth of it would be lost in float32.
LEAST_ALONG = 2**-4


def is_available() -> bool:
    """Whether Triton, which compiles the kernels, came with PyTorch."""
    return find_spec("triton") is not None


def takes(rows: Tensor) -> bool:
    """Whether the kernels filter such rows: on a GPU, up to float32, and without a gradient."""
    # What is exported runs without unlabel. Some versions call it exporting when they compile.
    is_exporting = torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()
    return (
        rows.is_cuda
        and rows.dtype in DTYPES
        and not (rows.requires_grad and torch.is_grad_enabled())
        and not is_exporting
    )


@torch.library.custom_op("unlabel::redistribute", mutates_args=(), device_types="cuda")
def redistribute(
    rows: Tensor,
    removed: Tensor,
    retained: Tensor,
    column_after: Tensor,
    residual: Tensor,
    shares: Tensor,
    weight: Tensor,
    overlap: Tensor,
    rest: Tensor,
) -> Tensor:
    """Filter probabilities of shape (N, n) on the device they are on.

    `column_after` says which column of the result a label has, -1 if none. The arrays are
    those of `unlabel._method.chain.Chain`; the shares are those over the retained labels alone,
    overlap and rest have a row a step and a column a share.
    """
    from unlabel.torch import kernels

    with torch.cuda.device(rows.device):
        return kernels.redistribute(
            rows.contiguous(),
            removed,
            retained,
            column_after,
            residual,
            shares,
            weight,
            overlap,
            rest,
        )


@redistribute.register_fake
def _(rows: Tensor, removed: Tensor, retained: Tensor, *arrays: Tensor) -> Tensor:
    return rows.new_empty((len(rows), len(retained)))


@redistribute.register_vmap
def _(info: Any, batched_at: tuple[int | None, ...], rows: Tensor, *arrays: Tensor) -> Any:
    at = batched_at[0]
    assert at is not None  # noqa: S101  # nobody maps over a filter's arrays
    rows = rows.movedim(at, 0)
    result = redistribute(rows.flatten(0, 1), *arrays)
    return result.unflatten(0, rows.shape[:2]), 0
