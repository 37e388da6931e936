"""Make `answers.npz`: rows, and the answers to them by the plain implementation.

PYTHONPATH=tests/helpers python tests/golden/make_answers.py
"""

from pathlib import Path

import numpy as np

import plain_answers
import plain_plan

LABELS = ["ant", "bee", "cat", "dog", "emu", "fox"]
CHANGES = {"fox": None, "ant": "insect", "bee": "insect"}
LISTS = {"farm": ["insect", "dog"], "house": ["cat", "dog"], "zoo": ["emu"]}
MOST_REMOVED = 0.4


def drawn_rows(seed, count):
    logits = np.random.default_rng(seed).normal(scale=2, size=(count, len(LABELS)))
    rows = np.exp(logits)
    return rows / rows.sum(axis=1, keepdims=True)


def main():
    reference, rows = drawn_rows(0, 24), drawn_rows(1, 90)
    truth = [LABELS[row % 6] for row in range(24)]
    lists = [[*LISTS][row % 3] for row in range(90)]
    rows[0], lists[0] = [0.25, 0.25, 0, 0, 0.25, 0.25], "house"  # nothing that is allowed
    results = plain_plan.result_labels(CHANGES, LABELS)
    steps = plain_plan.steps_of(CHANGES, LABELS, reference, truth)
    filtered = plain_plan.changed_rows(CHANGES, LABELS, rows, steps)
    renormalised, not_allowed, answers = [], [], []
    for row, name, given in zip(filtered, lists, rows, strict=True):
        allowed = [label in LISTS[name] for label in results]
        kept, lost = plain_answers.restricted(row, allowed)
        renormalised.append(kept)
        not_allowed.append(lost)
        mass = given[LABELS.index("fox")]
        rule = {"may": LISTS[name], "max_removed_mass": MOST_REMOVED}
        answers.append(plain_answers.answer(row, mass, results, **rule) or "unknown")
    np.savez_compressed(
        Path(__file__).with_name("answers.npz"),
        reference=reference,
        true_labels=truth,
        rows=rows,
        lists=lists,
        results=results,
        filtered=filtered,
        renormalised=renormalised,
        not_allowed=not_allowed,
        removed_mass=rows[:, LABELS.index("fox")],
        answers=answers,
    )


if __name__ == "__main__":
    main()
