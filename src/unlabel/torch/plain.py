"""The recipe in plain PyTorch operators, on any device, for gradients and for exports.

The mathematics is that of the core's recipe. A row is followed as two parts: its own masses,
divided by the sum of what the next step finds of them, in some weight, and the shares handed out so
far. So no gradient is lost where a step leaves next to nothing, and the logarithm of the result
comes from that of the row.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unlabel._method.masses import LARGEST_LEAD, NOTHING, SUM_TOLERANCE
from unlabel.torch.recipe import STEPS, Recipe

# Minus infinity would turn gradients into NaN. This vanishes next to any logit, at any
# temperature, and can be added up without becoming infinite.
LOG_OF_ZERO = -1e30


class Limits(NamedTuple):
    """What a type of floats can hold. The gradient divided by the least mass must be finite."""

    nothing: float  # masses up to this count as none
    log_least: float  # so do allowed masses up to this together, which NumPy rounds to 0
    lead: float  # logits of retained labels count as at most this far below the others


LIMITS = {
    torch.float32: Limits(1e-28, -103.97, 60.0),
    torch.float64: Limits(NOTHING, math.log(NOTHING), LARGEST_LEAD),
}


class Masses(NamedTuple):
    """Rows as positive masses in the recipe's order, on a scale of their own."""

    entries: Tensor  # (..., n)
    log_retained: Tensor  # (..., m): of the retained masses divided by their sum
    is_valid: Tensor  # (..., 1)


def filter_rows(
    rows: Tensor,
    recipe: Recipe,
    dim: int,
    logits: bool,
    log_output: bool,
    allow: Tensor | None = None,
) -> Tensor:
    """Filter the dimension `dim` of a tensor, counted from the end."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    with _without_autocast(rows.device.type):
        given = rows.movedim(dim, -1).to(dtype)
        if recipe.is_calibrated:
            given, logits = calibrated(given, recipe.temperature, logits), True
        given = given.index_select(-1, recipe.order)
        masses = (_of_logits if logits else _of_probabilities)(given, recipe.n_retained)
        steps = {name: getattr(recipe, name).to(dtype) for name in STEPS}
        logs = _walk(recipe._replace(**steps), masses)
        logs = logs.masked_fill(~masses.is_valid, torch.nan)
        allow = None if allow is None else allow.movedim(dim, -1)
        return finish(logs, recipe, log_output, rows.dtype, allow).movedim(-1, dim).contiguous()


def calibrated(rows: Tensor, temperature: Tensor, logits: bool) -> Tensor:
    """Return logits of rows along the last dimension, at a temperature; NaN for invalid rows."""
    if not logits:
        nothing = rows <= NOTHING  # of float32 only 0 is
        logs = rows.masked_fill(nothing, 1.0).log().masked_fill(nothing, -torch.inf)
        rows = logs.masked_fill(~are_probabilities(rows), torch.nan)
    return rows / temperature.to(rows.dtype)


def are_probabilities(rows: Tensor) -> Tensor:
    """Whether rows along the last dimension are probabilities: the core's rule, in their type."""
    off = (rows.sum(-1, keepdim=True) - 1).abs()
    return (rows >= 0).all(-1, keepdim=True) & (off <= SUM_TOLERANCE)


def finish(
    logs: Tensor, recipe: Recipe, log_output: bool, dtype: torch.dtype, allow: Tensor | None
) -> Tensor:
    """Turn logarithms over the retained labels into the result."""
    if recipe.groups:
        logs = _added_up(logs, recipe)
    if allow is not None:
        logs = _restricted(logs, allow)
    if log_output:
        return logs.log_softmax(-1).clamp(min=torch.finfo(dtype).min).to(dtype)
    return logs.softmax(-1).to(dtype)


def _added_up(logs: Tensor, recipe: Recipe) -> Tensor:
    """Turn logarithms of probabilities into those of their sums, each with its own maximum."""
    log_weights = recipe.weights.to(logs.dtype).log()
    columns, log_weights = (x[recipe.by_size] for x in (recipe.sources, log_weights))
    taken = logs.index_select(-1, columns) + log_weights
    slices = taken.split([number * size for number, size in recipe.groups], -1)
    sums = [
        part if shape[1] == 1 else part.unflatten(-1, shape).logsumexp(-1)
        for part, shape in zip(slices, recipe.groups, strict=True)
    ]
    return torch.cat(sums, -1).index_select(-1, recipe.places)


def _restricted(logs: Tensor, allow: Tensor) -> Tensor:
    """Leave rows only their allowed labels, all the same if these have nothing."""
    logs = logs.log_softmax(-1)
    is_lost = logs[..., :1].isnan() | ~allow.any(-1, keepdim=True)
    logs = logs.masked_fill(~allow, -torch.inf)
    total = logs.detach().logsumexp(-1, keepdim=True)
    logs = logs.masked_fill(allow & (total <= LIMITS[logs.dtype].log_least), 0.0)
    return logs.masked_fill(is_lost, torch.nan)


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    """Keep autocast from computing in half precision; it does not know meta devices."""
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


def _of_probabilities(rows: Tensor, n_retained: int) -> Masses:
    """Take probabilities as masses."""
    least = LIMITS[rows.dtype].nothing
    retained = rows[..., -n_retained:]
    retained = retained.masked_fill(retained <= least, 0.0)
    total = retained.sum(-1, keepdim=True)
    nothing = total <= least
    log_retained = _log(retained / total.masked_fill(nothing, 1.0)).masked_fill(nothing, 0.0)
    return Masses(rows, log_retained, are_probabilities(rows))


def _of_logits(rows: Tensor, n_retained: int) -> Masses:
    """Take logits as the logarithms of masses; no result depends on these masses' scale."""
    highest = rows.detach().amax(-1, keepdim=True)
    is_valid = highest.isfinite()
    # Only rows that are all this low may be shifted: in others it would cost digits.
    is_low = is_valid & (highest < LOG_OF_ZERO / 4)
    rows = (rows - highest.masked_fill(~is_low, 0.0)).clamp(min=LOG_OF_ZERO)
    removed, retained = rows[..., :-n_retained], rows[..., -n_retained:]
    top = rows.detach().amax(-1, keepdim=True)
    low = retained.detach().amax(-1, keepdim=True)
    low = torch.where(low < LOG_OF_ZERO / 2, top, low)
    # Retained labels have a scale of their own: a softmax would lose those that are far below a
    # removed label.
    scale = (low - top).clamp(min=-LIMITS[rows.dtype].lead).exp()
    entries = torch.cat([(removed - top).exp(), (retained - low).exp() * scale], -1)
    return Masses(entries, retained.log_softmax(-1), is_valid)


def _walk(recipe: Recipe, masses: Masses) -> Tensor:
    """Take rows along all steps, and return logarithms of the result, up to a constant per row."""
    entries, k = masses.entries, len(recipe.diagonal)
    if k == 0:
        return masses.log_retained
    total = entries[..., k:].sum(-1, keepdim=True)
    # What each step finds of rows and what the last leaves, added up: 1 - x would lose digits.
    sums = torch.cat([entries[..., :k], total], -1).flip(-1).cumsum(-1).flip(-1).split(1, -1)
    own, shared = torch.ones_like(total), torch.zeros_like(entries)
    for step in range(k):
        found = own * _over(entries[..., step:], sums[step]) + shared
        label, others = found[..., :1], found[..., 1:]
        rest = others.sum(-1, keepdim=True)
        nothing = rest <= LIMITS[rest.dtype].nothing
        along = (others * recipe.residual_weights[step, step + 1 :]).sum(-1, keepdim=True)
        residual = (recipe.diagonal[step] * label - along).clamp(min=0.0) * recipe.share_sums[step]
        # The mass without the residual, added up: a subtraction would lose digits.
        remainder = recipe.complement[step] * label + rest + along
        mass = remainder + residual
        kept = (remainder / mass).masked_fill(nothing, 0.0)
        given = (residual / mass).masked_fill(nothing, 1.0)
        rest = rest.masked_fill(nothing, 1.0)
        own = kept * (own * _over(sums[step + 1], sums[step]) / rest)
        shared = kept * (shared[..., 1:] / rest) + given * recipe.shares[step, step + 1 :]
    return torch.logaddexp(_log(own) + masses.log_retained, _log(shared))


def _over(part: Tensor, whole: Tensor) -> Tensor:
    return part / whole.masked_fill(whole <= LIMITS[whole.dtype].nothing, 1.0)


def _log(values: Tensor) -> Tensor:
    """Return the logarithm, finite where there is nothing and with a finite derivative there."""
    # Filled twice: the logarithm of 0 must not be taken even where it is not used. And filled:
    # `torch.where` with a number would wait for the device.
    nothing = values <= LIMITS[values.dtype].nothing
    return values.masked_fill(nothing, 1.0).log().masked_fill(nothing, LOG_OF_ZERO)
