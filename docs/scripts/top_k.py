"""Measures how many top-k answers of a real network are certain once labels are removed.

    python docs/scripts/top_k.py

prints the table of the guide "Predictions as they come", measured on the outputs that come with the
package.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from unlabel import OutputFilter
from unlabel._partial import filter_partial
from unlabel._typing import Floats
from unlabel.evaluation.samples import load_cifar10

HEADER = (
    "| removed | k | no answer | same answer as the whole row | certain | certain with `--top-k` "
    "| mean width of intervals |"
)


def named_top(rows: Floats, k: int) -> Floats:
    """Keep the k largest entries of each row, and do not name the others."""
    smallest = np.sort(rows, axis=1)[:, -k, None]
    return np.where(rows >= smallest, rows, np.nan)


def table() -> str:
    """Measure the table, in Markdown."""
    outputs = load_cifar10()
    rows = softmax(outputs.base.astype(np.float64), axis=1)
    lines = [HEADER, "|---" + "|--:" * 6 + "|"]
    for removal in outputs.removals.values():
        mask = OutputFilter.mask(outputs.classes, removal.removed)
        whole = mask.apply(rows)
        for k in (1, 3, 5):
            top = named_top(rows, k)
            some, largest = filter_partial(mask, top), filter_partial(mask, top, largest=True)
            for found in (some, largest):
                named = ~np.isnan(found.lower)
                assert (found.lower <= whole + 1e-12)[named].all()
                assert (whole <= found.upper + 1e-12)[named].all()
                assert (found.top == whole.argmax(axis=1))[found.certain].all()
            is_same = some.top == whole.argmax(axis=1)
            width = np.nanmean(some.upper - some.lower)
            counted = (some.top < 0, is_same, some.certain, largest.certain)
            cells = [f"{of_rows.mean():.1%}" for of_rows in counted]
            names = ", ".join(removal.removed)
            lines.append(f"| {names} | {k} | {' | '.join(cells)} | {width:.4f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
