"""One temperature on the model's own outputs, before anything else: fitted by a robust log-loss."""

from __future__ import annotations

import numpy as np

from unlabel._method.masses import NOTHING, row_blocks
from unlabel._typing import Columns, Float64s, Kind
from unlabel.errors import UnlabelError

# With fewer rows the error of the one number that is fitted outweighs its use.
MIN_ROWS = 50
# A temperature beyond these bounds is a sign that the rows do not determine one.
COLDEST, HOTTEST = 1 / 64, 64.0
# Low enough to vanish at any temperature, yet finite: 0 times minus infinity is NaN.
LOG_OF_ZERO = -1e6
# The share of rows that no temperature explains: wrong labels, and inputs of no label. Without it
# the few rows whose label has next to no probability would decide about the temperature.
ASTRAY = 1e-3
MAX_STEPS, PRECISION = 200, 1e-9


def at_temperature(rows: Float64s, kind: Kind, temperature: float) -> tuple[Float64s, Kind]:
    """Return rows of a kind, at a temperature, as rows and their kind.

    Examples
    --------
    >>> import numpy as np
    >>> logits, _ = at_temperature(np.array([[0.8, 0.2]]), "probabilities", 2.0)
    >>> (np.exp(logits) / np.exp(logits).sum()).round(3)
    array([[0.667, 0.333]])
    """
    if temperature == 1:
        return rows, kind
    if kind == "logits":
        return rows / temperature, kind
    # What counts as nothing stays nothing at any temperature.
    fine = rows > NOTHING
    logs = np.log(rows, where=fine, out=np.full_like(rows, -np.inf))
    return np.asarray(logs / temperature), "logits"


def fit_temperature(rows: Float64s, kind: Kind, columns: Columns) -> float:
    """Return the temperature of least robust log-loss, given each row's true column.

    The loss is ``-log((1 - ASTRAY) p + ASTRAY / n)``. Newton's method finds its minimum in the
    inverse of the temperature, with each row's weight computed anew at every step: a row whose
    label has no probability counts for nothing.
    """
    if len(columns) < MIN_ROWS:
        raise UnlabelError(
            f"Calibration needs at least {MIN_ROWS} rows of labels that stay, and found "
            f"{len(columns)}: give more rows, or do not calibrate",
            argument="calibrate",
        )
    with np.errstate(divide="ignore"):
        logs = rows.copy() if kind == "logits" else np.log(np.where(rows > NOTHING, rows, 0.0))
    logs -= logs.max(axis=1, keepdims=True)
    np.maximum(logs, LOG_OF_ZERO, out=logs)
    own = logs[np.arange(len(columns)), columns]
    sharpness = 1.0
    for _ in range(MAX_STEPS):
        slope, curve = _derivatives(sharpness, logs, own)
        step = slope / curve if curve > 0 else np.copysign(np.inf, slope)
        sharpness = min(max(sharpness - step, sharpness / 4), sharpness * 4)
        if abs(step) < PRECISION * sharpness or not 1 / HOTTEST <= sharpness <= 1 / COLDEST:
            break
    else:  # it would go on: the loss has no minimum
        sharpness = np.inf if sharpness > 1 else 0.0
    if not 1 / HOTTEST < sharpness < 1 / COLDEST:
        why = (
            "the confidences are right in nearly all of these rows. Give rows that the model was "
            "not trained on"
            if sharpness > 1
            else "the confidences are no better than chance. Check that the true labels belong to "
            "these rows"
        )
        raise UnlabelError(
            f"No temperature fits the {len(columns)} rows of labels that stay: {why}, or do not "
            "calibrate",
            argument="calibrate",
        )
    return 1 / sharpness


def _derivatives(sharpness: float, logs: Float64s, own: Float64s) -> tuple[float, float]:
    """Return the slope and the curvature of the loss in the sharpness, 1 / temperature."""
    slope = curve = 0.0
    at = 0
    for block in row_blocks(logs):
        truth = own[at : at + len(block)]
        at += len(block)
        powers = np.exp(sharpness * block)
        totals = powers.sum(axis=1)
        mean = np.vecdot(powers, block) / totals
        square = np.vecdot(powers, np.square(block)) / totals
        explained = (1 - ASTRAY) * np.exp(sharpness * truth) / totals
        weight = explained / (explained + ASTRAY / logs.shape[1])
        slope += float(weight @ (mean - truth))
        curve += float(weight @ (square - np.square(mean)))
    return slope, curve
