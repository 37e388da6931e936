"""The PyTorch integration: `attach` appends a filter to a model, `FilterModule` is one."""

from unlabel.errors import needs_extra

with needs_extra("torch"):
    import torch  # noqa: F401

from unlabel.torch.model import FilteredModel, attach
from unlabel.torch.module import FilterModule

__all__ = ["FilterModule", "FilteredModel", "attach"]
