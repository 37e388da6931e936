"""The golden file of answers, and the filter that they are of."""

from pathlib import Path

import numpy as np

import doors
from unlabel import AnswerRule

LABELS = ["ant", "bee", "cat", "dog", "emu", "fox"]
CHANGES = {"fox": None, "ant": "insect", "bee": "insect"}
LISTS = {"farm": ["insect", "dog"], "house": ["cat", "dog"], "zoo": ["emu"]}
UNKNOWN_ABOVE = 0.4
RULE = AnswerRule(max_removed_mass=UNKNOWN_ABOVE, unknown="unknown")

with np.load(Path(__file__).parents[1] / "golden" / "answers.npz", allow_pickle=False) as stored:
    GOLDEN = {name: stored[name] for name in stored.files}


def golden_filter():
    return doors.fit(GOLDEN["reference"], GOLDEN["true_labels"], classes=LABELS, plan=CHANGES)
