"""Intervals of A_R over all 10,000 test rows of CIFAR-100, of which a fifth is stored.

python -m research.all_rows DATA

DATA has ``cifar100-resnet18-s0.npz``, s1 and so on, one file per training: ``F0_ref``, the base
model's logits on training images, and ``y_ref``, their labels; ``F0_test``, ``y_test`` and
``F1_test`` to ``F4_test``, the logits of retrained models. The intervals alone are stored.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from research import filters
from research.arrays import Array
from research.registry import DATASETS
from research.tables.intervals import ALL_ROWS, Right, differences

SET, ARCHITECTURE = "cifar100", "resnet18"
PAPER = Path(__file__).parent / "stored" / "paper"


def rows_right(stored: dict[str, Array], forget: str, removed: Sequence[int]) -> Right:
    """Return which rows OSR, mask and the retrained model of a training have right."""
    logits, truth = stored["F0_test"].astype(np.float64), stored["y_test"]
    own = np.isin(stored["y_ref"], removed)
    outputs = {
        "osr": filters.osr(stored["F0_ref"][own], stored["y_ref"][own], removed).apply(logits),
        "mask": filters.mask(logits.shape[1], removed).apply(logits),
        "retrain": stored[f"{forget}_test"],
    }
    retained = np.delete(np.arange(logits.shape[1]), removed)
    return {method: retained[rows.argmax(axis=1)] == truth for method, rows in outputs.items()}


def main() -> None:
    """Measure the intervals, and write them beside the network's results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path, help="the folder of outputs")
    parser.add_argument("--out", type=Path, default=PAPER, help="the folder of results")
    options = parser.parse_args()
    paths = sorted(options.data.glob(f"{SET}-{ARCHITECTURE}-s*.npz"))
    if not paths:
        raise SystemExit(f"{options.data} has no {SET}-{ARCHITECTURE}-s0.npz.")
    trainings = [dict(np.load(path, allow_pickle=False)) for path in paths]
    truth, n_reference = trainings[0]["y_test"].astype(np.int64), len(trainings[0]["y_ref"])
    found = {}
    for number, removed in enumerate(DATASETS[SET].forget, start=1):
        right = [rows_right(stored, f"F{number}", removed) for stored in trainings]
        kept = np.where(np.isin(truth, removed), -1, truth)
        found[f"F{number}"] = {
            method: spread._asdict() for method, spread in differences(right, kept).items()
        }
    about = (
        f"Rows named all rows are over all {len(truth):,} test images, with {len(trainings)} other "
        f"trainings of this network, for which OSR had {n_reference:,} training images."
    )
    text = json.dumps({"about": about, "differences": found}, indent=1, sort_keys=True)
    (options.out / SET / ARCHITECTURE / ALL_ROWS).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
