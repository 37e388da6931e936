"""Types of arrays, by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Columns = npt.NDArray[np.intp]
