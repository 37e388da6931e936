"""The networks of the experiments, each of which ends in a linear layer, its head."""

from __future__ import annotations

import hashlib
import io
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from research.registry import choose
from research.settings import VIT_SIDE
from research.torchvision_cpu import EncoderBlock, VisionTransformer, mobilenet_v2, resnet18
from unlabel import UnlabelError

MOBILENET_ADDRESS = "https://download.pytorch.org/models/mobilenet_v2-b0353104.pth"
MOBILENET_SHA256 = "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889"


def build(architecture: str, classes: int, *, pretrained: Path | None = None) -> nn.Module:
    """Build a network with fresh weights, or with ImageNet weights below a fresh head.

    Parameters
    ----------
    architecture : {"resnet18", "allcnn", "mobilenet_v2", "vit_b_16", "small"}
        ResNet18 is the CIFAR variant, with a first convolution of 3x3 and no max-pooling.
        ViT-B/16 takes images of 128 pixels, the others any.
    classes : int
        The number of labels.
    pretrained : path, optional
        torchvision's file of ImageNet weights, for MobileNetV2 only.

    Examples
    --------
    >>> network = build("small", 10)
    >>> network(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 10])
    """
    fresh = choose(ARCHITECTURES, architecture, "architecture")
    if pretrained is None:
        return fresh(classes)
    if architecture != "mobilenet_v2":
        raise UnlabelError(
            f"There are no ImageNet weights for {architecture}: train it from scratch."
        )
    return _pretrained_mobilenet(classes, pretrained)


def head(model: nn.Module) -> nn.Linear:
    """Return the last layer, which computes the logits.

    Examples
    --------
    >>> head(build("small", 10))
    Linear(in_features=64, out_features=10, bias=True)
    """
    return [layer for layer in model.modules() if isinstance(layer, nn.Linear)][-1]


def load_below_head(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of all layers but the head, which stays as it is."""
    layer = head(model)
    own = {
        name: weight
        for name, weight in model.state_dict(keep_vars=True).items()
        if weight is layer.weight or weight is layer.bias
    }
    model.load_state_dict({**weights, **own})


def compile_blocks(model: nn.Module) -> None:
    """Compile a transformer's blocks, which share one compiled form; other models have none.

    Copies of the model are not compiled.
    """
    for layer in model.modules():
        if isinstance(layer, EncoderBlock):
            layer.compile(dynamic=False)


def _resnet18(classes: int) -> nn.Module:
    model: nn.Module = resnet18(num_classes=classes)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def _mobilenet_v2(classes: int) -> nn.Module:
    model: nn.Module = mobilenet_v2(num_classes=classes)
    return model


def _vit_b_16(classes: int) -> nn.Module:
    return VisionTransformer(
        image_size=VIT_SIDE,
        patch_size=16,
        num_layers=12,
        num_heads=12,
        hidden_dim=768,
        mlp_dim=3072,
        num_classes=classes,
    )


def _convolutional(layers: Iterable[nn.Module], channels: int, classes: int) -> nn.Module:
    """Build a network of layers, the mean over the image, and a linear layer."""
    return nn.Sequential(
        OrderedDict(
            features=nn.Sequential(*layers),
            mean=nn.AdaptiveAvgPool2d(1),
            flat=nn.Flatten(),
            head=nn.Linear(channels, classes),
        )
    )


def _layers(*shapes: tuple[int, int, int]) -> Iterator[nn.Module]:
    """Build layers of (channels, kernel side, stride) for images of three channels."""
    before = 3
    for channels, kernel, stride in shapes:
        yield nn.Conv2d(before, channels, kernel, stride, padding=kernel // 2, bias=False)
        yield nn.BatchNorm2d(channels)
        yield nn.ReLU(inplace=True)
        before = channels


def _allcnn(classes: int) -> nn.Module:
    """Build All-CNN-C with batch norm: strides instead of pooling.

    Its last layer, a 1x1 convolution whose outputs are averaged, is written as the equivalent
    linear layer on averages.
    """
    narrow, wide = (96, 3, 1), (192, 3, 1)
    layers = _layers(narrow, narrow, (96, 3, 2), wide, wide, (192, 3, 2), wide, (192, 1, 1))
    return _convolutional(layers, 192, classes)


def _small(classes: int) -> nn.Module:
    return _convolutional(_layers((32, 3, 1), (64, 3, 2), (64, 3, 1)), 64, classes)


ARCHITECTURES: dict[str, Callable[[int], nn.Module]] = {
    "resnet18": _resnet18,
    "allcnn": _allcnn,
    "mobilenet_v2": _mobilenet_v2,
    "vit_b_16": _vit_b_16,
    "small": _small,
}


def _pretrained_mobilenet(classes: int, file: Path) -> nn.Module:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UnlabelError(
            f"{file} could not be read ({error.strerror}): download {MOBILENET_ADDRESS}."
        ) from error
    if hashlib.sha256(content).hexdigest() != MOBILENET_SHA256:
        raise UnlabelError(
            f"{file} is not torchvision's file of weights: download {MOBILENET_ADDRESS}."
        )
    # The package's only torch.load, which reads a pickle. It only ever gets the bytes whose
    # checksum is above, and weights_only restricts even those to tensors.
    weights = torch.load(io.BytesIO(content), weights_only=True)
    model = _mobilenet_v2(classes)
    load_below_head(model, weights)
    return model
