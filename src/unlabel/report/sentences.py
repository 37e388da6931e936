"""What the sentences of the page say, taken from the summary."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from unlabel._labels import label_key
from unlabel._typing import Label
from unlabel.evaluation.summary import Summary
from unlabel.evaluation.trial import AGAIN, CALIBRATED, NAMES, RETRAINED
from unlabel.report.formatting import name

MOST_NAMED = 8
LONGEST_TITLE = 90
DESTINATIONS_NAMED = 3


class Facts(NamedTuple):
    """The figures of each output, None for what is not there, and what follows from them."""

    base: Summary
    shown: Summary
    calibrated: Summary | None
    retrained: Summary | None
    retrained_calibrated: Summary | None
    again: Summary | None
    again_calibrated: Summary | None
    named: bool
    n_labels: int
    mostly_to: list[Label]
    net_right: int | None
    apart: Apart | None


class Apart(NamedTuple):
    """The figure in which OSR and mask differ most."""

    what: str
    osr: float
    mask: float
    share: float


def gather(summary: Summary) -> Facts:
    """Gather what the sentences of the page need."""
    outputs = {entry["output"]: entry for entry in summary["figures"]}
    shown, removed = summary["shown"], summary["labels"]["removed"]
    return Facts(
        base=summary["figures"][0],
        shown=outputs[shown],
        calibrated=outputs.get(shown + CALIBRATED),
        retrained=outputs.get(RETRAINED),
        retrained_calibrated=outputs.get(RETRAINED + CALIBRATED),
        again=outputs.get(AGAIN),
        again_calibrated=outputs.get(AGAIN + CALIBRATED),
        named=len(removed) <= MOST_NAMED and sum(len(name(x)) for x in removed) <= LONGEST_TITLE,
        n_labels=len(removed) + len(summary["labels"]["retained"]),
        mostly_to=_mostly_to(summary),
        net_right=_net_right(summary),
        apart=_apart(outputs.get(NAMES["osr"]), outputs.get(NAMES["mask"])),
    )


def _mostly_to(summary: Summary) -> list[Label]:
    """The fewest labels with over half of the confidence on inputs of removed labels, if few."""
    taken: Counter[str] = Counter()
    labels = {}
    for origin in summary["destinations"]:
        for to in origin["to"]:
            key = label_key(to["label"])
            labels[key] = to["label"]
            taken[key] += origin["rows"] * to["share"]
    most: list[Label] = []
    left = summary["rows"]["of_removed_labels"] / 2
    for key, mass in taken.most_common(DESTINATIONS_NAMED):
        most.append(labels[key])
        left -= mass
        if left < 0:
            return most if len(most) < len(summary["labels"]["retained"]) else []
    return []


def _net_right(summary: Summary) -> int | None:
    """How many more inputs of retained labels are right after than before."""
    gains = [
        entry["rows"] * (entry["after"] - entry["before"])
        for entry in summary["by_label"]
        if entry["after"] is not None and entry["before"] is not None
    ]
    return round(sum(gains)) if gains else None


def _apart(osr: Summary | None, mask: Summary | None) -> Apart | None:
    if osr is None or mask is None:
        return None
    differences = [
        Apart(what, a, b, abs(a - b) / b)
        for (what, a), (_, b) in zip(_measured(osr), _measured(mask), strict=True)
        if a is not None and b
    ]
    return max(differences, key=lambda apart: apart.share, default=None)


def _measured(entry: Summary) -> list[tuple[str, Any]]:
    kinds = {"retained": "inputs of labels that remain", "removed": "inputs of removed labels"}
    to_retrained = entry["to_retrained"] or {}
    return [
        ("the accuracy on labels that remain", entry["accuracy"]["retained"]),
        ("the coverage", entry["coverage"]["retained"]),
        ("the log-loss", entry["log_loss"]),
        ("the calibration error", entry["calibration_error"]),
        ("the attack AUC", entry["attack_auc"]),
        *((f"the share of changed {kinds[kind]}", of) for kind, of in entry["changed"].items()),
        *((f"the KL to the base model on {kinds[k]}", of) for k, of in entry["kl_to_base"].items()),
        *(
            (f"the {measure.upper()} to the retrained model on {kinds[kind]}", of)
            for measure, values in to_retrained.items()
            for kind, of in values.items()
        ),
    ]
