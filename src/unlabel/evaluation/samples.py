"""Real outputs that come with the package: of a network, and of retrained ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from unlabel.evaluation.trial import Trial, try_labels

Logits = npt.NDArray[np.float32]

CIFAR10 = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
FORGET_SETS = {"F1": (0,), "F2": (0, 4), "F3": (0, 4, 7, 9), "F4": (0, 2, 3, 4, 6, 7, 9)}


@dataclass(frozen=True)
class Removal:
    """Labels to remove, and the logits of two models retrained without them, by one recipe."""

    removed: tuple[str, ...]
    retrained: tuple[Logits, Logits]


@dataclass(frozen=True)
class RealOutputs:
    """Logits of a network on test images, and of networks retrained without some labels."""

    classes: tuple[str, ...]
    labels: npt.NDArray[np.str_]
    base: Logits
    removals: dict[str, Removal]

    def trial(self, name: str) -> Trial:
        """Try removing one set of labels, judged on rows that nothing is fitted on."""
        removal = self.removals[name]
        trial = try_labels(
            self.base,
            self.labels,
            classes=self.classes,
            plan=removal.removed,
            retrained=removal.retrained,
            kind="logits",
        )
        return replace(trial, same_recipe=True)


def load_cifar10() -> RealOutputs:
    """Load outputs of ResNet18 on the test images of CIFAR-10, with four sets of labels to remove.

    Examples
    --------
    >>> outputs = load_cifar10()
    >>> outputs.base.shape, outputs.removals["F2"].removed
    ((10000, 10), ('airplane', 'deer'))
    """
    resource = files("unlabel.evaluation") / "data" / "cifar10-resnet18.npz"
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        labels = np.array(CIFAR10)[arrays["labels"]]
        logits = {
            name: arrays[name].astype(np.float32) for name in arrays.files if name != "labels"
        }
    removals = {
        name: Removal(
            tuple(CIFAR10[column] for column in columns),
            (logits[f"{name}_seed0"], logits[f"{name}_seed1"]),
        )
        for name, columns in FORGET_SETS.items()
    }
    return RealOutputs(CIFAR10, labels, logits["base"], removals)
