"""A PyTorch model with a filter behind it."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from unlabel._typing import InputKind
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.torch.module import FilterModule, Output


class FilteredModel(nn.Module):
    """A model with a filter behind it, called as the model is."""

    def __init__(self, model: nn.Module, filter: FilterModule) -> None:
        super().__init__()
        self.model, self.filter = model, filter
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
    dim: int | None = None,
) -> FilteredModel:
    """Append a filter to a model that returns one tensor of confidences.

    The model is neither changed nor copied. The other parameters are those of `FilterModule`.
    """
    if not isinstance(model, nn.Module):
        raise UnlabelError(f"The model is a {type(model).__name__}: give a torch.nn.Module.")
    module = FilterModule(filter, input, output=output, dim=dim)
    if isinstance(model, torch.jit.ScriptModule):  # its class has no signature of its own
        return FilteredModel(model, module)
    model_class: Any = type(model)
    filtered: FilteredModel = _filtered_class(model_class)(model, module)
    return filtered


@functools.cache
def _filtered_class(original: Any) -> Any:
    """Derive a class with the signature of the model's `forward`, which `torch.export` reads."""

    @functools.wraps(original.forward)
    def forward(self: FilteredModel, *args: Any, **kwargs: Any) -> Tensor:
        return FilteredModel.forward(self, *args, **kwargs)

    members = {
        "__doc__": FilteredModel.__doc__,
        "forward": forward,
        # By the class's name pickle would find FilteredModel.
        "__reduce__": lambda self: (_blank, (original,), self.__dict__),
    }
    return type(FilteredModel.__name__, (FilteredModel,), members)


def _blank(original: Any) -> Any:
    return object.__new__(_filtered_class(original))
