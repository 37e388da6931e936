"""Makes torchvision importable beside a PyTorch that its compiled operators do not fit.

To be imported before torchvision, or anything that imports it, unless from here.
"""

from __future__ import annotations

import torch

SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # It describes these to PyTorch when it is imported, and without its compiled operators
    # they do not exist. Where they do, a second declaration would end the process.
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", SIGNATURE)

from torchvision.models import VisionTransformer, mobilenet_v2, resnet18  # noqa: E402

__all__ = ["VisionTransformer", "mobilenet_v2", "resnet18"]
