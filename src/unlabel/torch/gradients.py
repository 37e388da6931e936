"""Gradients that stay finite where a filter's own are not, and the sizes that this takes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unlabel._method import split

# Minus infinity would turn gradients into NaN. This vanishes next to any logit, at any
# temperature, and can be added up without becoming infinite.
LOG_OF_ZERO = -1e30


class Limits(NamedTuple):
    """What a type of floats can hold. The gradient divided by the least mass must be finite."""

    nothing: float  # masses up to this count as none
    log_least: (
        float  # as do sums of allowed masses with logarithms up to this, which NumPy rounds to 0
    )
    lead: float  # logits of retained labels count as at most this far below the others
    gradient: float


LIMITS = {
    torch.float32: Limits(1e-28, -103.97, 60.0, 1e7),
    torch.float64: Limits(split.NOTHING, math.log(split.NOTHING), split.LARGEST_LEAD, 1e15),
}


def log(values: Tensor) -> Tensor:
    """Give the logarithm, finite where there is nothing and with a finite derivative there."""
    # Filled twice: the logarithm of 0 must not be taken even where it is not used. And filled:
    # `torch.where` with a number would wait for the device.
    nothing = values <= LIMITS[values.dtype].nothing
    return values.masked_fill(nothing, 1.0).log().masked_fill(nothing, LOG_OF_ZERO)


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
        bound = LIMITS[gradient.dtype].gradient
        return gradient.clamp(-bound, bound)


def with_bounded_gradient(values: Tensor) -> Tensor:
    """Pass values on, and their gradients no larger than can be multiplied up."""
    bounded: Tensor = _BoundedGradient.apply(values) if torch.is_grad_enabled() else values
    return bounded
