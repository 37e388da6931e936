"""The golden file that every integration must reproduce, and its filters."""

from pathlib import Path

import numpy as np

import doors

with np.load(Path(__file__).parents[1] / "golden" / "integrations.npz") as _file:
    GOLDEN = {name: _file[name] for name in _file.files}

METHODS = ("osr", "calibrated", "mask")
KINDS = ("probabilities", "logits")
DTYPES = ("float16", "float32", "float64")
TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-12}
CLASSES = GOLDEN["classes"].tolist()
REMOVED = [CLASSES[column] for column in GOLDEN["removed"]]


def golden_filter(method, kind):
    """Fit the filter of the golden results, which were computed independently."""
    labels = GOLDEN["classes"][GOLDEN["reference_labels"]]
    fitted = doors.fit(
        GOLDEN["reference"],
        labels,
        classes=CLASSES,
        remove=REMOVED,
        method="mask" if method == "mask" else "osr",
    )
    temperature = float(GOLDEN["temperature"]) if method == "calibrated" else 1.0
    return doors.at_temperature(doors.with_kind(fitted, kind), temperature)


def golden_case(method, kind, dtype):
    """Return rows, and their expected results."""
    return GOLDEN[kind].astype(dtype), GOLDEN[f"{method}_{kind}_{dtype}"]
