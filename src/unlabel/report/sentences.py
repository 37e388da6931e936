"""The facts that the page's sentences state, taken from the summary."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from unlabel._typing import Label
from unlabel.evaluation.summary import Summary
from unlabel.evaluation.trial import AGAIN, CALIBRATED, NAMES, RETRAINED
from unlabel.report.changes import describe
from unlabel.report.comparison import INPUTS, value_at

DESTINATIONS_NAMED = 3


class Apart(NamedTuple):
    """The metric in which OSR and mask differ most."""

    metric: str
    osr: float
    mask: float
    share: float


# The metrics in which OSR and mask are compared, by their paths in the summary.
COMPARED = {
    ("accuracy", "retained"): "the accuracy on retained labels",
    ("share_right", "retained"): "the share of rows of retained labels that are right",
    ("coverage", "retained"): "the coverage",
    ("log_loss",): "the log-loss",
    ("calibration_error",): "the calibration error",
} | {
    (*path, kind): f"the {metric} {inputs}"
    for metric, path in {
        "share of changed": ("changed",),
        "KL to the base model on": ("kl_to_base",),
        "KL to the retrained model on": ("to_retrained", "kl"),
        "JS to the retrained model on": ("to_retrained", "js"),
    }.items()
    for kind, inputs in INPUTS.items()
}


def gather(summary: Summary) -> dict[str, Any]:
    """Gather the metrics of each output, None for one that is missing, and conclusions."""
    outputs = {entry["output"]: entry for entry in summary["figures"]}
    shown = summary["shown"]
    return {
        "base": summary["figures"][0],
        "shown": outputs[shown],
        "calibrated": outputs.get(shown + CALIBRATED),
        "retrained": outputs.get(RETRAINED),
        "again": outputs.get(AGAIN),
        "rival_calibrated": outputs.get(AGAIN + CALIBRATED) or outputs.get(RETRAINED + CALIBRATED),
        "n_labels": len(summary["labels"]["model"]),
        "n_split": sum(len(change["to"]) > 1 for change in summary["labels"]["changes"]),
        "changes": describe(summary),
        "mostly_to": _mostly_to(summary),
        "unknown": unknown_at_half(summary),
        "apart": _apart(outputs),
        "unknown_at": unknown_at(summary["impact"]["rule"]),
    }


def unknown_at_half(summary: Summary) -> Summary | None:
    """Find the shares that unknown catches and loses above .5; None if no label is removed."""
    return next((at for at in summary["unknown"] if at["above"] == 0.5), None)


def _mostly_to(summary: Summary) -> list[Label]:
    """Find the fewest labels with over half of the confidence on removed inputs, if few."""
    mass: Counter[Label] = Counter()
    for origin in summary["destinations"]:
        for to in origin["to"]:
            mass[to["label"]] += origin["rows"] * to["share"]
    most: list[Label] = []
    left = summary["rows"]["of_removed_labels"] / 2
    for label, taken in mass.most_common(DESTINATIONS_NAMED):
        most.append(label)
        left -= taken
        if left < 0:
            return most if len(most) < len(summary["labels"]["retained"]) else []
    return []


def unknown_at(rule: Summary | None) -> str:
    """Name what makes an answer unknown by a rule, nothing if no answer is.

    >>> rule = {"max_removed_mass": 0.5, "min_confidence": 0.25, "min_confidence_by_label": []}
    >>> unknown_at(rule)
    'a removed mass above 0.5 or a confidence below 0.25'
    """
    if rule is None:
        return ""
    parts = [f"a removed mass above {rule['max_removed_mass']:g}"]
    if rule["min_confidence_by_label"]:
        parts.append("a confidence below what the label needs")
    elif rule["min_confidence"]:
        parts.append(f"a confidence below {rule['min_confidence']:g}")
    return " or ".join(parts if rule["max_removed_mass"] < 1 else parts[1:])


def _apart(outputs: dict[str, Summary]) -> Apart | None:
    """Compare OSR with mask, both as they are or, for a calibrated filter, both calibrated."""
    variant = "" if NAMES["osr"] in outputs else CALIBRATED
    osr, mask = (outputs.get(NAMES[method] + variant) for method in ("osr", "mask"))
    if osr is None or mask is None:
        return None
    differences = []
    for path, metric in COMPARED.items():
        a, b = value_at(osr, path), value_at(mask, path)
        if a is not None and b:
            differences.append(Apart(metric, a, b, abs(a - b) / b))
    return max(differences, key=lambda apart: apart.share, default=None)
