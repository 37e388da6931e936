"""The recipe executed in plain PyTorch operators, on any device and with gradients.

The mathematics is that of `unlabel._method.chain`. A row is followed as two parts: its own masses,
divided by the sum of what the next step finds of them, in some weight, and the shares handed out so
far. So no gradient is lost where a step leaves next to nothing, and the logarithm of the result
comes from that of the row.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unlabel._method.chain import mixing
from unlabel.torch.gradients import LIMITS, LOG_OF_ZERO, log, with_bounded_gradient
from unlabel.torch.merge import Merge

# How far from 1 the sum of a row of probabilities may be: float16 and bfloat16 round.
SUM_TOLERANCE = 1e-2


class Recipe(NamedTuple):
    """A filter's recipe as tensors, with the number of retained labels and what comes after it."""

    n_retained: int
    order: Tensor
    pulls: Tensor
    shares: Tensor
    numbers: Tensor
    temperature: Tensor | None = None  # 1
    merge: Merge | None = None

    @property
    def n_results(self) -> int:
        """The number of the result's labels."""
        return self.n_retained if self.merge is None else len(self.merge.starts)


class Masses(NamedTuple):
    """Rows as positive masses in the recipe's order, as in `unlabel._method.split`."""

    entries: Tensor  # (..., n)
    log_retained: Tensor  # (..., m): of the retained masses divided by their sum
    is_valid: Tensor  # (..., 1)


Driver = Callable[[Recipe, Masses], Tensor]


def filter_rows(
    rows: Tensor,
    recipe: Recipe,
    dim: int,
    logits: bool,
    log_output: bool,
    follow: Driver,
    allow: Tensor | None = None,
    absolute: bool = False,
) -> Tensor:
    """Filter a dimension of a tensor. `follow` is `jump`, or `walk` where no value may be seen."""
    dtype = torch.promote_types(rows.dtype, torch.float32)
    with _without_autocast(rows.device.type):
        given = rows.movedim(dim, -1).to(dtype).index_select(-1, recipe.order)
        floats = ("pulls", "shares", "numbers")
        recipe = recipe._replace(**{name: getattr(recipe, name).to(dtype) for name in floats})
        masses = (of_logits if logits else of_probabilities)(given, recipe.n_retained)
        logs = follow(recipe, masses) if len(recipe.pulls) else masses.log_retained
        logs = logs.masked_fill(~masses.is_valid, torch.nan)
        allow = None if allow is None else allow.movedim(dim, -1)
        result = finish(logs, recipe, log_output, rows.dtype, allow, absolute)
        return result.movedim(-1, dim).contiguous()


def finish(
    logs: Tensor,
    recipe: Recipe,
    log_output: bool,
    dtype: torch.dtype,
    allow: Tensor | None = None,
    absolute: bool = False,
) -> Tensor:
    """Turn logarithms over the retained labels into the result."""
    if recipe.merge is not None:
        logs = recipe.merge.add_up(logs)
    if recipe.temperature is not None:
        logs = logs / recipe.temperature.to(logs.dtype)
    if allow is not None:
        logs = _restricted(logs, allow, absolute)
    if log_output:
        logs = logs if absolute else logs.log_softmax(-1)
        return logs.clamp(min=torch.finfo(dtype).min).to(dtype)
    return (logs.exp() if absolute else logs.softmax(-1)).to(dtype)


def _restricted(logs: Tensor, allow: Tensor, absolute: bool) -> Tensor:
    """Leave rows only their allowed labels, all the same if these have nothing."""
    logs = logs.log_softmax(-1)
    is_lost = logs[..., :1].isnan() | ~allow.any(-1, keepdim=True)
    logs = logs.masked_fill(~allow, -torch.inf)
    if not absolute:
        total = logs.detach().logsumexp(-1, keepdim=True)
        logs = logs.masked_fill(allow & (total <= LIMITS[logs.dtype].log_least), 0.0)
    return logs.masked_fill(is_lost, torch.nan)


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    """Keep autocast from computing products in half precision; it does not know meta devices."""
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


def of_probabilities(rows: Tensor, n_retained: int) -> Masses:
    """Take probabilities as masses."""
    least = LIMITS[rows.dtype].nothing
    retained = rows[..., -n_retained:]
    retained = retained.masked_fill(retained <= least, 0.0)
    total = retained.sum(-1, keepdim=True)
    nothing = total <= least
    log_retained = log(retained / total.masked_fill(nothing, 1.0)).masked_fill(nothing, 0.0)
    return Masses(rows, log_retained, are_probabilities(rows, -1))


def are_probabilities(rows: Tensor, dim: int) -> Tensor:
    """Tell which rows are probabilities, as far as half precision allows."""
    off = (rows.sum(dim, keepdim=True) - 1).abs()
    return (rows >= 0).all(dim, keepdim=True) & (off <= SUM_TOLERANCE)


def of_logits(rows: Tensor, n_retained: int) -> Masses:
    """Take logits as the logarithms of masses; no result depends on these masses' scale."""
    highest = rows.detach().amax(-1, keepdim=True)
    is_valid = highest.isfinite()
    # Only rows that are all this low may be shifted: in others it would cost digits.
    is_low = is_valid & (highest < LOG_OF_ZERO / 4)
    rows = (rows - highest.masked_fill(~is_low, 0.0)).clamp(min=LOG_OF_ZERO)
    retired, retained = rows[..., :-n_retained], rows[..., -n_retained:]
    top = rows.detach().amax(-1, keepdim=True)
    low = retained.detach().amax(-1, keepdim=True)
    low = torch.where(low < LOG_OF_ZERO / 2, top, low)
    # Retained labels have a scale of their own: a softmax would lose those that are far below a
    # retired label.
    scale = (low - top).clamp(min=-LIMITS[rows.dtype].lead).exp()
    entries = torch.cat([(retired - top).exp(), (retained - low).exp() * scale], -1)
    return Masses(entries, retained.log_softmax(-1), is_valid)


def walk(recipe: Recipe, masses: Masses) -> Tensor:
    """Take rows along all steps. Gives logarithms of the result, up to a constant per row."""
    entries, sums = masses.entries, _sums(masses.entries, len(recipe.pulls))
    own, shared = torch.ones_like(sums[..., :1]), torch.zeros_like(entries)
    for step, (pull, share, numbers) in enumerate(
        zip(recipe.pulls, recipe.shares, recipe.numbers.T, strict=True)
    ):
        after, base = step + 1, sums[..., step : step + 1]
        found = own * _over(entries[..., step:], base) + shared
        others = found[..., 1:]
        own, shared = _step(
            own * _over(sums[..., after : after + 1], base),
            shared[..., 1:],
            found[..., :1],
            others.sum(-1, keepdim=True),
            (others * pull[after:]).sum(-1, keepdim=True),
            share[after:],
            numbers,
        )
    return _mixed(masses.log_retained, own, shared)


def jump(recipe: Recipe, masses: Masses) -> Tensor:
    """Do as `walk` does, each row from one step that cannot be ruled out to the next."""
    k, quiet = len(recipe.pulls), recipe.numbers[2]
    nothing = LIMITS[quiet.dtype].nothing
    labels = torch.arange(masses.entries.shape[-1], device=quiet.device)
    shape = masses.log_retained.shape
    logs, entries = (each.reshape(-1, each.shape[-1]) for each in (masses[1], masses[0]))

    def is_loud(found: Tensor, rests: Tensor) -> Tensor:
        return (found[:, :k] > quiet * rests) | (rests <= nothing)

    with torch.no_grad():
        loud = is_loud(entries, _sums(entries, k)[:, 1:]).any(-1)
        at = (loud & masses.is_valid.reshape(-1)).nonzero()[:, 0]
    entries = entries[at]
    sums, shared, start = _sums(entries, k), torch.zeros_like(entries), at.new_zeros(len(at), 1)
    own = torch.ones_like(sums[:, :1])
    done = []
    while len(at):
        base = sums.gather(1, start)
        found = own * _over(entries, base) + shared
        rests = _sums(found, k)[:, 1:]
        loud = is_loud(found, rests) & (labels[:k] >= start)
        on, off = (each.nonzero()[:, 0] for each in (loud.any(-1), ~loud.any(-1)))
        done.append((at[off], own[off] * _over(sums[off, k:], base[off]), shared[off, k:]))
        state = (at, entries, sums, base, own, shared, found, rests, loud)
        at, entries, sums, base, own, shared, found, rests, loud = (each[on] for each in state)
        step = loud.int().argmax(-1, keepdim=True)
        steps, passed = step[:, 0], labels <= step
        own, shared = _step(
            own * _over(sums.gather(1, step + 1), base),
            shared.masked_fill(passed, 0.0),
            found.gather(1, step),
            rests.gather(1, step),
            (found * recipe.pulls[steps]).sum(-1, keepdim=True),
            recipe.shares[steps],
            recipe.numbers[:, steps, None],
        )
        entries, start = entries.masked_fill(passed, 0.0), step + 1
    if done:
        at, own, shared = (torch.cat(parts) for parts in zip(*done, strict=True))
        logs = logs.index_copy(0, at, _mixed(logs[at], own, shared))
    return logs.view(shape)


def _step(
    own: Tensor,
    shared: Tensor,
    label: Tensor,
    rest: Tensor,
    along: Tensor,
    share: Tensor,
    numbers: Tensor,
) -> tuple[Tensor, Tensor]:
    """Do one step, given what it leaves of a row's own weight and of the shares handed out."""
    nothing = rest <= LIMITS[rest.dtype].nothing
    rest = rest.masked_fill(nothing, 1.0)
    kept, given = mixing(label, rest, along, numbers[0], numbers[1], numbers[3])
    kept, given = kept.masked_fill(nothing, 0.0), given.masked_fill(nothing, 1.0)
    own, shared = kept * (own / rest), kept * (shared / rest) + given * share
    return with_bounded_gradient(own), with_bounded_gradient(shared)


def _sums(entries: Tensor, k: int) -> Tensor:
    """Sum up what each step finds of rows and what the last leaves, from the end: (..., k+1)."""
    total = entries[..., k:].sum(-1, keepdim=True)
    # 1 - x would lose digits.
    return torch.cat([entries[..., :k], total], -1).flip(-1).cumsum(-1).flip(-1)


def _over(part: Tensor, whole: Tensor) -> Tensor:
    nothing = whole <= LIMITS[whole.dtype].nothing
    return with_bounded_gradient(part / whole.masked_fill(nothing, 1.0))


def _mixed(log_retained: Tensor, own: Tensor, shared: Tensor) -> Tensor:
    return torch.logaddexp(log(own) + log_retained, log(shared))
