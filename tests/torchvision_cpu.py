"""Makes torchvision importable beside a PyTorch that its compiled operators do not fit.

To be imported before torchvision, and before transformers, which imports it where it is there.
"""

from importlib.util import find_spec

import torch

HAS_TORCHVISION = find_spec("torchvision") is not None
# torchvision describes these to PyTorch when it is imported, and fails if they do not exist.
OPERATORS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}

if HAS_TORCHVISION:
    for _name, _signature in OPERATORS.items():
        if not hasattr(torch.ops.torchvision, _name):
            torch.library.define(f"torchvision::{_name}", _signature)
