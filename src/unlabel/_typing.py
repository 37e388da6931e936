"""Type aliases, and the choices that some of them name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Float64s = npt.NDArray[np.float64]
Columns = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]

Label = str | int
Method = Literal["osr", "mask", "literal"]
InputKind = Literal["probabilities", "logits"]
METHODS: tuple[Method, ...] = get_args(Method)
Scores = Literal["renormalised", "absolute"]
SCORES: tuple[Scores, ...] = get_args(Scores)
Truth = Literal["old", "new"]  # whether true labels are the model's or the result's
TRUTHS: tuple[Truth, ...] = get_args(Truth)
INPUT_KINDS: tuple[InputKind, ...] = get_args(InputKind)

Progress = Callable[[float], None]  # called with the fraction that is done
