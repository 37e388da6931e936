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
Method = Literal["osr", "mask"]
METHODS: tuple[Method, ...] = get_args(Method)
Kind = Literal["probabilities", "logits"]  # log-probabilities are logits
KINDS: tuple[Kind, ...] = get_args(Kind)

Progress = Callable[[float], None]  # called with the fraction that is done
