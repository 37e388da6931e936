"""The input and the result of a method: a task and an outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from research.arrays import Float32s, Floats
from research.registry import Labels
from research.suites import Study
from research.training import Images
from unlabel import OutputFilter


@dataclass(frozen=True, eq=False)
class Base:
    """A model with all labels, and the images that it is trained and judged on.

    Its outputs are computed once; the seconds of methods that work on outputs do not include it.
    They stay those of the base model when a method changes its copy of the model.
    """

    model: nn.Module
    train_images: Images
    test_images: Images
    logits_of: Callable[[Images], Float32s]

    @property
    def train_logits(self) -> Float32s:
        """The model's logits of its training images."""
        return self.logits_of(self.train_images)

    @property
    def test_logits(self) -> Float32s:
        """The model's logits of the test images."""
        return self.logits_of(self.test_images)

    @property
    def train_labels(self) -> npt.NDArray[np.int64]:
        """The true labels of the training images."""
        labels: npt.NDArray[np.int64] = self.train_images.labels.cpu().numpy()
        return labels


@dataclass(frozen=True, eq=False)
class Task:
    """Labels to remove from a model.

    Attributes
    ----------
    train_images, test_images : Images
        On the device that does the work.
    classes : int
        The number of labels, removed ones included.
    removed : tuple of int
    seed : int
    study : Study
        The recipe and the methods' settings.
    load_base : callable
        Returns the base model, always the same copy, which the method may change.
    build : callable
        Returns an untrained model on the device, for a number of labels and a seed.
    """

    train_images: Images
    test_images: Images
    classes: int
    removed: Labels
    seed: int
    study: Study
    load_base: Callable[[], Base]
    build: Callable[[int, int], nn.Module]

    @property
    def base(self) -> Base:
        """The base model, with its outputs."""
        return self.load_base()

    @property
    def retained(self) -> Labels:
        """The retained labels, ascending."""
        return tuple(label for label in range(self.classes) if label not in self.removed)

    @property
    def device(self) -> torch.device:
        """The device that does the work."""
        return self.train_images.pixels.device


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a method.

    Attributes
    ----------
    confidences : dict of arrays
        Probabilities of all test rows, one column per label or per retained label, by the name of
        the method. Methods with several outputs add an underscore and a name of each.
    seconds : dict of float
        Wall clock by component, with the device synchronised; by default, that of the whole method.
    config : dict
        What there is to know beside the study's settings of the method.
    logits : dict of arrays, optional
        The logits of each test row, to be stored; by default, the logarithms of the confidences.
    matrices : dict of arrays
        Factors for the base model's logits, to be stored.
    filter : OutputFilter, optional
    condition : float, optional
        The condition number of linear filtration's matrix.
    """

    confidences: dict[str, Floats]
    seconds: dict[str, float] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    logits: Mapping[str, Floats] | None = None
    matrices: dict[str, Floats] = field(default_factory=dict)
    filter: OutputFilter | None = None
    condition: float | None = None
