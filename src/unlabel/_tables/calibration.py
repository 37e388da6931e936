"""What a temperature does for confidences, judged on rows that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unlabel._method.sampling import row_hashes, text_hashes
from unlabel._method.temperature import MIN_ROWS, at_temperature, fit_temperature
from unlabel._typing import Columns, Float64s, Floats, Kind, Label
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.metrics import reliability_bins


class Calibration(NamedTuple):
    """A temperature, and the calibration error without it and with it."""

    temperature: float
    before: float
    after: float

    @property
    def helped(self) -> bool:
        """Whether the error is lower with the temperature."""
        return self.after < self.before


def calibration_report(
    rows: Floats, columns: Columns, kind: Kind, classes: Sequence[Label]
) -> Calibration | None:
    """Return the temperature of rows, given their true columns, with its effect on the error.

    The effect is cross-fitted: each half of the rows, which are divided by hash, is judged at the
    temperature of the other half. Where halves are too small for one, there is no report.
    """
    exact, labels = rows.astype(np.float64), text_hashes(classes)
    order = np.argsort(row_hashes(rows, labels[columns]), kind="stable")
    halves = order[::2], order[1::2]
    if len(halves[1]) < MIN_ROWS:
        return None
    unchanged = OutputFilter.from_plan({}, classes=classes, kind="logits")

    def probabilities(at: Columns, temperature: float) -> Float64s:
        given, own = at_temperature(exact[at], kind, temperature)
        return given if own == "probabilities" else np.asarray(unchanged.apply(given), np.float64)

    calibrated = np.empty_like(exact)
    for fitted, judged in (halves, halves[::-1]):
        try:
            of_half = fit_temperature(exact[fitted], kind, columns[fitted])
        except UnlabelError:  # no temperature fits half of the rows
            return None
        calibrated[judged] = probabilities(judged, of_half)
    names = [classes[column] for column in columns.tolist()]
    before, after = (
        reliability_bins(each, names, classes).calibration_error
        for each in (probabilities(np.arange(len(rows)), 1.0), calibrated)
    )
    return Calibration(fit_temperature(exact, kind, columns), before, after)
