"""Measures how many top-k answers of a real network are certain once labels are removed.

    python docs/scripts/top_k.py

writes the table of the guide "Input formats", measured on the outputs that come with the package.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.special import softmax

from unlabel import OutputFilter
from unlabel._tables.partial import filter_partial
from unlabel._typing import Floats
from unlabel.evaluation.samples import load_cifar10

HEADER = "| removed | k | no answer | same answer as the whole row | certain |"
TABLE = Path(__file__).parents[1] / "tables" / "top-k.md"


def named_top(rows: Floats, k: int) -> Floats:
    """Keep the k largest entries of each row, and do not name the others."""
    smallest = np.sort(rows, axis=1)[:, -k, None]
    return np.where(rows >= smallest, rows, np.nan)


def table() -> str:
    """Measure the table, in Markdown."""
    outputs = load_cifar10()
    rows = softmax(outputs.base.astype(np.float64), axis=1)
    lines = [HEADER, "|---" + "|--:" * 4 + "|"]
    for removal in outputs.removals.values():
        mask = OutputFilter.from_plan(dict.fromkeys(removal.removed), classes=outputs.classes)
        whole = mask.apply(rows).argmax(axis=1)
        for k in (1, 3, 5):
            found = filter_partial(mask, named_top(rows, k))
            is_same = ~found.only_removed
            is_same[is_same] &= np.nanargmax(found.confidences[is_same], axis=1) == whole[is_same]
            assert is_same[found.certain].all()
            cells = [f"{of.mean():.1%}" for of in (found.only_removed, is_same, found.certain)]
            lines.append(f"| {', '.join(removal.removed)} | {k} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
