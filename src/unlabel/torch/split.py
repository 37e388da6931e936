"""What the filter's module does to tensors, in plain operators.

The mathematics is that of `unlabel._method.split`, written so that gradients stay finite and
nothing waits for the device: no value is ever looked at in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Minus infinity would turn gradients into NaN. This vanishes next to any logit, at any
# temperature, and can be added up without becoming infinite.
LOG_OF_ZERO = -1e30
# How far from 1 the sum of a row of probabilities may be: float16 and bfloat16 round.
SUM_TOLERANCE = 1e-2


class Parts(NamedTuple):
    """Rows taken apart along a chain of removals, as in `unlabel._method.split`."""

    masked: Tensor  # (..., n-k): the retained entries divided by their sum
    log_masked: Tensor
    removed: Tensor  # (..., k): the label's part of what its step still finds
    rest: Tensor  # (..., k): the other labels' part of it, 0 only where there is nothing


def split_probabilities(rows: Tensor, removed: Tensor, retained: Tensor) -> Parts:
    """Take probabilities apart; rows that are none become NaN."""
    kept, found = rows.index_select(-1, retained), rows.index_select(-1, removed)
    left = _added_from_the_end(found, kept.sum(-1), torch.add)
    nothing = left == 0
    whole = left.masked_fill(nothing, 1.0)
    masked = (kept / whole[..., -1:]).masked_fill(nothing[..., -1:], 1 / kept.shape[-1])
    off = (rows.sum(-1, keepdim=True) - 1).abs()
    valid = (rows >= 0).all(-1, keepdim=True) & (off <= SUM_TOLERANCE)
    return Parts(
        masked,
        log(masked).masked_fill(~valid, torch.nan),
        found / whole[..., :-1],
        _at_least_something(left[..., 1:] / whole[..., :-1], nothing[..., 1:]),
    )


def split_logits(rows: Tensor, removed: Tensor, retained: Tensor) -> Parts:
    """Take logits apart, in log space."""
    rows = rows.clamp(min=LOG_OF_ZERO)
    kept, found = rows.index_select(-1, retained), rows.index_select(-1, removed)
    # A sum of logarithms is rounded as its size says: it is kept small where it decides most.
    top = kept.detach().amax(-1, keepdim=True)
    top = top.masked_fill(top < LOG_OF_ZERO / 2, 0.0)
    kept, found = kept - top, found - top
    left = _added_from_the_end(found, kept.logsumexp(-1), torch.logaddexp)[..., 1:]
    lead = found - left  # log odds of the label against the labels after it
    log_masked = kept.log_softmax(-1)
    nothing = left < LOG_OF_ZERO / 2
    rest = _at_least_something((-lead).sigmoid(), nothing)
    return Parts(log_masked.exp(), log_masked, lead.sigmoid(), rest)


def _added_from_the_end(
    found: Tensor, total: Tensor, add: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """What each step finds of a row, and what the last one leaves: (..., k+1)."""
    # One minus what went before would lose all digits.
    sums = list(accumulate(reversed(found.unbind(-1)), add, initial=total))
    return torch.stack(sums[::-1], dim=-1)


def _at_least_something(rest: Tensor, nothing: Tensor) -> Tensor:
    """Keep what underflows apart from nothing, and far enough from 0 for its derivative."""
    least = torch.finfo(rest.dtype).tiny ** 0.5
    return rest.clamp(min=least).masked_fill(nothing, 0.0)


def log(values: Tensor) -> Tensor:
    """Give the logarithm, finite at 0 and with a finite derivative there."""
    # Filled twice: the logarithm of 0 must not be taken even where it is not used. And filled:
    # `torch.where` with a number would wait for the device.
    zero = values < torch.finfo(values.dtype).tiny
    return values.masked_fill(zero, 1.0).log().masked_fill(zero, LOG_OF_ZERO)


class _BoundedGradient(torch.autograd.Function):
    """The identity, with a derivative that stays finite over any number of steps.

    Where a step leaves 1e-19 of a row, the least bit handed to a share before it decides the
    result. Such derivatives multiply up to infinity, and infinity times 0 is NaN.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        bound = torch.finfo(gradient.dtype).max ** 0.2
        return gradient.clamp(-bound, bound)


def with_bounded_gradient(values: Tensor) -> Tensor:
    """Pass values on, and their gradients no larger than can be multiplied up."""
    bounded: Tensor = _BoundedGradient.apply(values) if torch.is_grad_enabled() else values
    return bounded
