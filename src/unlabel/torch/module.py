"""The filter as a PyTorch module, ready for compilation and export."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from unlabel._typing import Kind
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, require_filter
from unlabel.torch import plain
from unlabel.torch.checks import check_allow, check_confidences, digest_of, refuse_other_filters
from unlabel.torch.operator import filter_rows
from unlabel.torch.recipe import ARRAYS, Recipe, arrays_of
from unlabel.validation import choice

Output = Literal["probabilities", "log_probabilities"]
OUTPUTS: tuple[Output, ...] = get_args(Output)


class FilterModule(nn.Module):
    """Change the labels along one dimension of a tensor of confidences.

    The fitted arrays are buffers: they move with the module and are in its `state_dict`.
    They never get coarser than float32: ``.half()`` and ``.bfloat16()`` leave them alone. The
    module computes in float32, or in float64 for float64 rows, and returns the dtype of the rows.

    Parameters
    ----------
    filter : OutputFilter
        A fitted filter of method "osr" or "mask".
    kind : {"probabilities", "logits"}, optional
        The kind of confidences that the model gives, by default the kind the filter was fitted on.
    output : {"probabilities", "log_probabilities"}
        The kind of result. Log-probabilities are finite, even where a probability is 0.
    dim : int, optional
        The dimension of the labels, by default the last one of (C,), (N, C) and (N, T, C).
        It must be given for more dimensions, and for (N, T, C) if T equals C.

    Notes
    -----
    The sizes of a tensor are checked, but not its values. A row that is not a probability vector
    becomes NaN, and so does a row of logits that holds NaN or infinity, or only minus infinity,
    and a row that is allowed no label. Probabilities that are declared to be logits give wrong
    numbers.

    Examples
    --------
    >>> import torch
    >>> masked = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
    >>> FilterModule(masked)(torch.tensor([[.6, .3, .1]]))
    tensor([[0.7500, 0.2500]])
    >>> FilterModule(masked)(torch.tensor([[.6, .3, .1]]), allow=torch.tensor([True, False]))
    tensor([[1., 0.]])
    """

    def __init__(
        self,
        filter: OutputFilter,
        kind: Kind | None = None,
        *,
        output: Output = "probabilities",
        dim: int | None = None,
    ) -> None:
        super().__init__()
        require_filter(filter)
        filter = filter if kind is None else replace(filter, kind=kind)
        choice(output, OUTPUTS, "output")
        if not (dim is None or isinstance(dim, int)):
            problem = f"{dim!r} is not an integer: give the dimension of the labels"
            raise UnlabelError(problem, argument="dim")
        self.kind, self.output, self.dim = filter.kind, output, dim
        self.classes_in, self.classes_out = filter.classes_in, filter.classes_out
        self.n_removed = len(filter.removed)
        arrays, self.groups = arrays_of(filter)
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array))
        self.digest = digest_of(filter)  # a buffer may have no values
        self.register_buffer("labels", torch.tensor(self.digest, dtype=torch.uint8))
        self._note_temperature()
        self.register_load_state_dict_pre_hook(refuse_other_filters)
        self.register_load_state_dict_post_hook(FilterModule._note_temperature)

    def forward(self, confidences: Tensor, allow: Tensor | None = None) -> Tensor:
        """Turn confidences over the model's labels into probabilities of the result's.

        Parameters
        ----------
        confidences : tensor of floats
        allow : tensor of booleans, optional
            The labels of the result that each row may have: a tensor that broadcasts to the
            result, with its labels along `dim`. The others are 0, or the lowest finite number as
            log-probabilities. Where the allowed labels have nothing, they share the row equally.
        """
        dim = self._checked_dim(confidences)
        if allow is not None:
            shape = list(confidences.shape)
            shape[dim] = len(self.classes_out)
            check_allow(allow, tuple(shape), dim)
            allow = allow.expand(shape)
        is_log = self.output == "log_probabilities"
        return filter_rows(confidences, self._recipe(), dim, self.kind == "logits", is_log, allow)

    def removed_mass(self, confidences: Tensor) -> Tensor:
        """Return the probability of the removed labels, in float32 or float64.

        Where it is above some threshold, the answer may be unknown. It is NaN where the result is.
        """
        rows = confidences.movedim(self._checked_dim(confidences), -1)
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        logits = self.kind == "logits"
        if self.is_calibrated:
            rows, logits = plain.calibrated(rows, self.temperature, logits), True
        if logits:
            rows = rows.softmax(-1)
        else:
            is_valid = plain.are_probabilities(rows)
            rows = (rows / rows.sum(-1, keepdim=True)).masked_fill(~is_valid, torch.nan)
        return rows.index_select(-1, self.order[: self.n_removed]).sum(-1)

    def _checked_dim(self, confidences: Tensor) -> int:
        """Return the dimension of the labels, counted from the end."""
        check_confidences(confidences, len(self.classes_in), self.dim)
        if self.temperature.is_meta and not confidences.is_meta:
            raise UnlabelError(
                "The filter's module is on the meta device, without values: load its state_dict "
                "with assign=True or after to_empty(device=...)."
            )
        dim = -1 if self.dim is None else self.dim
        return dim if dim < 0 else dim - confidences.ndim

    def _recipe(self) -> Recipe:
        arrays = [getattr(self, name, None) for name in ARRAYS]
        n_retained = len(self.classes_in) - self.n_removed
        return Recipe._make([*arrays, n_retained, self.is_calibrated, self.groups])

    def _note_temperature(self, *loaded: object) -> None:
        """Look at the temperature once: looking at it for each tensor would wait for the device."""
        self.is_calibrated = self.temperature.is_meta or self.temperature.item() != 1

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
        return f"{len(self.classes_in)} {self.kind} -> {len(self.classes_out)} {self.output}"
