"""Writes the tables of the guide "Calibrate", from the results of benchmarks/calibration.py.

python docs/scripts/merges_table.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import mean
from typing import Any

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "benchmarks" / "results" / "calibration.json"
MERGES, WRONG = "calibrated-merges.md", "calibrated-wrong-labels.md"
SHOWN = (
    "accuracy.mapped",
    "accuracy.sums",
    "accuracy.calibrated",
    "log_loss.sums",
    "log_loss.calibrated",
)

KINDS = {
    "any": "any wrong label",
    "nearly impossible": "a label with a confidence below 1e-9",
}

Results = dict[str, Any]
Merge = dict[str, Any]


def merges_table(results: Results) -> Iterator[str]:
    """Write every merge as a row, and what the merges of a model come to together."""
    merges = results["merges"]
    yield from _rows(merges)
    yield ""
    yield from _found(merges, results["halves"])


def wrong_labels_table(results: Results) -> Iterator[str]:
    """Write the temperatures without and with wrong labels."""
    share = f"{results['wrong_share']:.0%}"
    yield f"| model | {share} of the labels | the temperature | by plain log-loss |"
    yield "|---|---|---|---|"
    for model, of_model in groupby(results["wrong"], key=_model):
        heading = model
        for each in of_model:
            robust, plain = (
                " to ".join(f"{value:.2f}" for value in each[name]) for name in ("robust", "plain")
            )
            yield f"| {heading} | {KINDS[each['labels']]} | {robust} | {plain} |"
            heading = ""


def _rows(merges: list[Merge]) -> Iterator[str]:
    yield "| model | merged | mapped | summed | calibrated | log-loss, summed | calibrated |"
    yield "|---|---|---|---|---|---|---|"
    for model, of_model in groupby(merges, key=_model):
        heading = model
        for merge in of_model:
            into = f"{merge['merge']}: {merge['labels']} into {merge['into']}"
            cells = " | ".join(f"{merge[name]:.4f}".removeprefix("0") for name in SHOWN)
            yield f"| {heading} | {into} | {cells} |"
            heading = ""


def _found(merges: list[Merge], halves: int) -> Iterator[str]:
    furthest = max(abs(each["accuracy.calibrated"] - each["accuracy.sums"]) for each in merges)
    yield (
        f"Each value is the mean over {halves} random halves of a model's rows. Over all of them, "
        f"{_lower(merges, halves)}. The accuracy is within {100 * furthest:.2f} points of that of "
        "the plain sums."
    )
    yield ""
    for model, of_model in groupby(merges, key=_model):
        chosen = [*of_model]
        gain = 100 * mean(each["accuracy.calibrated"] - each["accuracy.mapped"] for each in chosen)
        heat = mean(each["temperature"] for each in chosen)
        yield (
            f"- **{model}**: temperature {heat:.2f}; calibrated sums are {abs(gain):.2f} points "
            f"{'more' if gain >= 0 else 'less'} accurate than mapping, in the mean over the "
            f"merges; {_lower(chosen, halves)}."
        )


def _lower(merges: list[Merge], halves: int) -> str:
    """Return in how many merges, and halves of them, the temperature lowers the log-loss."""
    lower = [each for each in merges if each["log_loss.calibrated"] < each["log_loss.sums"]]
    every = sum(each["halves_with_lower_log_loss"] for each in merges)
    which = "each merge" if len(lower) == len(merges) else f"{len(lower)} of {len(merges)} merges"
    return f"the log-loss is lower in {which}, and in {every} of {halves * len(merges)} halves"


def _model(merge: Merge) -> str:
    return str(merge["model"])


TABLES = {MERGES: merges_table, WRONG: wrong_labels_table}

if __name__ == "__main__":
    measured = json.loads(RESULTS.read_text())
    for name, table in TABLES.items():
        (DOCS / "tables" / name).write_text("\n".join([*table(measured), ""]), encoding="utf-8")
