"""Probability rows filtered by fused Triton kernels; only `unlabel.torch.fused` imports this.

The same arithmetic as `unlabel._method.chain`, in float32. With few removed labels one kernel reads
a row once and writes it once. With many, two matrix products stand around a kernel that
follows each row's mixture weights.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import torch
import triton
import triton.language as tl

# Up to this many removed labels a row's residuals are found in the registers it lies in.
FEW = 4
WIDEST_TILE = 16384
# Less than this is nothing: its inverse would not be finite in float32.
NOTHING = tl.constexpr(1e-35)
LIFT = tl.constexpr(2.0**100)
# How far from 1 the sum of a row may be: any other row comes out as NaN.
TOLERANCE = tl.constexpr(1e-2)


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
    there = row < n_rows
    first = rows_ptr + row * N
    inside = there[:, None] & (column[None, :] < N)
    x = tl.load(first[:, None] + column[None, :], mask=inside, other=0.0).to(tl.float32)
    after = tl.load(column_after_ptr + column, mask=column < N, other=-1)
    retained = after >= 0
    kept_sum = tl.sum(tl.where(retained[None, :], x, 0.0), axis=1)
    lowest = tl.min(x, axis=1)

    own = tl.full((ROWS,), 1.0, tl.float32)
    weights = tl.zeros((ROWS, K_TILE), tl.float32)
    for s in tl.static_range(K):
        # The mass that this step leaves, summed up from the end: 1 - x loses digits.
        left_after = kept_sum
        for t in tl.static_range(K - 1, s, -1):
            left_after += tl.load(first + tl.load(removed_ptr + t), mask=there, other=0.0)
        found = left_after + tl.load(first + tl.load(removed_ptr + s), mask=there, other=0.0)
        if s == 0:
            valid = (lowest >= 0) & (tl.abs(found - 1.0) <= TOLERANCE)
        whole = tl.where(found == 0, 1.0, found)
        residual = tl.load(residual_ptr + s * N + column, mask=column < N, other=0.0)
        rho = own * tl.sum(x * residual[None, :], axis=1) / whole
        if s > 0:
            overlap = tl.load(overlap_ptr + s * K + step, mask=step < s, other=0.0)
            rest = tl.load(rest_ptr + s * K + step, mask=step < s, other=0.0)
            rho += tl.sum(weights * overlap[None, :], axis=1)
            weights *= rest[None, :]
        kept = own * (left_after / whole)
        left = kept + tl.sum(weights, axis=1)
        bare = left < NOTHING
        lost = bare & ((left_after == 0) | (own == 0))
        kept = tl.where(bare, 1.0, kept)
        left = tl.where(bare, 1.0, left)
        rho = tl.where(lost, 1.0, tl.minimum(tl.maximum(rho, 0.0), 1.0))
        to_share = rho * tl.load(weight_ptr + s)
        total = (1.0 - rho) + to_share
        scale = (1.0 - rho) / (total * left)
        own = kept * scale
        weights = tl.where(
            step[None, :] == s, (to_share / total)[:, None], weights * scale[:, None]
        )

    # The inverse of a subnormal sum would not be finite.
    lift = tl.where(kept_sum < NOTHING, LIFT, 1.0)
    factor = own / tl.where(kept_sum == 0, 1.0, kept_sum * lift)
    factor = tl.where(valid, factor, float("nan"))
    result = x * lift[:, None] * factor[:, None]
    for s in tl.static_range(K):
        share = tl.load(shares_ptr + s * (N - K) + after, mask=retained, other=0.0)
        mixed = tl.sum(tl.where(step[None, :] == s, weights, 0.0), axis=1)
        result += mixed[:, None] * share[None, :]
    target = out_ptr + row[:, None] * (N - K) + after[None, :]
    tl.store(target, result.to(out_ptr.dtype.element_ty), mask=inside & retained[None, :])


@triton.jit
def _weights_kernel(
    rows_ptr,
    dots_ptr,
    own_ptr,
    kept_ptr,
    weights_ptr,
    column_after_ptr,
    removed_ptr,
    weight_ptr,
    overlap_ptr,
    rest_ptr,
    N,
    K,
    K_TILE: tl.constexpr,
    N_TILE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    kept_tile = tl.zeros((N_TILE,), tl.float32)
    low_tile = tl.zeros((N_TILE,), tl.float32)
    for start in range(0, N, N_TILE):
        column = start + tl.arange(0, N_TILE)
        retained = tl.load(column_after_ptr + column, mask=column < N, other=-1) >= 0
        x = tl.load(rows_ptr + row * N + column, mask=retained, other=0.0)
        kept_tile += x.to(tl.float32)
        low_tile = tl.minimum(low_tile, x.to(tl.float32))
    kept_sum = tl.sum(kept_tile, axis=0)

    step = tl.arange(0, K_TILE)
    there = step < K
    label = tl.load(removed_ptr + step, mask=there, other=0)
    found = tl.load(rows_ptr + row * N + label, mask=there, other=0.0).to(tl.float32)
    next_label = tl.load(removed_ptr + step + 1, mask=step + 1 < K, other=0)
    next_found = tl.load(rows_ptr + row * N + next_label, mask=step + 1 < K, other=0.0)
    # The mass that each step leaves, summed up from the end: 1 - x loses digits.
    left = kept_sum + tl.cumsum(next_found.to(tl.float32), axis=0, reverse=True)
    whole = left + found
    total_mass = tl.sum(tl.where(step == 0, whole, 0.0), axis=0)
    lowest = tl.minimum(tl.min(low_tile, axis=0), tl.min(found, axis=0))
    valid = (lowest >= 0) & (tl.abs(total_mass - 1.0) <= TOLERANCE)
    whole = tl.where(whole == 0, 1.0, whole)
    rest_of_input = left / whole
    residual = tl.load(dots_ptr + row * K + step, mask=there, other=0.0) / whole
    gone = tl.where(there & (left == 0), 1.0, 0.0)

    own = 1.0
    weights = tl.zeros((K_TILE,), tl.float32)
    # Up to the first residual the row stays what it was, and most rows have none.
    first = tl.min(tl.where(there & ((residual > 0) | (gone > 0)), step, K), axis=0)
    for s in range(first, K):
        now = step == s
        overlap = tl.load(overlap_ptr + s * K + step, mask=step < s, other=0.0)
        rest = tl.load(rest_ptr + s * K + step, mask=step < s, other=0.0)
        rho = own * tl.sum(tl.where(now, residual, 0.0), axis=0)
        rho += tl.sum(weights * overlap, axis=0)
        kept = own * tl.sum(tl.where(now, rest_of_input, 0.0), axis=0)
        weights *= rest
        left_now = kept + tl.sum(weights, axis=0)
        bare = left_now < NOTHING
        lost = bare & ((tl.sum(tl.where(now, gone, 0.0), axis=0) > 0) | (own == 0))
        kept = tl.where(bare, 1.0, kept)
        left_now = tl.where(bare, 1.0, left_now)
        rho = tl.where(lost, 1.0, tl.minimum(tl.maximum(rho, 0.0), 1.0))
        to_share = rho * tl.load(weight_ptr + s)
        total = (1.0 - rho) + to_share
        scale = (1.0 - rho) / (total * left_now)
        own = kept * scale
        weights = tl.where(now, to_share / total, weights * scale)

    tl.store(own_ptr + row, tl.where(valid, own, float("nan")))
    tl.store(kept_ptr + row, tl.where(kept_sum == 0, 1.0, kept_sum))
    tl.store(weights_ptr + row * K + step, weights, mask=there)


@triton.jit
def _mix_kernel(
    rows_ptr,
    own_ptr,
    kept_ptr,
    shared_ptr,
    out_ptr,
    retained_ptr,
    n_rows,
    N,
    KEPT,
    N_TILE: tl.constexpr,
    ROWS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n_rows
    own = tl.load(own_ptr + row, mask=there, other=0.0)
    kept = tl.load(kept_ptr + row, mask=there, other=1.0)
    for start in range(0, KEPT, N_TILE):
        column = start + tl.arange(0, N_TILE)
        inside = there[:, None] & (column[None, :] < KEPT)
        source = tl.load(retained_ptr + column, mask=column < KEPT, other=0)
        x = tl.load(rows_ptr + row[:, None] * N + source[None, :], mask=inside, other=0.0)
        at = row[:, None] * KEPT + column[None, :]
        shared = tl.load(shared_ptr + at, mask=inside, other=0.0)
        result = x.to(tl.float32) / kept[:, None] * own[:, None] + shared
        tl.store(out_ptr + at, result.to(out_ptr.dtype.element_ty), mask=inside)


def redistribute(
    rows: torch.Tensor,
    removed: torch.Tensor,
    retained: torch.Tensor,
    column_after: torch.Tensor,
    residual: torch.Tensor,
    shares: torch.Tensor,
    weight: torch.Tensor,
    overlap: torch.Tensor,
    rest: torch.Tensor,
) -> torch.Tensor:
    """Filter contiguous rows; the arguments are those of `unlabel.torch.fused.redistribute`."""
    (k, n), n_rows = residual.shape, len(rows)
    out = rows.new_empty((n_rows, n - k))
    if n_rows == 0:
        return out
    tile = triton.next_power_of_2(n)
    if k <= FEW and tile <= WIDEST_TILE:
        size = max(4, 512 // tile) if tile <= 1024 else max(1, 4096 // tile)
        _few_kernel[(triton.cdiv(n_rows, size),)](
            rows,
            out,
            column_after,
            removed,
            residual,
            shares,
            weight,
            overlap,
            rest,
            n_rows,
            N=n,
            K=k,
            K_TILE=max(2, triton.next_power_of_2(k)),
            N_TILE=tile,
            ROWS=size,
            num_warps=min(8, max(1, size * tile // 2048)),
        )
        return out
    dots = rows.float() @ residual.T
    own, kept = torch.empty((2, n_rows), device=rows.device)
    weights = torch.empty_like(dots)
    _weights_kernel[(n_rows,)](
        rows,
        dots,
        own,
        kept,
        weights,
        column_after,
        removed,
        weight,
        overlap,
        rest,
        n,
        k,
        K_TILE=triton.next_power_of_2(k),
        N_TILE=min(tile, 256),
        num_warps=1,
    )
    shared = weights @ shares
    size = 8
    _mix_kernel[(triton.cdiv(n_rows, size),)](
        rows,
        own,
        kept,
        shared,
        out,
        retained,
        n_rows,
        n,
        n - k,
        N_TILE=min(tile, 256),
        ROWS=size,
    )
    return out
