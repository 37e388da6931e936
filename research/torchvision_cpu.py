"""Makes torchvision importable with a PyTorch that its compiled operators do not match.

Import this module before torchvision or anything that imports it.
"""

from __future__ import annotations

import torch

SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # On import, torchvision describes these operators to PyTorch, which fails if the compiled
    # ones are missing. If they exist, declaring them again would end the process.
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", SIGNATURE)

from torchvision.models import VisionTransformer, mobilenet_v2, resnet18  # noqa: E402
from torchvision.models.vision_transformer import EncoderBlock  # noqa: E402
from torchvision.transforms.v2 import CutMix, MixUp, RandomChoice  # noqa: E402

__all__ = [
    "CutMix",
    "EncoderBlock",
    "MixUp",
    "RandomChoice",
    "VisionTransformer",
    "mobilenet_v2",
    "resnet18",
]
