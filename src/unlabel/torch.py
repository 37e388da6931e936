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

    removed: Tensor
    retained: Tensor
    temperature: Tensor
    residual_at_retained: Tensor
    residual_at_removed: Tensor
    shares: Tensor
    weight: Tensor
    overlap: Tensor
    rest: Tensor

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
            chain = filter.chain
            arrays |= {
                "residual_at_retained": chain.residual[:, chain.retained].T,
                "residual_at_removed": chain.residual[:, chain.removed],
                "shares": chain.shares[:, chain.retained],
                "weight": chain.weight,
                "overlap": chain.overlap,
                "rest": chain.rest,
            }
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array))

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
        """Logarithms of `unlabel.osr.Chain.redistribute`."""
        dtype = parts.masked.dtype
        weight, overlap, rest = (x.to(dtype) for x in (self.weight, self.overlap, self.rest))
        residual = self._input_residual(parts)
        # The weights of the input and of the shares so far in the mixture, which sum to 1.
        mixture = torch.ones_like(parts.rest[..., :1])
        for step in range(len(residual)):
            own, earlier = mixture[..., :1], mixture[..., 1:]
            from_shares = (earlier * overlap[:step, step]).sum(-1, keepdim=True)
            rho = (own * residual[step] + from_shares).clamp(0, 1)
            kept = torch.cat(
                [own * parts.rest[..., step, None], earlier * rest[:step, step]], dim=-1
            )
            left = kept.sum(-1, keepdim=True)
            gone = left < torch.finfo(dtype).tiny
            rho = torch.where(gone, 1.0, rho)
            to_share = rho * weight[step]
            total = (1 - rho) + to_share
            # Divided by `left` first: the derivative of its inverse would overflow.
            kept = kept / torch.where(gone, 1.0, left) * ((1 - rho) / total)
            mixture = torch.cat([kept, to_share / total], dim=-1)
        own, weights = mixture[..., :1], mixture[..., 1:]
        return torch.logaddexp(_log(own) + parts.log_masked, _log(weights @ self.shares.to(dtype)))

    def _input_residual(self, parts: Parts) -> list[Tensor]:
        """Each step's residual of the input, restricted to the labels that step finds."""
        dtype = parts.masked.dtype
        at_removed = self.residual_at_removed.to(dtype)
        reached = parts.masked @ self.residual_at_retained.to(dtype)
        residual = []
        for step in range(len(at_removed) - 1, -1, -1):
            rest, removed = parts.rest[..., step, None], parts.removed[..., step, None]
            reached = reached[..., : step + 1] * rest + removed * at_removed[: step + 1, step]
            residual.append(reached[..., step:])
        return residual[::-1]

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


def _split_probabilities(rows: Tensor, removed: Tensor, retained: Tensor) -> Parts:
    kept, found = rows.index_select(-1, retained), rows.index_select(-1, removed)
    left = _added_from_the_end(found, kept.sum(-1), torch.add)
    nothing = left == 0
    whole = torch.where(nothing, 1.0, left)
    masked = torch.where(nothing[..., -1:], 1 / kept.shape[-1], kept / whole[..., -1:])
    off = (rows.sum(-1, keepdim=True) - 1).abs()
    valid = (rows >= 0).all(-1, keepdim=True) & (off <= SUM_TOLERANCE)
    return Parts(
        masked,
        torch.where(valid, _log(masked), torch.nan),
        found / whole[..., :-1],
        _at_least_something(left[..., 1:] / whole[..., :-1], nothing[..., 1:]),
    )


def _split_logits(rows: Tensor, removed: Tensor, retained: Tensor) -> Parts:
    rows = rows.clamp(min=LOG_OF_ZERO)
    kept, found = rows.index_select(-1, retained), rows.index_select(-1, removed)
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
    least = torch.finfo(rest.dtype).tiny ** 0.75
    return torch.where(nothing, 0.0, rest.clamp(min=least))


def _log(values: Tensor) -> Tensor:
    """Give the logarithm, finite at 0 and with a finite derivative there."""
    positive = values >= torch.finfo(values.dtype).tiny
    return torch.where(positive, torch.where(positive, values, 1.0).log(), LOG_OF_ZERO)
