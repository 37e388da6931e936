"""How nearly OSR's premise holds, and what Algorithm 1 to the letter does to committed outputs.

python -m research.premise > docs/tables/premise.md

The premise: a label's mean vector c is parallel to outputs for its own inputs, and orthogonal to
all others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from research import filters, letter
from research.arrays import Array, Float64s, Floats
from research.results.files import read_result, stored_cells
from unlabel import metrics

PAPER = Path(__file__).parent / "stored" / "paper"
PREMISE = (
    "| own rows | its lowest label | other rows | its highest label | mean residual of own rows |"
)
LETTER = "| largest entry | Cov_R of OSR | letter, clamped at the end | clamped after each label |"


def premise(rows: Floats, truth: Array) -> list[float]:
    """Return the median cosine to c, over all labels and of one, and the mean residual."""
    means = np.stack([rows[truth == label].mean(axis=0) for label in range(rows.shape[1])])
    lengths, own = np.linalg.norm(means, axis=1), np.eye(len(means), dtype=bool)[truth]
    along = rows @ (means / lengths[:, None]).T
    rho = (rows - along * np.diag(means) / lengths).clip(0, 1)
    cosines = along / np.linalg.norm(rows, axis=1)[:, None]
    lowest = min(np.median(c[of]) for c, of in zip(cosines.T, own.T, strict=True))
    highest = max(np.median(c[~of]) for c, of in zip(cosines.T, own.T, strict=True))
    medians = np.median(cosines[own]), lowest, np.median(cosines[~own]), highest
    return [float(value) for value in (*medians, rho[own].mean())]


def by_letter(rows: Floats, truth: Array, removed: list[int], least: float = -np.inf) -> Float64s:
    """Remove labels by the letter; entries below `least` are raised to it after each label."""
    left, result = list(range(rows.shape[1])), rows.astype(np.float64)
    for label in removed:
        steps = letter.fit([result[truth == label]], [left.index(label)], len(left))
        result = np.maximum(letter.apply(result, steps), least)
        left.remove(label)
    return result


def audit(rows: Floats, truth: Array, removed: list[int]) -> list[float]:
    """Return the letter's largest entry, and the coverage of OSR and of two ways to clamp."""
    kept = [label for label in range(rows.shape[1]) if label not in removed]
    osr = filters.osr(rows, truth, removed, kind="probabilities").apply(rows)
    raw = by_letter(rows, truth, removed)
    outputs = osr, raw.clip(0), by_letter(rows, truth, removed, 0.0)
    coverage = [metrics.coverage(output, truth, kept, kept).value for output in outputs]
    return [float(np.abs(raw).max()), *coverage]


def tables() -> str:
    """Lay out the values of all committed networks and cells in Markdown."""
    found: dict[str, list[str]] = {PREMISE: [], LETTER: []}
    for cell in stored_cells(PAPER):
        base, result = read_result(PAPER, cell.base), read_result(PAPER, cell)
        if base is None or result is None:
            continue
        rows = filters.softmax(base.arrays["base"].astype(np.float64))
        truth, removed = base.arrays["labels"], result.facts["removed"]
        values = audit(rows, truth, removed) if removed else premise(rows, truth)
        shown = " | ".join(f"{value:.4g}".removeprefix("0") for value in values)
        found[LETTER if removed else PREMISE].append(f"| {cell} | {shown} |")
    parts = ["\n".join([f"| {h}", "|---" * h.count("|") + "|", *found[h], ""]) for h in found]
    return "\n".join(parts)


if __name__ == "__main__":
    print(tables(), end="")
