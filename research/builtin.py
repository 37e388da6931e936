"""Registers the methods, sets and models that come with the experiments.

What needs PyTorch is imported on use: tables need only the names.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from research.registry import register_dataset, register_method, register_model
from research.settings import CIFAR, QUICK


def on_use(name: str, module: str) -> Callable[..., Any]:
    """Return a function of another module, which is imported when it is called."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"research.{module}"), name)(*arguments)

    return call


# In the order in which they run.
register_method("osr", on_use("run", "methods.osr"), title="OSR")
register_method("mask", on_use("run", "methods.mask"))
register_method(
    "linear_filtration",
    on_use("run", "methods.linear_filtration"),
    title="linear filtration",
    outputs={
        f"linear_filtration_{variant}": f"linear filtration, {variant}"
        for variant in ("naive", "normalization", "randomization", "zeroing")
    },
)
register_method("unsir", on_use("run", "methods.unsir"), title="UNSIR")
register_method("nhle_cwm", on_use("run", "methods.nhle_cwm"), title="NHLE-CWM (reconstruction)")
register_method("retrain", on_use("run", "methods.retrain"), title="retrained")

TEN_LABELS = ((0,), (0, 4), (0, 4, 7, 9), (0, 2, 3, 4, 6, 7, 9))
HUNDRED_LABELS = tuple(tuple(range(n)) for n in (1, 20, 40, 60))
for name, title, labels, forget, load in (
    ("cifar10", "CIFAR-10", 10, TEN_LABELS, on_use("load_cifar10", "datasets.cifar")),
    ("cifar100", "CIFAR-100", 100, HUNDRED_LABELS, on_use("load_cifar100", "datasets.cifar")),
    ("faces", "Faces", 100, HUNDRED_LABELS, on_use("load_identities", "datasets.faces")),
):
    register_dataset(name, load, labels=labels, forget=forget, title=title, in_files=True)
load = on_use("load_digits", "datasets.digits")
register_dataset("digits", load, labels=10, forget=TEN_LABELS, title="Digits")

register_model("resnet18", on_use("resnet18", "models"), title="ResNet18", recipe=CIFAR)
register_model("allcnn", on_use("allcnn", "models"), title="AllCNN", recipe=CIFAR)
register_model(
    "mobilenet_v2",
    on_use("mobilenet_v2", "models"),
    title="MobileNetV2",
    pretrained=on_use("pretrained_mobilenet", "models"),
)
register_model("vit_b_16", on_use("vit_b_16", "models"), title="ViT-B/16")
register_model("small", on_use("small", "models"), title="a small network", recipe=QUICK)
