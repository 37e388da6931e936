"""Real outputs that come with the package: a network, and networks really retrained."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel.evaluation.trial import Trial, try_labels

Logits = npt.NDArray[np.float32]

CIFAR10 = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


@dataclass(frozen=True)
class Removal:
    """A set of labels to remove, and what two models retrained without them say."""

    removed: tuple[str, ...]
    retrained: tuple[Logits, Logits]


@dataclass(frozen=True)
class RealOutputs:
    """Logits of a network on test images, before and after really removing labels."""

    classes: tuple[str, ...]
    labels: npt.NDArray[np.str_]
    base: Logits
    removals: dict[str, Removal]

    def trial(self, name: str) -> Trial:
        """Put the removal of one of the sets to the test, on rows that nothing is fitted on."""
        removal = self.removals[name]
        return try_labels(
            self.base,
            self.labels,
            classes=self.classes,
            remove=removal.removed,
            retrained=removal.retrained,
            input="logits",
        )


def load_cifar10() -> RealOutputs:
    """Outputs of ResNet18 on the test images of CIFAR-10, with four sets of labels removed.

    Examples
    --------
    >>> outputs = load_cifar10()
    >>> outputs.base.shape, outputs.removals["F2"].removed
    ((10000, 10), ('airplane', 'deer'))
    """
    resource = files("unlabel.evaluation") / "data" / "cifar10-resnet18.npz"
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        content: dict[str, Any] = {name: arrays[name] for name in arrays.files}
    logits = {name: a.astype(np.float32) for name, a in content.items() if name != "labels"}
    removed = {"F1": (0,), "F2": (0, 4), "F3": (0, 4, 7, 9), "F4": (0, 2, 3, 4, 6, 7, 9)}
    return RealOutputs(
        classes=CIFAR10,
        labels=np.array(CIFAR10)[content["labels"]],
        base=logits["base"],
        removals={
            name: Removal(
                tuple(CIFAR10[column] for column in columns),
                (logits[f"{name}_seed0"], logits[f"{name}_seed1"]),
            )
            for name, columns in removed.items()
        },
    )
