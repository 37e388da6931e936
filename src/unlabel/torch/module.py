"""The filter as a PyTorch module, ready for compilation and export.

It does the mathematics of `unlabel._method.chain` in plain operators, or on a GPU, where only the
result is needed, in fused kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from unlabel._typing import Float64s, InputKind
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, require_filter
from unlabel.torch import fused
from unlabel.torch.checks import check_confidences, digest, refuse_other_filters
from unlabel.torch.split import Parts, log, split_logits, split_probabilities, with_bounded_gradient
from unlabel.validation import choice

Output = Literal["probabilities", "log_probabilities"]
OUTPUTS: tuple[Output, ...] = get_args(Output)


class FilterModule(nn.Module):
    """Retire labels along one dimension of a tensor of confidences.

    The fitted arrays are buffers: they move with the module and are in its `state_dict`.
    They never get coarser than float32: ``.half()`` and ``.bfloat16()`` leave them alone. The
    module computes in float32, or in float64 for float64 rows, and returns the dtype of the rows.

    Parameters
    ----------
    filter : OutputFilter
        A fitted filter of method "osr" or "mask".
    input : {"probabilities", "logits"}, optional
        The kind of confidences that the model gives, by default the kind the filter was fitted on.
    output : {"probabilities", "log_probabilities"}
        The kind of result. Log-probabilities are finite, even where a probability is 0.
    dim : int, optional
        The dimension of the labels, by default the last one of (C,), (N, C) and (N, T, C).
        It must be given for more dimensions, and for (N, T, C) if T equals C.

    Notes
    -----
    The sizes of a tensor are checked, but not its values: that would wait for the device. A row
    that is not a probability vector, or holds NaN, becomes NaN. Probabilities that are declared
    to be logits give wrong numbers, and logits that hold infinity, or only minus infinity, give
    meaningless ones.

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
        dim: int | None = None,
    ) -> None:
        super().__init__()
        require_filter(filter)
        if filter.method == "literal":
            raise UnlabelError(
                "method='literal' is for audit and has no PyTorch form: use method='osr' or 'mask'."
            )
        filter = filter.taking(input)
        choice(output, OUTPUTS, "output")
        if not (dim is None or isinstance(dim, int)):
            raise UnlabelError(f"dim={dim!r} is not an integer: give the dimension of the labels.")
        self.input, self.output, self.dim = filter.input, output, dim
        self.classes, self.classes_in = filter.classes, filter.classes_in
        self.removed_columns = filter.removed_columns.tolist()  # the buffer may have no values
        self.redistributes = filter.method == "osr" and bool(filter.removed)
        arrays: dict[str, Any] = {
            "removed": filter.removed_columns,
            "retained": filter.retained_columns,
            "temperature": np.float64(filter.temperature),
            "labels": digest(filter.classes_in),
        }
        if self.redistributes:
            arrays |= _statistics(filter)
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array).contiguous())
        self._prepare_kernels()
        self.register_load_state_dict_pre_hook(refuse_other_filters)
        self.register_load_state_dict_post_hook(FilterModule._prepare_kernels)

    def forward(self, confidences: Tensor) -> Tensor:
        """Turn confidences in all labels into probabilities of the retained ones."""
        check_confidences(confidences, len(self.classes_in), self.dim)
        if self.temperature.is_meta and not confidences.is_meta:
            raise UnlabelError(
                "The filter's module is on the meta device, without values: load its state_dict "
                "with assign=True or after to_empty(device=...)."
            )
        dim = -1 if self.dim is None else self.dim
        return self._filter(confidences.movedim(dim, -1)).movedim(-1, dim).contiguous()

    def _filter(self, confidences: Tensor) -> Tensor:
        """Filter the last dimension."""
        if self.is_fusible and fused.takes(confidences):
            return self._redistribute_fused(confidences)
        dtype = torch.promote_types(confidences.dtype, torch.float32)
        with _without_autocast(confidences.device.type):
            split = split_logits if self.input == "logits" else split_probabilities
            parts = split(confidences.to(dtype), self.removed, self.retained)
            logs = self._redistribute(parts) if self.redistributes else parts.log_masked
            logs = logs / self.temperature.to(dtype)
            if self.output == "probabilities":
                return logs.softmax(-1).to(confidences.dtype)
            lowest = torch.finfo(confidences.dtype).min
            return logs.log_softmax(-1).clamp(min=lowest).to(confidences.dtype)

    def _redistribute(self, parts: Parts) -> Tensor:
        """Logarithms of `unlabel._method.chain.Chain.redistribute`.

        Every vector on the way is a mixture of the input and of the shares handed out so far,
        here up to a factor. What those shares give to each later step is kept up to date in
        place of their weights, so a step is a few operations whatever came before it.
        """
        dtype = parts.masked.dtype
        weights, couplings = self.weights.to(dtype).unbind(), self.couplings.to(dtype)
        nothing = torch.finfo(dtype).tiny ** 0.7
        own = mass = torch.ones_like(parts.masked[..., :1])
        coupled = torch.zeros_like(couplings[0])
        for step, (residual, along, rest) in enumerate(self._at_steps(parts)):
            kept = own * rest
            left = kept + coupled[..., 2:3]
            gone = left < nothing
            left = left.masked_fill(gone, 1.0)
            residual = (own * residual + coupled[..., :1]).clamp(min=0)
            # The mass less the residual, added up: a subtraction would lose digits.
            odds = residual / (left + own * along + coupled[..., 1:2])
            odds = odds.masked_fill(gone, nothing**-0.5)  # the share takes it all
            own = with_bounded_gradient(kept / left)
            coupled = coupled[..., 3:] / left + odds * couplings[step, 3 * step + 3 :]
            coupled = with_bounded_gradient(coupled)
            mass = with_bounded_gradient(1 + odds * weights[step])
        shared = (coupled / mass) @ self.shares.to(dtype)
        return torch.logaddexp(log(own / mass) + parts.log_masked, log(shared))

    def _prepare_kernels(self, *loaded: object) -> None:
        """Derive the fused kernels' arrays from the buffers, which are saved and loaded."""
        self.is_fusible = (
            self.redistributes
            and fused.is_available()
            and (self.input, self.output) == ("probabilities", "probabilities")
            and not self.temperature.is_meta
            and self.temperature.item() == 1
            and self.along_at_removed.diagonal().min().item() >= fused.LEAST_ALONG
        )
        if not self.is_fusible:
            return
        k, n = len(self.removed), len(self.classes_in)
        residual = self.weights.new_empty(k, n)
        residual[:, self.retained] = -self.along_at_retained.T
        residual[:, self.removed] = -self.along_at_removed
        residual[torch.arange(k, device=self.removed.device), self.removed] = self.diagonal
        overlap, _, left = self.couplings[:, : 3 * k].unflatten(1, (k, 3)).unbind(-1)
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

    def _at_steps(self, parts: Parts) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Of what each step finds of the input: residual, part along the mean, what it leaves."""
        dtype = parts.masked.dtype
        at_removed = self.along_at_removed.to(dtype).unbind(-1)
        diagonal = self.diagonal.to(dtype).unbind()
        rests, removed = (part.split(1, -1) for part in (parts.rest, parts.removed))
        along = parts.masked @ self.along_at_retained.to(dtype)
        steps = []
        for step in range(len(rests) - 1, -1, -1):
            along = along[..., : step + 1] * rests[step]
            residual = removed[step] * diagonal[step] - along[..., step:]
            along = along + removed[step] * at_removed[step][: step + 1]
            steps.append((residual, along[..., step:], rests[step]))
        return steps[::-1]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FilterModule:
        before = dict(self.named_buffers())
        super()._apply(fn, recurse)
        for name, buffer in before.items():
            now = self.get_buffer(name)
            if now.is_floating_point() and now.itemsize < torch.float32.itemsize:
                setattr(self, name, buffer.to(now.device))
        return self

    def extra_repr(self) -> str:
        """Describe the input and the output."""
        return f"{len(self.classes_in)} {self.input} -> {len(self.classes)} {self.output}"


def _without_autocast(device: str) -> AbstractContextManager[Any]:
    """Keep autocast from computing products in half precision; it does not know meta devices."""
    return nullcontext() if device == "meta" else torch.autocast(device, enabled=False)


def _statistics(filter: OutputFilter) -> dict[str, Float64s]:
    """Give the arrays of a chain of steps.

    A step's residual of x is ``diagonal * x_i`` minus `along` times x, summed over the other
    labels. The mass of x minus the residual is the mass that the step leaves plus `along` times x,
    summed over all labels.

    `couplings` has one row per share, on its way through the later steps: for each step a triple of
    residual, part along the mean and mass that the step leaves, then, in the share's own column,
    the mass that all steps leave.
    """
    removed, retained = filter.removed_columns, filter.retained_columns
    k = len(removed)
    residual, along = filter.chain.residual, filter.chain.along
    shares = filter.shares[:, retained]
    total = shares.sum(axis=1, keepdims=True)
    # Added up from the end: subtracting from 1 would lose digits.
    found = np.hstack([filter.shares[:, removed], total])[:, ::-1].cumsum(axis=1)[:, ::-1]
    threes = np.stack([filter.shares @ residual.T, filter.shares @ along.T, found[:, 1:]], axis=2)
    return {
        "along_at_retained": along[:, retained].T,
        "along_at_removed": along[:, removed],
        "diagonal": residual[np.arange(k), removed],
        "weights": filter.shares.sum(axis=1),
        "couplings": np.hstack([threes.reshape(k, 3 * k), np.diag(total[:, 0])]),
        "shares": shares / np.where(total == 0, 1.0, total),
    }
