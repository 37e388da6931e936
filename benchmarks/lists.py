"""Lists of allowed labels that differ from row to row, against one mask for all rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from timing import timed
from unlabel import LabelPlan, OutputFilter
from workload import confidences

ROWS, LABELS, LISTS, LIST_LENGTH = 1_000_000, 100, 1_000, 40
BAR = 3.0
# A file of so many lists, over so many labels, is read in so many seconds.
FILE_LISTS, FILE_LABELS, SECONDS = 250, 2_000, 1.0


def measure_lists(rng: np.random.Generator, repeats: int, part: int) -> dict[str, Any]:
    """Divide the best time of lists by that of a mask, and time the reading of a file."""
    rows = confidences(rng, ROWS // part, LABELS)[0]
    labels = [f"label {number}" for number in range(LABELS)]
    names = [f"list {number}" for number in range(LISTS)]
    fitted = OutputFilter.from_plan(LabelPlan(labels[:5]), classes=labels)
    lists = {name: rng.permutation(labels[5:])[:LIST_LENGTH] for name in names}
    of_rows = [names[number] for number in rng.integers(LISTS, size=len(rows))]
    times = timed(
        {
            "mask": partial(fitted.apply, rows),
            "one list": partial(fitted.apply, rows, allow=labels[5 : 5 + LIST_LENGTH]),
            "lists": partial(fitted.apply, rows, allow=lists, allow_by=of_rows),
        },
        repeats,
    )
    found: dict[str, Any] = {"rows": len(rows), "labels": LABELS, "number of lists": LISTS}
    found |= {name: min(times[name]) / min(times["mask"]) for name in ("one list", "lists")}
    return found | {"seconds to read": seconds_to_read(repeats)}


def seconds_to_read(repeats: int) -> float:
    """Time a row with a file of lists, each of which allows every label but a few."""
    labels = [f"a species of the genus {label}" for label in range(FILE_LABELS)]
    pairs = (
        f"country {number},{labels[label]}"
        for number in range(FILE_LISTS)
        for label in range(FILE_LABELS)
        if (label + number) % 97
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "lists.csv"
        path.write_text("\n".join(["list,label", *pairs]))
        fitted = OutputFilter.from_plan({}, classes=labels)
        row = np.full((1, FILE_LABELS), 1 / FILE_LABELS)
        read = partial(fitted.apply, row, allow=path, allow_by=["country 0"])
        times = timed({"read": read}, min(repeats, 3))
    return min(times["read"])
