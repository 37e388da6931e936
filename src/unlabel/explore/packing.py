"""Confidences in 8 or 16 bits each, so that many rows fit into a page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unlabel._typing import Float64s, Floats, Kind

Bits = Literal[8, 16]
# How far below the top label's the logarithm of a confidence can lie; what lies lower is moved up
# to there, to 1e-26 and 2e-9 of the top label's confidence. Only 0 stays 0.
RANGE: dict[Bits, float] = {8: 20.0, 16: 60.0}
FLAT = 1e-9  # the range of rows whose labels are all tied, or nearly


@dataclass(frozen=True)
class Packed:
    """Rows of confidences as unsigned integers, one row after another.

    A code times the step is how far a label's logarithm lies below that of the row's top label,
    and the highest code is a confidence of 0.
    """

    codes: str  # little endian, in base64
    bits: Bits
    step: float
    rounding: float  # the largest error of a confidence


def pack(rows: Floats, kind: Kind, bits: Bits) -> Packed:
    """Pack rows with the smallest step that reaches the lowest confidence, within the range.

    A logarithm is off by at most half a step; that of a label just below the top one, which must
    not be tied with it, by at most one.

    Examples
    --------
    >>> packed = pack(np.array([[0.75, 0.25, 0.0]]), "probabilities", 8)
    >>> list(base64.b64decode(packed.codes)), round(packed.step * 254, 6)
    ([0, 254, 255], 1.098612)
    """
    below, is_none = _distances(rows, kind)
    last = 2**bits - 2
    within = np.minimum(below, RANGE[bits])
    largest = float(within.max(initial=FLAT, where=~is_none))
    step = largest / last
    codes = np.where(is_none, last + 1, np.rint(within / step))
    codes[(codes == 0) & (rows < rows.max(axis=1, keepdims=True))] = 1
    error = np.abs(_softmax(codes * step, codes > last) - _softmax(below, is_none))
    text = base64.b64encode(codes.astype(f"<u{bits // 8}").tobytes()).decode("ascii")
    return Packed(text, bits, step, float(error.max(initial=0.0)))


def _distances(rows: Floats, kind: Kind) -> tuple[Float64s, np.typing.NDArray[np.bool_]]:
    """Measure how far logarithms lie below the top label's, and which confidences are 0."""
    wide = rows.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", over="ignore"):
        if kind == "probabilities":
            return np.log(top) - np.log(wide), wide == 0
        return top - wide, np.isneginf(wide)


def _softmax(below: Float64s, is_none: np.typing.NDArray[np.bool_]) -> Float64s:
    weights = np.where(is_none, 0.0, np.exp(-below))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
