"""Probability rows filtered on a GPU by fused Triton kernels, at the speed of memory.

The same arithmetic as `unlabel.osr`, in float32. With few removed labels one kernel reads
a row once and writes it once. With many, two matrix products stand around a kernel that
follows each row's mixture weights.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Up to this many removed labels a row's residuals are found in the registers it lies in.
FEW = 4
WIDEST_TILE = 16384


@triton.jit
def _next_weights(own, weights, kept, kept_earlier, rho, weight, gone):
    """One step of `Chain.redistribute` on a tile of rows."""
    left = kept + tl.sum(kept_earlier, axis=1)
    bare = left == 0
    lost = bare & (gone | (own == 0))
    kept = tl.where(bare, 1.0, kept)
    left = tl.where(bare, 1.0, left)
    rho = tl.where(lost, 1.0, tl.minimum(tl.maximum(rho, 0.0), 1.0))
    to_share = rho * weight
    total = (1.0 - rho) + to_share
    scale = (1.0 - rho) / total
    own = kept / left * scale
    weights = kept_earlier / left[:, None] * scale[:, None]
    return own, weights, to_share / total


@triton.jit
def _few_kernel(
    rows_ptr,
    out_ptr,
    column_after_ptr,
    removed_ptr,
    residual_ptr,
    shares_ptr,
    weight_ptr,
    overlap_ptr,
    rest_ptr,
    n_rows,
    N: tl.constexpr,
    K: tl.constexpr,
    K_TILE: tl.constexpr,
    N_TILE: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, N_TILE)
    step = tl.arange(0, K_TILE)
    inside = (row[:, None] < n_rows) & (column[None, :] < N)
    x = tl.load(rows_ptr + row[:, None] * N + column[None, :], mask=inside, other=0.0).to(tl.float32)
    after = tl.load(column_after_ptr + column, mask=column < N, other=-1)
    retained = after >= 0
    kept_sum = tl.sum(tl.where(retained[None, :], x, 0.0), axis=1)

    own = tl.full((ROWS,), 1.0, tl.float32)
    weights = tl.zeros((ROWS, K_TILE), tl.float32)
    for s in tl.static_range(K):
        # The mass that this step leaves, summed up from the end: 1 - x loses digits.
        left_after = kept_sum
        for t in tl.static_range(K):
            if t > s:
                other = tl.load(removed_ptr + t)
                left_after += tl.sum(tl.where(column[None, :] == other, x, 0.0), axis=1)
        label = tl.load(removed_ptr + s)
        found = left_after + tl.sum(tl.where(column[None, :] == label, x, 0.0), axis=1)
        whole = tl.where(found == 0, 1.0, found)
        residual = tl.load(residual_ptr + s * N + column, mask=column < N, other=0.0)
        rho = own * tl.sum(x * residual[None, :], axis=1) / whole
        overlap = tl.load(overlap_ptr + s * K + step, mask=step < s, other=0.0)
        rest = tl.load(rest_ptr + s * K + step, mask=step < s, other=0.0)
        rho += tl.sum(weights * overlap[None, :], axis=1)
        own, weights, to_share = _next_weights(
            own,
            weights,
            own * (left_after / whole),
            weights * rest[None, :],
            rho,
            tl.load(weight_ptr + s),
            left_after == 0,
        )
        weights = tl.where(step[None, :] == s, to_share[:, None], weights)

    result = x * (own / tl.where(kept_sum == 0, 1.0, kept_sum))[:, None]
    for s in tl.static_range(K):
        share = tl.load(shares_ptr + s * N + column, mask=column < N, other=0.0)
        mixed = tl.sum(tl.where(step[None, :] == s, weights, 0.0), axis=1)
        result += mixed[:, None] * share[None, :]
    target = out_ptr + row[:, None] * (N - K) + after[None, :]
    tl.store(target, result.to(out_ptr.dtype.element_ty), mask=inside & retained[None, :])


@triton.jit
def _weights_kernel(
    rows_ptr,
    dots_ptr,
    left_ptr,
    own_ptr,
    weights_ptr,
    column_after_ptr,
    removed_ptr,
    weight_ptr,
    overlap_ptr,
    rest_ptr,
    n_rows,
    N,
    K,
    K_TILE: tl.constexpr,
    N_TILE: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n_rows
    step = tl.arange(0, K_TILE)
    kept_tile = tl.zeros((ROWS, N_TILE), tl.float32)
    for start in range(0, N, N_TILE):
        column = start + tl.arange(0, N_TILE)
        retained = tl.load(column_after_ptr + column, mask=column < N, other=-1) >= 0
        inside = there[:, None] & retained[None, :]
        x = tl.load(rows_ptr + row[:, None] * N + column[None, :], mask=inside, other=0.0)
        kept_tile += x.to(tl.float32)
    kept_sum = tl.sum(kept_tile, axis=1)

    # The mass that each step leaves, summed up from the end: 1 - x loses digits.
    left = kept_sum
    for back in range(0, K):
        s = K - 1 - back
        tl.store(left_ptr + row * K + s, left, mask=there)
        label = tl.load(removed_ptr + s)
        left += tl.load(rows_ptr + row * N + label, mask=there, other=0.0).to(tl.float32)

    own = tl.full((ROWS,), 1.0, tl.float32)
    weights = tl.zeros((ROWS, K_TILE), tl.float32)
    found = left
    for s in range(0, K):
        left_after = tl.load(left_ptr + row * K + s, mask=there, other=1.0)
        whole = tl.where(found == 0, 1.0, found)
        rho = own * tl.load(dots_ptr + row * K + s, mask=there, other=0.0) / whole
        overlap = tl.load(overlap_ptr + s * K + step, mask=step < s, other=0.0)
        rest = tl.load(rest_ptr + s * K + step, mask=step < s, other=0.0)
        rho += tl.sum(weights * overlap[None, :], axis=1)
        own, weights, to_share = _next_weights(
            own,
            weights,
            own * (left_after / whole),
            weights * rest[None, :],
            rho,
            tl.load(weight_ptr + s),
            left_after == 0,
        )
        weights = tl.where(step[None, :] == s, to_share[:, None], weights)
        found = left_after

    tl.store(own_ptr + row, own / tl.where(kept_sum == 0, 1.0, kept_sum), mask=there)
    target = weights_ptr + row[:, None] * K + step[None, :]
    tl.store(target, weights, mask=there[:, None] & (step[None, :] < K))


@triton.jit
def _mix_kernel(
    rows_ptr, own_ptr, shared_ptr, out_ptr, retained_ptr, n_rows, N, KEPT,
    N_TILE: tl.constexpr, ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n_rows
    own = tl.load(own_ptr + row, mask=there, other=0.0)
    for start in range(0, KEPT, N_TILE):
        column = start + tl.arange(0, N_TILE)
        inside = there[:, None] & (column[None, :] < KEPT)
        source = tl.load(retained_ptr + column, mask=column < KEPT, other=0)
        x = tl.load(rows_ptr + row[:, None] * N + source[None, :], mask=inside, other=0.0)
        at = row[:, None] * KEPT + column[None, :]
        shared = tl.load(shared_ptr + at, mask=inside, other=0.0)
        result = x.to(tl.float32) * own[:, None] + shared
        tl.store(out_ptr + at, result.to(out_ptr.dtype.element_ty), mask=inside)


class FusedArrays:
    """A filter's arrays on a GPU, as the kernels read them."""

    def __init__(self, chain: Any, device: torch.device) -> None:
        def to(array: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.as_tensor(array, dtype=dtype).contiguous().to(device)

        self.n, self.k = chain.residual.shape[1], len(chain.removed)
        after = torch.full((self.n,), -1, dtype=torch.int32)
        after[torch.as_tensor(chain.retained)] = torch.arange(self.n - self.k, dtype=torch.int32)
        self.column_after = after.to(device)
        self.removed = to(chain.removed, torch.int32)
        self.retained = to(chain.retained, torch.int32)
        self.residual = to(chain.residual)
        self.shares = to(chain.shares)
        self.weight = to(chain.weight)
        self.overlap = to(chain.overlap.T)
        self.rest = to(chain.rest.T)
        self.residual_columns = to(chain.residual.T)
        self.retained_shares = to(chain.shares[:, chain.retained])


def fused_apply(rows: torch.Tensor, arrays: FusedArrays, few_rows: int = 0, warps: int = 4) -> torch.Tensor:
    rows = rows.contiguous()
    n_rows, n, k = len(rows), arrays.n, arrays.k
    out = torch.empty((n_rows, n - k), dtype=rows.dtype, device=rows.device)
    tile = triton.next_power_of_2(n)
    if k <= FEW and tile <= WIDEST_TILE:
        size = few_rows or max(1, 2048 // tile)
        _few_kernel[(triton.cdiv(n_rows, size),)](
            rows, out, arrays.column_after, arrays.removed, arrays.residual, arrays.shares,
            arrays.weight, arrays.overlap, arrays.rest, n_rows,
            N=n, K=k, K_TILE=max(2, triton.next_power_of_2(k)), N_TILE=tile, ROWS=size, num_warps=warps,
        )
        return out
    dots = rows.float() @ arrays.residual_columns
    left = torch.empty_like(dots)
    own = torch.empty(n_rows, device=rows.device)
    k_tile = triton.next_power_of_2(k)
    size = few_rows or max(1, 2048 // k_tile)
    weights = dots  # each is read before it is written
    weights = torch.empty_like(dots)
    _weights_kernel[(triton.cdiv(n_rows, size),)](
        rows, dots, left, own, weights, arrays.column_after, arrays.removed, arrays.weight,
        arrays.overlap, arrays.rest, n_rows, n, k,
        K_TILE=k_tile, N_TILE=min(tile, 256), ROWS=size, num_warps=warps,
    )
    shared = weights @ arrays.retained_shares
    size = 8
    _mix_kernel[(triton.cdiv(n_rows, size),)](
        rows, own, shared, out, arrays.retained, n_rows, n, n - k, N_TILE=min(tile, 256), ROWS=size,
    )
    return out
