"""Makes torchvision importable beside a PyTorch that its compiled operators do not fit.

To be imported before transformers, which imports torchvision where it is there.
"""

from importlib.util import find_spec

import torch

HAS_TORCHVISION = find_spec("torchvision") is not None
SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

if HAS_TORCHVISION:
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        # It describes these to PyTorch when it is imported, and without its compiled operators
        # they do not exist. Where they do, a second declaration would end the process.
        for _name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{_name}", SIGNATURE)
