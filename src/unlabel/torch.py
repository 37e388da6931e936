"""The filter as a PyTorch module: plain operators, ready for compilation and export.

The mathematics is that of `unlabel.osr` and `unlabel.parts`, written so that gradients
stay finite and nothing waits for the device: no value is ever looked at in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "unlabel.torch needs PyTorch: pip install 'unlabel[torch]'.", name=error.name
    ) from None
from torch import Tensor, nn

from unlabel.filter import OutputFilter
from unlabel.parts import Float64s
from unlabel.validation import INPUT_KINDS, InputKind, UnlabelError, choice

Output = Literal["probabilities", "log_probabilities"]
OUTPUTS: tuple[Output, ...] = get_args(Output)

# Minus infinity would turn gradients into NaN. This vanishes next to any logit, at any
# temperature, and can be added up without becoming infinite.
LOG_OF_ZERO = -1e30
# How far from 1 the sum of a row of probabilities may be: float16 and bfloat16 round.
SUM_TOLERANCE = 1e-2


class Parts(NamedTuple):
    """Rows taken apart along a chain of removals, as in `unlabel.parts`."""

    masked: Tensor  # (..., n-k): the retained entries divided by their sum
    log_masked: Tensor
    removed: Tensor  # (..., k): the label's part of what its step still finds
    rest: Tensor  # (..., k): the other labels' part of it, 0 only where there is nothing


class FilterModule(nn.Module):
    """Removes labels from the last dimension of a tensor of confidences.

    The fitted arrays are buffers: they move with the module and are in its `state_dict`.
    They never get coarser than float32; ``.half()`` and ``.bfloat16()`` leave them as they
    are. Work is done in float32 at least, and in float64 for float64 rows; the result has the
    dtype of the rows.

    Parameters
    ----------
    filter : OutputFilter
        A fitted filter of method "osr" or "mask".
    input : {"probabilities", "logits"}, optional
        What the rows are; as the filter says if not given.
    output : {"probabilities", "log_probabilities"}
        What comes out. Log-probabilities are finite, even where a probability is 0.

    Notes
    -----
    The sizes of a tensor are checked, its values are not: that would wait for the device. A
    row that is no probability vector, or holds NaN, comes out as NaN.

    Examples
    --------
    >>> import torch
    >>> from unlabel import LabelRemover
    >>> rows = [[.7, .2, .1], [.6, .1, .3], [.1, .8, .1]]
    >>> retired = LabelRemover(remove=[0]).fit(rows, [0, 0, 1]).filter_
    >>> FilterModule(retired)(torch.tensor([[.6, .3, .1]]))
    tensor([[0.7500, 0.2500]])
    """

    def __init__(
        self,
        filter: OutputFilter,
        input: InputKind | None = None,
        *,
        output: Output = "probabilities",
    ) -> None:
        super().__init__()
        if filter.method == "literal":
            raise UnlabelError(
                "method='literal' is for audit and has no PyTorch form: fit with method='osr' or "
                "method='mask'."
            )
        self.input: InputKind = input or filter.input
        self.output = output
        choice(self.input, INPUT_KINDS, "input")
        choice(output, OUTPUTS, "output")
        self.classes, self.classes_in = filter.classes, filter.classes_in
        self.redistributes = filter.method == "osr" and bool(filter.removed)
        arrays: dict[str, Any] = {
            "removed": filter.removed_columns,
            "retained": filter.retained_columns,
            "temperature": np.float64(filter.temperature),
        }
        if self.redistributes:
            residual = filter.chain.residual
            couplings, shares = _couplings(filter, residual)
            arrays |= {
                "residual_at_retained": residual[:, filter.retained_columns].T,
                "residual_at_removed": residual[:, filter.removed_columns],
                "weights": filter.shares.sum(axis=1),
                "couplings": couplings,
                "shares": shares,
            }
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array).contiguous())

    def forward(self, confidences: Tensor) -> Tensor:
        """Turn (..., n_labels) confidences into (..., n_labels - n_removed) probabilities."""
        self._check(confidences)
        dtype = torch.promote_types(confidences.dtype, torch.float32)
        # Autocast would run the products in half precision.
        with torch.autocast(confidences.device.type, enabled=False):
            split = _split_logits if self.input == "logits" else _split_probabilities
            parts = split(confidences.to(dtype), self.removed, self.retained)
            logs = self._redistribute(parts) if self.redistributes else parts.log_masked
            logs = logs / self.temperature.to(dtype)
            if self.output == "probabilities":
                return logs.softmax(-1).to(confidences.dtype)
            lowest = torch.finfo(confidences.dtype).min
            return logs.log_softmax(-1).clamp(min=lowest).to(confidences.dtype)

    def _check(self, confidences: Tensor) -> None:
        if not isinstance(confidences, Tensor) or not confidences.is_floating_point():
            kind = getattr(confidences, "dtype", type(confidences).__name__)
            raise UnlabelError(f"The filter was given {kind}: give one tensor of floats.")
        n = len(self.classes_in)
        if confidences.ndim == 0 or confidences.shape[-1] != n:
            raise UnlabelError(
                f"The confidences have the shape {tuple(confidences.shape)} and the filter {n} "
                "labels: the last dimension must be the model's labels, in their order."
            )

    def _redistribute(self, parts: Parts) -> Tensor:
        """Logarithms of `unlabel.osr.Chain.redistribute`.

        Every vector on the way is a mixture of the input and of the shares handed out so far,
        here up to a factor. What those shares give to each later step is kept up to date in
        place of their weights, so a step is a few operations whatever came before it.
        """
        dtype = parts.masked.dtype
        weights, couplings = self.weights.to(dtype).unbind(), self.couplings.to(dtype)
        nothing = torch.finfo(dtype).tiny ** 0.7
        own = mass = torch.ones_like(parts.masked[..., :1])
        coupled = torch.zeros_like(couplings[0])
        for step, (residual, rest) in enumerate(zip(*self._at_steps(parts), strict=True)):
            kept = own * rest
            left = kept + coupled[..., 1:2]
            gone = left < nothing
            left = left.masked_fill(gone, 1.0)
            residual = (own * residual + coupled[..., :1]).clamp(min=0)
            # The mass less the residual is at least what is left, and must be so when rounded.
            odds = residual / torch.maximum(mass - residual, left)
            odds = odds.masked_fill(gone, nothing**-0.5)  # the share takes it all
            own = _with_bounded_gradient(kept / left)
            coupled = coupled[..., 2:] / left + odds * couplings[step, 2 * step + 2 :]
            coupled = _with_bounded_gradient(coupled)
            mass = _with_bounded_gradient(1 + odds * weights[step])
        shared = (coupled / mass) @ self.shares.to(dtype)
        return torch.logaddexp(_log(own / mass) + parts.log_masked, _log(shared))

    def _at_steps(self, parts: Parts) -> tuple[list[Tensor], list[Tensor]]:
        """Each step's residual of the input among the labels it finds, and what it leaves."""
        dtype = parts.masked.dtype
        at_removed = self.residual_at_removed.to(dtype).unbind(-1)
        rests, removed = (part.split(1, -1) for part in (parts.rest, parts.removed))
        reached = parts.masked @ self.residual_at_retained.to(dtype)
        residuals = []
        for step in range(len(rests) - 1, -1, -1):
            own = removed[step] * at_removed[step][: step + 1]
            reached = reached[..., : step + 1] * rests[step] + own
            residuals.append(reached[..., step:])
        return residuals[::-1], list(rests)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FilterModule:
        before = dict(self.named_buffers())
        super()._apply(fn, recurse)
        for name, buffer in before.items():
            now = self.get_buffer(name)
            if now.is_floating_point() and now.itemsize < torch.float32.itemsize:
                setattr(self, name, buffer.to(now.device))
        return self

    def extra_repr(self) -> str:
        """Say what comes in and what goes out."""
        n, m = len(self.classes_in), len(self.classes)
        return f"{n} {self.input} -> {m} {self.output}"


class FilteredModel(nn.Module):
    """A model with a filter behind it, called as the model is."""

    def __init__(self, model: nn.Module, filter: FilterModule) -> None:
        super().__init__()
        self.model = model
        self.filter = filter
        self.training = model.training

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run the model, then the filter."""
        result: Tensor = self.filter(self.model(*args, **kwargs))
        return result


def remove_labels(
    model: nn.Module,
    filter: OutputFilter,
    input: InputKind | None = None,
    *,
    output: Output = "probabilities",
) -> FilteredModel:
    """Append a filter to a model that returns one tensor of confidences.

    The model is neither changed nor copied. The other parameters are those of `FilterModule`.
    """
    return FilteredModel(model, FilterModule(filter, input, output=output))


def _couplings(filter: OutputFilter, residual: Float64s) -> tuple[Float64s, Float64s]:
    """What a share gives the steps after its own, and the shares over the retained labels.

    A row a share: for each step its residual and what the step leaves of it, in pairs, and
    then, in the share's own column, what all steps leave of it.
    """
    k = len(filter.removed)
    at_removed = filter.shares[:, filter.removed_columns]
    retained = filter.shares[:, filter.retained_columns]
    total = retained.sum(axis=1, keepdims=True)
    # Added up from the end, as everywhere: subtracting what went would lose digits.
    left = np.hstack([at_removed, total])[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    pairs = np.stack([filter.shares @ residual.T, left], axis=2)
    return (
        np.hstack([pairs.reshape(k, 2 * k), np.diag(total[:, 0])]),
        retained / np.where(total == 0, 1.0, total),
    )


def _split_probabilities(rows: Tensor, removed: Tensor, retained: Tensor) -> Parts:
    kept, found = rows.index_select(-1, retained), rows.index_select(-1, removed)
    left = _added_from_the_end(found, kept.sum(-1), torch.add)
    nothing = left == 0
    whole = left.masked_fill(nothing, 1.0)
    masked = (kept / whole[..., -1:]).masked_fill(nothing[..., -1:], 1 / kept.shape[-1])
    off = (rows.sum(-1, keepdim=True) - 1).abs()
    valid = (rows >= 0).all(-1, keepdim=True) & (off <= SUM_TOLERANCE)
    return Parts(
        masked,
        _log(masked).masked_fill(~valid, torch.nan),
        found / whole[..., :-1],
        _at_least_something(left[..., 1:] / whole[..., :-1], nothing[..., 1:]),
    )


def _split_logits(rows: Tensor, removed: Tensor, retained: Tensor) -> Parts:
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


def _log(values: Tensor) -> Tensor:
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


def _with_bounded_gradient(values: Tensor) -> Tensor:
    bounded: Tensor = _BoundedGradient.apply(values) if torch.is_grad_enabled() else values
    return bounded
