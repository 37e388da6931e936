"""The recipe as one fused Triton kernel; only `unlabel.torch.operator` imports this.

A program takes a few rows, reads them once and writes them once, and computes in float32. With
few steps its rows walk through them together, and load each step's arrays once. With many, they
jump from one step that cannot be ruled out to the next, each with its own.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from math import prod

import torch
import triton
import triton.language as tl
from torch import Tensor

from unlabel._method.masses import SUM_TOLERANCE
from unlabel.torch.recipe import Recipe

# As in `unlabel._method.masses`, for float32: a mass up to NOTHING counts as none, and a lead over
# the retained labels up to LARGEST_LEAD.
NOTHING = tl.constexpr(1e-30)
LARGEST_LEAD = tl.constexpr(60.0)
# How far from 1 the sum of a row may be: any other row becomes NaN.
TOLERANCE = tl.constexpr(SUM_TOLERANCE)
# More than rounding takes of a sum: what is left of it then is less than the truth.
SPARE = tl.constexpr(1 - 2.0**-16)
LOG_OF_ZERO = tl.constexpr(-1e30)
MOST_GROUPS = 65535  # of a grid's second dimension


@triton.jit
def _take_step(
    removed,
    kept,
    total,
    at,
    has,
    weights,
    shares,
    diagonal,
    complement,
    share_sums,
    N: tl.constexpr,
    REMOVED: tl.constexpr,
):
    """Take the rows that have a residual through step `at`, which is each row's own or the same."""
    step, label = tl.arange(0, removed.shape[1]), tl.arange(0, kept.shape[1])
    is_step, is_label = (step < REMOVED)[None, :], (label < N - REMOVED)[None, :]
    steps = at[:, None] * N + step[None, :]
    labels = at[:, None] * N + REMOVED + label[None, :]
    weight = tl.load(weights + steps, mask=is_step, other=0.0)
    kept_weight = tl.load(weights + labels, mask=is_label, other=0.0)
    along = tl.sum(removed * weight, axis=1) + tl.sum(kept * kept_weight, axis=1)
    entry = tl.sum(tl.where(step[None, :] == at[:, None], removed, 0.0), axis=1)
    left = total + tl.sum(tl.where(step[None, :] > at[:, None], removed, 0.0), axis=1)
    some = left > NOTHING
    left = tl.where(some, left, 1.0)
    residual = tl.load(diagonal + at) * entry - along
    # The mass without the residual, added up: a subtraction would lose digits.
    remainder = tl.load(complement + at) * entry + left + along
    shared = residual * tl.load(share_sums + at)
    inverse = 1.0 / (remainder + shared)
    mixes = has & ((residual > 0) | (some == 0))
    own = tl.where(mixes, tl.where(some, remainder * inverse / left, 0.0), 1.0)[:, None]
    given = tl.where(mixes, tl.where(some, shared * inverse, 1.0), 0.0)[:, None]
    removed = own * removed + given * tl.load(shares + steps, mask=is_step, other=0.0)
    removed = tl.where(mixes[:, None] & (step[None, :] <= at[:, None]), 0.0, removed)
    kept = own * kept + given * tl.load(shares + labels, mask=is_label, other=0.0)
    return removed, kept, tl.sum(kept, axis=1)


@triton.jit
def _filter_kernel(
    rows_ptr,
    out_ptr,
    order_ptr,
    weights,
    shares,
    diagonal,
    complement,
    no_residual_below,
    share_sums,
    temperature_ptr,
    n_rows,
    group_stride,
    row_stride,
    label_stride,
    out_group_stride,
    out_row_stride,
    out_label_stride,
    lowest,
    N: tl.constexpr,
    REMOVED: tl.constexpr,
    STEPS: tl.constexpr,
    LOGITS: tl.constexpr,
    LOG_OUTPUT: tl.constexpr,
    IS_CALIBRATED: tl.constexpr,
    STEP_TILE: tl.constexpr,
    KEPT_TILE: tl.constexpr,
    ROWS: tl.constexpr,
    IS_WALKED: tl.constexpr,
):
    group = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = row < n_rows
    step, label = tl.arange(0, STEP_TILE), tl.arange(0, KEPT_TILE)
    is_step, is_label = step < REMOVED, label < N - REMOVED
    step_at = tl.load(order_ptr + step, mask=is_step, other=0).to(tl.int64)
    label_at = tl.load(order_ptr + REMOVED + label, mask=is_label, other=0).to(tl.int64)
    first = rows_ptr + group * group_stride + row * row_stride
    inside = there[:, None] & is_label[None, :]
    missing = float("-inf") if LOGITS else 0.0
    x = tl.load(first[:, None] + label_at[None, :] * label_stride, mask=inside, other=missing)
    x = x.to(tl.float32)
    removed = tl.load(
        first[:, None] + step_at[None, :] * label_stride,
        mask=there[:, None] & is_step[None, :],
        other=missing,
    ).to(tl.float32)
    valid = there
    if not LOGITS:
        whole = tl.sum(x, axis=1) + tl.sum(removed, axis=1)
        low = tl.minimum(tl.min(x, axis=1), tl.min(removed, axis=1))
        valid = (low >= 0) & (tl.abs(whole - 1.0) <= TOLERANCE)
    if IS_CALIBRATED:
        temperature = tl.load(temperature_ptr)
        if not LOGITS:
            x = tl.where(x > 0, tl.log(x), float("-inf"))
            removed = tl.where(removed > 0, tl.log(removed), float("-inf"))
        x /= temperature
        removed /= temperature
    if LOGITS or IS_CALIBRATED:
        # The retained labels have a scale of their own, which a softmax would not leave them.
        kept_top = tl.max(x, axis=1)
        top = tl.maximum(kept_top, tl.max(removed, axis=1))
        kept_top = tl.where(kept_top > float("-inf"), kept_top, 0.0)
        removed = tl.exp(removed - top[:, None])
        kept = tl.exp(x - kept_top[:, None])
        whole = tl.sum(kept, axis=1) + tl.sum(removed, axis=1)
        valid = valid & (top > float("-inf")) & (whole < float("inf"))
        kept *= tl.exp(tl.maximum(kept_top - top, -LARGEST_LEAD))[:, None]
    else:
        kept, kept_top = x, tl.zeros((ROWS,), tl.float32)
    total = tl.sum(kept, axis=1)
    done = tl.full((ROWS,), -1, tl.int32)
    if STEPS > 0 and IS_WALKED:
        for s in tl.static_range(STEPS):
            entry = tl.sum(tl.where(step[None, :] == s, removed, 0.0), axis=1)
            rest = total + tl.sum(tl.where(step[None, :] > s, removed, 0.0), axis=1)
            limit = tl.load(no_residual_below + s)
            has = (entry > limit * rest) | ((rest <= NOTHING) & (entry > 0))
            if tl.max(has.to(tl.int32), axis=0) > 0:
                at = tl.full((1,), s, tl.int32)
                # fmt: off
                removed, kept, total = _take_step(
                    removed, kept, total, at, has,
                    weights, shares, diagonal, complement, share_sums, N, REMOVED,
                )
                # fmt: on
                done = tl.where(has, s, done)
    elif STEPS > 0:
        limit = tl.load(no_residual_below + step, mask=step < STEPS, other=float("inf"))
        going = 1
        while going > 0:
            # What the labels after a step have at least: as a difference it may be off by rounding.
            sums = tl.cumsum(removed, axis=1, reverse=True)
            rest = total[:, None] + tl.maximum(sums * SPARE - removed, 0.0)
            may = (removed > limit[None, :] * rest) | ((rest <= NOTHING) & (removed > 0))
            may = may & (step[None, :] > done[:, None]) & (step[None, :] < STEPS)
            at = tl.min(tl.where(may, step[None, :], STEP_TILE), axis=1)
            has = at < STEP_TILE
            going = tl.max(has.to(tl.int32), axis=0)
            if going > 0:
                at = tl.where(has, at, 0)
                # fmt: off
                removed, kept, total = _take_step(
                    removed, kept, total, at, has,
                    weights, shares, diagonal, complement, share_sums, N, REMOVED,
                )
                # fmt: on
                done = tl.where(has, at, done)
    some = total > NOTHING
    kept = tl.where(some[:, None], kept, 1.0)
    total = tl.where(some, total, N - REMOVED)
    if LOG_OUTPUT:
        logs = tl.where(kept > 0, tl.log(kept), LOG_OF_ZERO)
        if LOGITS or IS_CALIBRATED:
            # Rows as they came have logarithms that no exponential has cut off.
            logs = tl.where((some & (done < 0))[:, None], x - kept_top[:, None], logs)
        logs = tl.where(is_label[None, :], logs, float("-inf"))
        logs -= tl.max(logs, axis=1)[:, None]
        total = tl.sum(tl.exp(logs), axis=1)
        result = tl.maximum(logs - tl.log(total)[:, None], lowest)
    else:
        result = kept * (1.0 / total)[:, None]
    result = tl.where(valid[:, None], result, float("nan"))
    target = out_ptr + group * out_group_stride + row * out_row_stride
    tl.store(
        target[:, None] + label[None, :] * out_label_stride,
        result.to(out_ptr.dtype.element_ty),
        mask=inside,
    )


def filter_rows(rows: Tensor, recipe: Recipe, dim: int, logits: bool, log_output: bool) -> Tensor:
    """Filter a contiguous tensor whose labels lie along `dim`, by a recipe without a merge."""
    n, steps, n_retained = len(recipe.order), len(recipe.diagonal), recipe.n_retained
    dim %= rows.ndim
    before, after = prod(rows.shape[:dim]), prod(rows.shape[dim + 1 :])
    if after == 1:  # the labels lie side by side
        groups, n_rows, stride = 1, before, n
    else:
        groups, n_rows, stride = before, after, 1
    if groups > MOST_GROUPS:
        moved = rows.movedim(dim, -1).contiguous()
        return filter_rows(moved, recipe, -1, logits, log_output).movedim(-1, dim).contiguous()
    out = rows.new_empty((*rows.shape[:dim], n_retained, *rows.shape[dim + 1 :]))
    if out.numel() == 0:
        return out
    step_tile = triton.next_power_of_2(max(n - n_retained, 1))
    kept_tile = triton.next_power_of_2(n_retained)
    is_walked, rows_each = _tiling(step_tile + kept_tile, steps, after > 1)
    weights, shares = recipe.residual_weights.float(), recipe.shares.float()
    numbers = (recipe.diagonal, recipe.complement, recipe.no_residual_below, recipe.share_sums)
    _filter_kernel[triton.cdiv(n_rows, rows_each), groups](
        rows,
        out,
        recipe.order,
        weights,
        shares,
        *torch.stack(numbers).float(),
        recipe.temperature.float() if recipe.is_calibrated else None,
        n_rows,
        n * after,
        stride,
        after,
        n_retained * after,
        n_retained if after == 1 else 1,
        after,
        torch.finfo(rows.dtype).min,
        N=n,
        REMOVED=n - n_retained,
        STEPS=steps,
        LOGITS=logits,
        LOG_OUTPUT=log_output,
        IS_CALIBRATED=recipe.is_calibrated,
        STEP_TILE=step_tile,
        KEPT_TILE=kept_tile,
        ROWS=rows_each,
        IS_WALKED=is_walked,
        num_warps=1,
    )
    return out


def _tiling(entries: int, steps: int, is_strided: bool) -> tuple[bool, int]:
    """Choose whether to walk through the steps, and how many rows a program of one warp takes.

    `benchmarks/speed_gpu.py` measures what these were chosen by.
    """
    is_walked = steps <= 4 or entries <= 32
    if is_strided and steps > 1:
        return is_walked, 8
    rows = max(1, (1088 if is_walked else 512) // entries)
    return is_walked, 1 << (rows.bit_length() - 1)
