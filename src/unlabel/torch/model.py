"""A PyTorch model with a filter behind it."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from unlabel._typing import Kind
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.torch.module import FilterModule, Output
from unlabel.torch.outputs import Key, with_entry


class FilteredModel(nn.Module):
    """A model with a filter behind it, called as the model is.

    The call takes ``allow=``, the labels that each row may have, for the filter, unless the model
    has an argument of that name itself.
    """

    def __init__(self, model: nn.Module, filter: FilterModule, key: Key | None = None) -> None:
        super().__init__()
        self.model, self.filter, self.key = model, filter, key
        self.training = model.training

    def forward(self, *args: Any, allow: Tensor | None = None, **kwargs: Any) -> Any:
        """Run the model, then the filter."""
        return self.filtered(self.model(*args, **kwargs), allow)

    def filtered(self, output: Any, allow: Tensor | None) -> Any:
        """Filter what the model gave."""
        return with_entry(output, self.key, lambda confidences: self.filter(confidences, allow))


def attach(
    model: nn.Module,
    filter: OutputFilter,
    kind: Kind | None = None,
    *,
    output: Output = "probabilities",
    dim: int | None = None,
    key: Key | None = None,
) -> FilteredModel:
    """Append a filter to a model.

    The model is neither changed nor copied. The result is called as the model is, and with
    ``allow=`` as `FilterModule` is, unless the model has an argument of that name itself.

    Parameters
    ----------
    model : torch.nn.Module
        A model that returns one tensor of confidences, or a container with one.
    filter, kind, output, dim
        As in `FilterModule`.
    key : str or int, optional
        The entry of a dictionary, dataclass, tuple or list that holds the confidences, such as
        ``key="logits"`` or ``key=0``. The others are passed on unchanged, in the same kind of
        container.

    Examples
    --------
    >>> import torch
    >>> class Model(torch.nn.Module):
    ...     def forward(self, rows):
    ...         return {"logits": rows.log(), "loss": None}
    >>> mask = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
    >>> attach(Model(), mask, "logits", key="logits")(torch.tensor([[.6, .3, .1]]))
    {'logits': tensor([[0.7500, 0.2500]]), 'loss': None}
    """
    if not isinstance(model, nn.Module):
        raise UnlabelError(f"The model is a {type(model).__name__}: give a torch.nn.Module.")
    module = FilterModule(filter, kind, output=output, dim=dim)
    if isinstance(model, torch.jit.ScriptModule):  # its class has no signature of its own
        return FilteredModel(model, module, key)
    model_class: Any = type(model)
    filtered: FilteredModel = _filtered_class(model_class)(model, module, key)
    return filtered


@functools.cache
def _filtered_class(original: Any) -> Any:
    """Derive a class with the signature of the model's `forward`, which `torch.export` reads."""
    signature, takes_allow = with_allow(inspect.signature(original.forward))

    @functools.wraps(original.forward)
    def forward(self: FilteredModel, *args: Any, **kwargs: Any) -> Any:
        allow = kwargs.pop("allow", None) if takes_allow else None
        return self.filtered(self.model(*args, **kwargs), allow)

    forward.__signature__ = signature  # type: ignore[attr-defined]

    members = {
        "__doc__": FilteredModel.__doc__,
        "forward": forward,
        # By the class's name pickle would find FilteredModel.
        "__reduce__": lambda self: (_blank, (original,), self.__dict__),
    }
    return type(FilteredModel.__name__, (FilteredModel,), members)


def with_allow(signature: inspect.Signature) -> tuple[inspect.Signature, bool]:
    """Add ``allow=`` to a model's arguments; also return whether it was not there already."""
    given = signature.parameters
    if "allow" in given:
        return signature, False
    added = inspect.Parameter("allow", inspect.Parameter.KEYWORD_ONLY, default=None)
    rest = [each for each in given.values() if each.kind is each.VAR_KEYWORD]
    others = [each for each in given.values() if each.kind is not each.VAR_KEYWORD]
    return signature.replace(parameters=[*others, added, *rest]), True


def _blank(original: Any) -> Any:
    return object.__new__(_filtered_class(original))
