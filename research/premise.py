"""How nearly OSR's premise holds, and what Algorithm 1 to the letter does to committed outputs.

python -m research.premise > docs/tables/premise.md

The premise: a label's mean vector c is parallel to outputs for its own inputs (c is the mean of its
other rows then) and orthogonal to all others.
"""

from __future__ import annotations

import numpy as np

from research import filters, letter
from research.arrays import Array, Floats
from research.results import PAPER
from research.results.files import read_result, stored_cells
from unlabel import metrics

PREMISE = "| own rows | lowest label | other rows | highest label | mean residual of own rows |"
LETTER = "| largest entry | Cov_R of OSR | letter, clamped at the end | clamped after each label |"


def premise(rows: Floats, truth: Array) -> list[float]:
    """Return the median cosine to c, over all labels and of one, and the mean residual."""
    own = np.eye(rows.shape[1], dtype=bool)[truth]
    sums = own.T @ rows
    c, lengths = sums[truth] - rows, np.linalg.norm(rows, axis=1)  # c is up to a factor
    cosines = rows @ (sums / np.linalg.norm(sums, axis=1)[:, None]).T / lengths[:, None]
    along = (rows * c).sum(axis=1) / np.linalg.norm(c, axis=1)
    cosines[own] = along / lengths
    rho = (rows[own] - along * c[own] / np.linalg.norm(c, axis=1)).clip(0, 1)
    lowest = min(np.median(x[of]) for x, of in zip(cosines.T, own.T, strict=True))
    highest = max(np.median(x[~of]) for x, of in zip(cosines.T, own.T, strict=True))
    medians = np.median(cosines[own]), lowest, np.median(cosines[~own]), highest
    return [float(value) for value in (*medians, rho.mean())]


def audit(rows: Floats, truth: Array, removed: list[int]) -> list[float]:
    """Return the letter's largest entry, and the coverage of OSR and of two ways to clamp."""
    kept = [label for label in range(rows.shape[1]) if label not in removed]
    osr = filters.osr(rows, truth, removed, kind="probabilities").apply(rows)
    raw = letter.remove(rows, truth, removed)
    outputs = osr, raw.clip(0), letter.remove(rows, truth, removed, least=0.0)
    coverage = [metrics.coverage(output, truth, kept, kept).value for output in outputs]
    return [float(np.abs(raw).max()), *coverage]


def tables() -> str:
    """Lay out the values of all committed networks and cells in Markdown."""
    found: dict[str, list[str]] = {PREMISE: [], LETTER: []}
    cells = stored_cells(PAPER)
    for cell in cells:
        if cell.base not in cells:
            continue
        base, removed = read_result(PAPER, cell.base).arrays, [*cell.removed]
        rows, truth = filters.softmax(base["base"].astype(np.float64)), base["labels"]
        values = audit(rows, truth, removed) if removed else premise(rows, truth)
        shown = " | ".join(f"{value:.4g}".removeprefix("0") for value in values)
        found[LETTER if removed else PREMISE].append(f"| {cell} | {shown} |")
    parts = ["\n".join([f"| {h}", "|---" * h.count("|") + "|", *found[h], ""]) for h in found]
    return "\n".join(parts)


if __name__ == "__main__":
    print(tables(), end="")
