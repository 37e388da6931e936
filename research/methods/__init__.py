"""The compared methods, one per file. Each takes a task and returns an outcome."""

from __future__ import annotations

from collections.abc import Callable

from research.methods import linear_filtration, mask, nhle_cwm, osr, retrain, unsir
from research.task import Outcome, Task

RUN: dict[str, Callable[[Task], Outcome]] = {
    "osr": osr.run,
    "mask": mask.run,
    "linear_filtration": linear_filtration.run,
    "unsir": unsir.run,
    "nhle_cwm": nhle_cwm.run,
    "retrain": retrain.run,
}
