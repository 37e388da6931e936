"""How well do outputs give away inputs of removed labels? An attack on those that are shipped.

python -m research.attack

Filters and temperatures are fitted on one half of the rows of each label, and all outputs are
attacked on the other half.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from research import filters
from research.arrays import Floats
from research.reference_rows import Task, shipped
from unlabel import UnlabelError, metrics

ROWS, FOLDS = 5000, 5


def attack_auc(removed_outputs: Floats, retained_outputs: Floats, *, seed: int = 0) -> float:
    """Measure how well outputs tell whether the label of an input is a removed one.

    0.5 is not at all, 1 is always. Inputs of a label it never saw look odd to a retrained model
    too, so compare with the retrained model's value.

    The attacker is a logistic regression on the logarithms of the outputs, each scaled to unit
    variance, with both kinds of input weighted alike. The value is the mean area under the ROC
    curve over 5 stratified folds, with at most 5,000 rows of each kind, drawn by `seed`. Boosted
    trees and forests found up to .014 more on CIFAR outputs and took ten to a hundred times as
    long.

    Examples
    --------
    >>> unsure, sure = [[.6, .4], [.5, .5]] * 5, [[.9, .1], [.2, .8]] * 5
    >>> attack_auc(np.array(unsure), np.array(sure))
    1.0
    """
    kinds = retained_outputs, removed_outputs
    if min(map(len, kinds)) < FOLDS:
        raise UnlabelError(
            f"There are {len(removed_outputs)} rows of removed and {len(retained_outputs)} of "
            f"retained labels: an attack needs at least {FOLDS} of each."
        )
    draw = np.random.default_rng(seed)
    drawn = [
        rows[np.sort(draw.choice(len(rows), min(len(rows), ROWS), replace=False))] for rows in kinds
    ]
    rows = np.vstack(drawn).astype(np.float64)
    rows /= rows.sum(axis=1, keepdims=True)
    clues = np.log(np.maximum(rows, metrics.EPSILON))
    is_removed = np.repeat([0, 1], [len(rows) for rows in drawn])
    regression = LogisticRegression(class_weight="balanced", max_iter=1000)
    attacker = make_pipeline(StandardScaler(), regression)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    with threadpool_limits(1):  # the products are too small for threads
        aucs = cross_val_score(attacker, clues, is_removed, cv=folds, scoring="roc_auc")
    return float(aucs.mean())


def attacked(task: Task) -> dict[str, float]:
    """Attack each output on the rows that nothing was fitted on."""
    own, judged = task.halves
    calibrated = filters.osr(task.logits[own], task.truth[own], task.removed, calibrate=True)
    outputs: dict[str, Floats] = {
        "OSR": task.full_output,
        "OSR, calibrated": calibrated.apply(task.judged),
        "mask": task.mask.apply(task.judged),
        "retrained": filters.softmax(task.retrained[judged]),
    }
    if task.retrained_again is not None:
        outputs["retrained again"] = filters.softmax(task.retrained_again[judged])
    gone = task.is_removed
    return {name: attack_auc(rows[gone], rows[~gone]) for name, rows in outputs.items()}


def main() -> None:
    """Print a table of the forget sets."""
    found = {name: attacked(task) for name, task in shipped().items()}
    print("| |", " | ".join(found), "|")
    print("|---" * (1 + len(found)) + "|")
    for output in next(iter(found.values())):
        print(f"| {output} |", " | ".join(f"{of[output]:.4f}" for of in found.values()), "|")


if __name__ == "__main__":
    main()
