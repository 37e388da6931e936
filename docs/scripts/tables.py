"""Writes the tables of the page on metrics, from the outputs that come with the package.

python docs/scripts/tables.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from unlabel import LabelPlan, OutputFilter, metrics
from unlabel._typing import Floats, Label
from unlabel.evaluation import load_cifar10, summarise
from unlabel.report.comparison import value_at

DOCS = Path(__file__).parents[1]
INFINITE = float("inf")
# Rows of the paper's tables, forget sets 1 to 4.
PAPER = {
    "A_R": {
        "base model": (0.9296, 0.9263, 0.9173, 0.9423),
        "retrained": (0.9314, 0.9325, 0.9243, 0.9823),
        "OSR": (0.9352, 0.9386, 0.9425, 0.9953),
    },
    "A_F": {
        "base model": (0.929, 0.9425, 0.9478, 0.924),
        "retrained": (0, 0, 0, 0),
        "OSR": (0, 0, 0, 0),
    },
    "Cov, retained": {
        "base model": (0.5222, 0.5125, 0.55, 0.4667),
        "retrained": (0.5432, 0.6094, 0.6944, 0.5556),
        "OSR": (0.4321, 0.375, 0.4444, 0.4444),
    },
    "Cov, removed": {
        "base model": (0.6, 0.6, 0.5, 0.5571),
        "retrained": (INFINITE,) * 4,
        "OSR": (INFINITE,) * 4,
    },
    "KL to retrained, inputs of retained labels": {"OSR": (0.1784, 0.1729, 0.2316, 0.0888)},
    "KL to retrained, inputs of removed labels": {"OSR": (1.082, 1.2932, 1.6925, 2.1947)},
    "KL to base, inputs of retained labels": {"OSR": (0.0030, 0.0087, 0.0154, 0.0077)},
    "KL to base, inputs of removed labels": {"OSR": (8.9727, 9.3584, 10.3125, 11.5819)},
}
JUDGED = (
    "OSR",
    "OSR, calibrated",
    "mask, calibrated",
    "retrained again",
    "retrained again, calibrated",
)
OUTPUTS = ("base model", "retrained", "OSR", "mask", "retrained again")


def as_in_the_paper() -> dict[str, dict[str, list[float]]]:
    """Compute our values, with filters fitted on the rows they are judged on."""
    sample = load_cifar10()
    truth, classes = sample.labels, sample.classes
    base = softmax(sample.base, classes)
    result: dict[str, dict[str, list[float]]] = {
        metric: {output: [] for output in OUTPUTS} for metric in PAPER
    }
    for removal in sample.removals.values():
        plan = LabelPlan(removal.removed)
        mask = OutputFilter.from_plan(plan, classes=classes, kind="logits")
        osr = OutputFilter.fit(sample.base, truth, classes=classes, plan=plan, kind="logits")
        retained = mask.classes_out
        gone = np.isin(truth, removal.removed)
        retrained, again = (softmax(logits, retained) for logits in removal.retrained)
        outputs: dict[str, tuple[Floats, Sequence[Label]]] = {
            "base model": (base, classes),
            "retrained": (retrained, retained),
            "retrained again": (again, retained),
            "OSR": (osr.apply(sample.base), retained),
            "mask": (mask.apply(sample.base), retained),
        }
        for name, (rows, columns) in outputs.items():
            values = {
                "A_R": metrics.mean_accuracy(rows, truth, columns, retained),
                "A_F": metrics.mean_accuracy(rows, truth, columns, removal.removed),
                "Cov, retained": metrics.coverage(rows, truth, columns, retained).value,
                "Cov, removed": metrics.coverage(rows, truth, columns, removal.removed).value,
            }
            if name != "base model":
                to_retrained = metrics.kl_divergence(rows, retrained)
                to_base = metrics.kl_divergence(metrics.on_all(rows, columns, classes), base)
                for kind, of_kind in (("retained", ~gone), ("removed", gone)):
                    values[f"KL to base, inputs of {kind} labels"] = to_base[of_kind].mean()
                    if name != "retrained":
                        kl = to_retrained[of_kind].mean()
                        values[f"KL to retrained, inputs of {kind} labels"] = kl
            for metric, value in values.items():
                result[metric][name].append(float(value))
    return result


def softmax(logits: Floats, classes: Sequence[Label]) -> Floats:
    """Turn logits into probabilities, in the rounding of the filters that they are beside."""
    return OutputFilter.from_plan({}, classes=classes, kind="logits").apply(logits)


def paper_table() -> Iterator[str]:
    """Write the paper's values / ours."""
    yield "| | | F1 | F2 | F3 | F4 |"
    yield "|---|---|---|---|---|---|"
    for metric, outputs in as_in_the_paper().items():
        heading = metric
        for name, values in outputs.items():
            if values:
                paper = map(_short, PAPER[metric].get(name, (None,) * 4))
                pairs = zip(paper, map(_short, values), strict=True)
                yield f"| {heading} | {name} | " + " | ".join(" / ".join(p) for p in pairs) + " |"
                heading = ""


def calibration_table() -> Iterator[str]:
    """Write the gains and costs of calibration, judged on rows that nothing was fitted on."""
    sample = load_cifar10()
    sets = [summarise(sample.trial(name)) for name in sample.removals]
    yield "| | | F1 | F2 | F3 | F4 |"
    yield "|---|---|---|---|---|---|"
    for heading, path in (
        ("log-loss", ("log_loss",)),
        ("A_R", ("accuracy", "retained")),
        ("calibration error", ("calibration_error",)),
        ("KL to retrained, inputs of retained labels", ("to_retrained", "kl", "retained")),
        ("KL to retrained, inputs of removed labels", ("to_retrained", "kl", "removed")),
    ):
        for i, name in enumerate(JUDGED):
            entries = [next(e for e in s["figures"] if e["output"] == name) for s in sets]
            cells = " | ".join(_short(value_at(entry, path)) for entry in entries)
            yield f"| {heading if i == 0 else ''} | {name} | {cells} |"


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    if np.isinf(value):
        return "∞"
    return f"{value:.3f}" if value >= 1 else f"{value:.4f}".removeprefix("0") if value else "0"


TABLES = {"paper.md": paper_table, "calibration.md": calibration_table}

if __name__ == "__main__":
    for name, table in TABLES.items():
        (DOCS / "tables" / name).write_text("\n".join(table()) + "\n", encoding="utf-8")
