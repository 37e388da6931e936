"""The filter as a PyTorch module, ready for compilation and export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from unlabel._typing import SCORES, InputKind, Scores
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, require_filter
from unlabel.torch.checks import check_allow, check_confidences, digests, refuse_other_filters
from unlabel.torch.merge import Merge, arrays_of, groups_of
from unlabel.torch.operator import filter_rows
from unlabel.torch.plain import Recipe, are_probabilities
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
    input : {"probabilities", "logits"}, optional
        The kind of confidences that the model gives, by default the kind the filter was fitted on.
    output : {"probabilities", "log_probabilities"}
        The kind of result. Log-probabilities are finite, even where a probability is 0.
    dim : int, optional
        The dimension of the labels, by default the last one of (C,), (N, C) and (N, T, C).
        It must be given for more dimensions, and for (N, T, C) if T equals C.
    scores : {"renormalised", "absolute"}
        With `allow`, divide the allowed labels by their sum, or leave them as they are.

    Notes
    -----
    The sizes of a tensor are checked, but not its values. A row that is not a probability vector
    becomes NaN, and so does a row of logits that holds NaN or infinity, or only minus infinity,
    and a row that is allowed no label. Probabilities that are declared to be logits give wrong
    numbers.

    Examples
    --------
    >>> import torch
    >>> from unlabel import LabelRemover
    >>> rows = [[.7, .2, .1], [.6, .1, .3], [.1, .8, .1]]
    >>> retired = LabelRemover(remove=[0]).fit(rows, [0, 0, 1]).filter_
    >>> FilterModule(retired)(torch.tensor([[.6, .3, .1]]))
    tensor([[0.7500, 0.2500]])
    >>> FilterModule(retired)(torch.tensor([[.6, .3, .1]]), allow=torch.tensor([True, False]))
    tensor([[1., 0.]])
    """

    def __init__(
        self,
        filter: OutputFilter,
        input: InputKind | None = None,
        *,
        output: Output = "probabilities",
        dim: int | None = None,
        scores: Scores = "renormalised",
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
        choice(scores, SCORES, "scores")
        self.input, self.output, self.dim, self.scores = filter.input, output, dim, scores
        self.classes, self.classes_in = filter.classes, filter.classes_in
        # These are buffers too, but buffers may have no values.
        self.removed_columns, self.digests = filter.removed_columns.tolist(), digests(filter)
        recipe = filter.recipe
        arrays: dict[str, Any] = {
            "order": recipe.order,
            "pulls": recipe.pulls,
            "shares": recipe.shares,
            "numbers": recipe.numbers,
            "temperature": np.float64(filter.temperature),
            "labels": np.array(self.digests, dtype=np.uint8),
        }
        self.groups: list[int] = []
        if recipe.merge is not None:
            arrays |= arrays_of(recipe.merge)
            self.groups = groups_of(recipe.merge)
        for name, array in arrays.items():
            self.register_buffer(name, torch.tensor(array))
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
            log-probabilities. Where the allowed labels have nothing, they share a renormalised
            row equally.
        """
        check_confidences(confidences, len(self.classes_in), self.dim)
        if self.temperature.is_meta and not confidences.is_meta:
            raise UnlabelError(
                "The filter's module is on the meta device, without values: load its state_dict "
                "with assign=True or after to_empty(device=...)."
            )
        dim = -1 if self.dim is None else self.dim
        dim = dim if dim < 0 else dim - confidences.ndim
        if allow is not None:
            shape = list(confidences.shape)
            shape[dim] = len(self.classes)
            check_allow(allow, tuple(shape), dim)
            allow = allow.expand(shape)
        return filter_rows(
            confidences,
            self._recipe(),
            dim,
            logits=self.input == "logits",
            log_output=self.output == "log_probabilities",
            allow=allow,
            absolute=allow is not None and self.scores == "absolute",
        )

    def removed_mass(self, confidences: Tensor) -> Tensor:
        """Return the probability of the retired labels, in float32 or float64.

        Where it is above some threshold, the answer may be unknown. It is NaN where the result is.
        """
        check_confidences(confidences, len(self.classes_in), self.dim)
        dim = -1 if self.dim is None else self.dim
        rows = confidences.to(torch.promote_types(confidences.dtype, torch.float32))
        if self.input == "logits":
            rows = rows.softmax(dim)
        else:
            is_valid = are_probabilities(rows, dim)
            rows = (rows / rows.sum(dim, keepdim=True)).masked_fill(~is_valid, torch.nan)
        return rows.index_select(dim, self.order[: len(self.removed_columns)]).sum(dim)

    def _recipe(self) -> Recipe:
        n_retained = len(self.classes_in) - len(self.removed_columns)
        arrays = (self.order, self.pulls, self.shares, self.numbers)
        temperature, merge = self.temperature if self.is_calibrated else None, None
        if self.groups:
            merged = (self.sources, self.starts, self.weights, self.by_size, self.places)
            merge = Merge(*merged, self.groups)
        return Recipe(n_retained, *arrays, temperature, merge)

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
        return f"{len(self.classes_in)} {self.input} -> {len(self.classes)} {self.output}"
