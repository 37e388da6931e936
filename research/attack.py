"""How well do outputs give away inputs of removed labels? An attack on all that may be seen.

python -m research.attack [TABLE --filter FILE [--label COLUMN] [--retrained TABLE ...]]

The rows of the tables are ones that the filter was not fitted on. Without a table, the outputs that
come with the package are attacked: filters and temperatures are fitted on one half of the rows of
each label, and all outputs are attacked on the other half.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from research.arrays import Floats
from unlabel import AnswerRule, OutputFilter, UnlabelError, metrics
from unlabel.evaluation import Trial, load_cifar10, try_filter

ROWS, FOLDS = 5000, 5
REMOVED_MASSES = (0.25, 0.5, 0.75)  # above each, an answer is unknown


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


def attacked(trial: Trial) -> dict[str, float]:
    """Attack all that may be seen of the models and filters of a trial."""
    if trial.labels is None:
        raise UnlabelError("There are no true labels: name their column with --label.")
    gone = np.isin(trial.labels, trial.fitted.removed)
    return {name: attack_auc(rows[gone], rows[~gone]) for name, rows in seen(trial).items()}


def seen(trial: Trial) -> dict[str, Floats]:
    """Return what may be seen: confidences, labels alone, and answers of unknown with either."""
    shown, fitted = trial.shown, trial.fitted
    models = {"base model": trial.base} | trial.candidates
    found = {name: model.output() for name, model in models.items()}
    for name in ("base model", shown, "retrained", "retrained again"):
        if name in models:
            width = found[name].shape[1]
            found[f"labels of {name}"] = np.eye(width)[found[name].argmax(axis=1)]
    answers = np.array([*fitted.classes_out, None], dtype=object)
    for most in REMOVED_MASSES:
        rule = AnswerRule(max_removed_mass=most)
        answered = fitted.answer(trial.base.rows[trial.row_numbers], rule)
        labels = (answered[:, np.newaxis] == answers).astype(np.float64)
        is_unknown = np.eye(2)[labels[:, -1].astype(np.intp)]
        unknown = f"unknown above {most}".replace("0.", ".")
        found[unknown] = is_unknown
        found[f"labels of {shown}, {unknown}"] = labels
        found[f"{shown}, {unknown}"] = np.hstack([found[shown], is_unknown])
    return found


def read(table: str, filter: str, label: str, retrained: Sequence[str]) -> Trial:
    """Read the outputs of a model, and those of up to two retrained ones."""
    from unlabel import tables  # needs libraries that `python -m research` does without

    fitted = OutputFilter.load(filter)
    if not fitted.removed:
        raise UnlabelError("It removes no label, so there is nothing to find.", path=filter)
    of_kind = partial(tables.read, kind=fitted.kind)
    rows = of_kind(table, classes=fitted.classes_in, label_column=label)
    stay = np.isin(fitted.classes_in, fitted.classes_out)
    outputs = []
    for path in retrained:  # true labels are the first table's: this model lacks the removed ones
        output = of_kind(path, classes=fitted.classes_out, label_column="(none)").confidences
        if np.array_equal(output, rows.confidences[:, stay]):
            raise UnlabelError("It has the first table's outputs: retrain a model.", path=path)
        outputs.append(output)
    return try_filter(fitted, rows.confidences, rows.labels, retrained=outputs)


def main() -> None:
    """Print a table of attack AUCs: of the table that is given, or of each forget set."""
    parser = argparse.ArgumentParser(prog="python -m research.attack")
    parser.add_argument("table", nargs="?", help="a model's outputs, with true labels")
    parser.add_argument("--filter", help="a filter that was fitted on other rows")
    parser.add_argument("--label", default="label", help="the column of true labels")
    retrained = "a retrained model's outputs for the same rows; repeat it for a second"
    parser.add_argument("--retrained", action="append", default=[], help=retrained)
    given = parser.parse_args()
    if (given.table is None) != (given.filter is None) or (given.retrained and not given.table):
        parser.error("give a table and --filter, or neither")
    try:
        if given.table is None:
            cifar10 = load_cifar10()
            found = {name: attacked(cifar10.trial(name)) for name in cifar10.removals}
        else:
            found = {"attack AUC": attacked(read(**vars(given)))}
    except (OSError, UnlabelError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    print("| what is seen |", " | ".join(found), "|")
    print("|---|" + "--:|" * len(found))
    for name in next(iter(found.values())):
        aucs = [f"{of[name]:.4f}".removeprefix("0") for of in found.values()]
        print(f"| {name} |", " | ".join(aucs), "|")


if __name__ == "__main__":
    main()
