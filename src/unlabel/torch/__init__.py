"""The filter behind a PyTorch model: `remove_labels` appends it, `FilterModule` is it alone."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "unlabel.torch needs PyTorch: pip install 'unlabel[torch]'.", name=error.name
    ) from None

from unlabel.torch.model import FilteredModel, remove_labels
from unlabel.torch.module import FilterModule

__all__ = ["FilterModule", "FilteredModel", "remove_labels"]
