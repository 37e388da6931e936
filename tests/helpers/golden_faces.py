"""The golden file that every face of the filter must reproduce, and the filters of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from unlabel.fitting import fit_filter

with np.load(Path(__file__).parents[1] / "golden" / "faces.npz") as _file:
    GOLDEN = {name: _file[name] for name in _file.files}

METHODS = ("osr", "calibrated", "mask")
INPUTS = ("probabilities", "logits")
DTYPES = ("float16", "float32", "float64")
TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-12}
CLASSES = GOLDEN["classes"].tolist()
REMOVED = [CLASSES[column] for column in GOLDEN["removed"]]


def golden_filter(method, input):
    """The filter that the golden results were computed for, independently."""
    labels = GOLDEN["classes"][GOLDEN["reference_labels"]]
    fitted = fit_filter(
        GOLDEN["reference"],
        labels,
        classes=CLASSES,
        remove=REMOVED,
        method="mask" if method == "mask" else "osr",
    )
    temperature = float(GOLDEN["temperature"]) if method == "calibrated" else 1.0
    return replace(fitted, input=input, temperature=temperature)


def golden_case(method, input, dtype):
    """Rows to be filtered, and what must come out."""
    return GOLDEN[input].astype(dtype), GOLDEN[f"{method}_{input}_{dtype}"]
