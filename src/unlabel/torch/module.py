"""The filter as a PyTorch module, ready for compilation and export.

The mathematics is that of `unlabel.osr`, in plain operators. Only where nothing but the result
is asked for, on a GPU, fused kernels take their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from unlabel.filter import OutputFilter, require_filter
from unlabel.parts import Float64s
from unlabel.torch import fused
from unlabel.torch.operators import (
    Parts,
    log,
    split_logits,
    split_probabilities,
    with_bounded_gradient,
)
from unlabel.validation import INPUT_KINDS, InputKind, UnlabelError, choice

Output = Literal["probabilities", "log_probabilities"]
OUTPUTS: tuple[Output, ...] = get_args(Output)


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
    row that is no probability vector, or holds NaN, comes out as NaN; what comes out of logits
    that hold infinity, or minus infinity alone, means nothing.

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
        require_filter(filter)
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
        self.removed_columns = filter.removed_columns.tolist()  # the buffer may be empty memory
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
        self._prepare_kernels()
        self.register_load_state_dict_pre_hook(_refuse_other_labels)
        self.register_load_state_dict_post_hook(_prepare_kernels_anew)

    def forward(self, confidences: Tensor) -> Tensor:
        """Turn (..., n_labels) confidences into (..., n_labels - n_removed) probabilities."""
        self._check(confidences)
        if self.is_fusible and fused.takes(confidences):
            return self._redistribute_fused(confidences)
        dtype = torch.promote_types(confidences.dtype, torch.float32)
        # Autocast would run the products in half precision.
        with torch.autocast(confidences.device.type, enabled=False):
            split = split_logits if self.input == "logits" else split_probabilities
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
            own = with_bounded_gradient(kept / left)
            coupled = coupled[..., 2:] / left + odds * couplings[step, 2 * step + 2 :]
            coupled = with_bounded_gradient(coupled)
            mass = with_bounded_gradient(1 + odds * weights[step])
        shared = (coupled / mass) @ self.shares.to(dtype)
        return torch.logaddexp(log(own / mass) + parts.log_masked, log(shared))

    def _prepare_kernels(self) -> None:
        """Derive what the fused kernels read from the buffers that are saved and loaded."""
        self.is_fusible = (
            self.redistributes
            and fused.is_available()
            and (self.input, self.output) == ("probabilities", "probabilities")
            and not self.temperature.is_meta
            and self.temperature.item() == 1
        )
        if not self.is_fusible:
            return
        k, n = len(self.removed), len(self.classes_in)
        residual = self.weights.new_empty(k, n)
        residual[:, self.retained] = self.residual_at_retained.T
        residual[:, self.removed] = self.residual_at_removed
        overlap, left = self.couplings[:, : 2 * k].unflatten(1, (k, 2)).unbind(-1)
        # What a step finds of a share is what the step before it left. Those before a share's
        # own find nothing of it.
        found = left.roll(1, 1)
        found = found.masked_fill(found == 0, 1.0)
        column_after = self.removed.new_full((n,), -1)
        column_after[self.retained] = torch.arange(n - k, device=self.retained.device)
        arrays = {
            "residual": residual,
            "shares": self.shares,
            "weights": self.weights,
            "overlap": (overlap / found).triu(1).T,
            "rest": (left / found).triu(1).T,
        }
        for name, array in arrays.items():
            self.register_buffer(f"fused_{name}", array.float().contiguous(), persistent=False)
        self.register_buffer("fused_column_after", column_after.int(), persistent=False)

    def _redistribute_fused(self, confidences: Tensor) -> Tensor:
        rows = confidences.reshape(-1, confidences.shape[-1])
        names = ("residual", "shares", "weights", "overlap", "rest")
        arrays = [self.get_buffer(f"fused_{name}").float() for name in names]
        columns = (self.removed, self.retained, self.fused_column_after)
        result = fused.redistribute(rows, *columns, *arrays)
        return result.reshape(*confidences.shape[:-1], len(self.classes))

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
    if not isinstance(model, nn.Module):
        raise UnlabelError(f"The model is a {type(model).__name__}: give a torch.nn.Module.")
    return FilteredModel(model, FilterModule(filter, input, output=output))


def _refuse_other_labels(
    module: FilterModule, state: Mapping[str, Tensor], prefix: str, *more: object
) -> None:
    """Refuse the state of a filter for other labels: `classes` would not be those of the result."""
    removed = state.get(f"{prefix}removed")
    if removed is None or removed.is_meta:
        return
    if removed.tolist() != module.removed_columns:
        raise UnlabelError(
            f"The state removes the columns {removed.tolist()} and this module "
            f"{module.removed_columns}: make the module from the same filter."
        )


def _prepare_kernels_anew(module: FilterModule, incompatible_keys: object) -> None:
    module._prepare_kernels()


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
