"""Answers of unknown to rows with much removed mass: their share, and the threshold to choose."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from unlabel._typing import Float64s
from unlabel.errors import UnlabelError

ROUNDING = 1e-6  # by which a sum of probabilities may miss 1


def unknown_share(removed_mass: Any, above: Any) -> Float64s:
    """Compute the share of rows whose removed mass is above each threshold.

    Those are the rows that are answered with unknown. Of inputs of removed labels, it is the share
    that is caught; of inputs of retained labels, the share that is lost. NaN without rows.

    Parameters
    ----------
    removed_mass : array of shape (n_rows,)
    above : array of thresholds

    Returns
    -------
    array of the shape of `above`

    Examples
    --------
    >>> unknown_share([.1, .5, .6, .9], [0, .5, .9])
    array([1. , 0.5, 0. ])
    """
    mass = np.sort(_masses(removed_mass))
    n_above = len(mass) - np.searchsorted(mass, np.asarray(above, dtype=np.float64), side="right")
    with np.errstate(invalid="ignore"):
        return np.asarray(np.divide(n_above, len(mass)))


def unknown_threshold(removed_mass_of_retained_rows: Any, loss: float = 0.01) -> float:
    """Choose the threshold for unknown from the share of rows that may be lost.

    It is the smallest threshold, from 0 to 1, that at most that share of the rows lies above. A row
    at the threshold is not above it. So no smaller threshold, which would catch more inputs of
    removed labels, loses as little on these rows.

    Parameters
    ----------
    removed_mass_of_retained_rows : array of shape (n_rows,)
        The removed mass (``OutputFilter.run``) of rows of retained labels, like those to come.
    loss : float, default 0.01
        The largest share of them to answer with unknown.

    Examples
    --------
    >>> unknown_threshold([0, .02, .04, .3], loss=.25)
    0.04
    >>> unknown_threshold([0, .02, .04, .3], loss=0)
    0.3
    """
    mass = np.sort(_masses(removed_mass_of_retained_rows))
    if not len(mass):
        raise UnlabelError("There are no rows of retained labels: give the removed mass of some.")
    if not isinstance(loss, Real) or not 0 <= loss <= 1:
        problem = f"The loss {loss!r} is not a share of rows: give a number from 0 to 1."
        raise UnlabelError(problem, argument="loss")
    # Shares are compared, not numbers of rows: 0.29 * 100 is less than 29.
    shares = np.arange(len(mass) + 1) / len(mass)
    n_lost = int(np.searchsorted(shares, loss, side="right")) - 1
    return min(float(mass[-1 - n_lost]), 1.0) if n_lost < len(mass) else 0.0


def _masses(values: Any) -> Float64s:
    try:
        mass = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UnlabelError("The removed masses are not an array of numbers.") from error
    if mass.ndim != 1:
        raise UnlabelError(f"The removed masses have the shape {mass.shape}: give one per row.")
    bad = ~((mass >= 0) & (mass <= 1 + ROUNDING))
    if bad.any():
        row = int(np.argmax(bad))
        raise UnlabelError(f"the removed mass is {mass[row]:g}: give 0 to 1.", row=row)
    return mass
