"""The networks of the experiments, each of which ends in a linear layer, its head."""

from __future__ import annotations

import hashlib
import io
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from research.registry import MODELS, choose
from research.settings import VIT_SIDE
from research.torchvision_cpu import EncoderBlock, VisionTransformer
from research.torchvision_cpu import mobilenet_v2 as imagenet_mobilenet_v2
from research.torchvision_cpu import resnet18 as imagenet_resnet18
from unlabel import UnlabelError

MOBILENET_ADDRESS = "https://download.pytorch.org/models/mobilenet_v2-b0353104.pth"
MOBILENET_SHA256 = "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889"


def build(architecture: str, classes: int) -> nn.Module:
    """Build a registered network with fresh weights.

    Examples
    --------
    >>> network = build("small", 10)
    >>> network(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 10])
    """
    return choose(MODELS, architecture, "model").build(classes)


def build_pretrained(architecture: str, classes: int, weights: Path | None) -> nn.Module:
    """Build a registered network with ImageNet weights below a fresh head."""
    pretrained = choose(MODELS, architecture, "model").pretrained
    if pretrained is None:
        raise UnlabelError(
            f"There are no ImageNet weights for {architecture}: train it from scratch."
        )
    return pretrained(classes, weights)


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


def resnet18(classes: int) -> nn.Module:
    """Build the CIFAR variant, with a first convolution of 3x3 and no max-pooling."""
    model: nn.Module = imagenet_resnet18(num_classes=classes)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def mobilenet_v2(classes: int) -> nn.Module:
    """Build torchvision's MobileNetV2."""
    model: nn.Module = imagenet_mobilenet_v2(num_classes=classes)
    return model


def vit_b_16(classes: int) -> nn.Module:
    """Build ViT-B/16 for images of 128 pixels, and for no others."""
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


def allcnn(classes: int) -> nn.Module:
    """Build All-CNN-C with batch norm: strides instead of pooling.

    Its last layer, a 1x1 convolution whose outputs are averaged, is written as the equivalent
    linear layer on averages.
    """
    narrow, wide = (96, 3, 1), (192, 3, 1)
    layers = _layers(narrow, narrow, (96, 3, 2), wide, wide, (192, 3, 2), wide, (192, 1, 1))
    return _convolutional(layers, 192, classes)


def small(classes: int) -> nn.Module:
    """Build three layers for small images."""
    return _convolutional(_layers((32, 3, 1), (64, 3, 2), (64, 3, 1)), 64, classes)


def pretrained_mobilenet(classes: int, weights: Path | None) -> nn.Module:
    """Build MobileNetV2 with torchvision's ImageNet weights below a fresh head.

    `weights` is their file or its folder, by default the folder where torchvision keeps them.
    """
    file = weights or Path(torch.hub.get_dir(), "checkpoints")
    if file.suffix != ".pth":
        file /= MOBILENET_ADDRESS.rpartition("/")[2]
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
    model = mobilenet_v2(classes)
    load_below_head(model, torch.load(io.BytesIO(content), weights_only=True))
    return model
