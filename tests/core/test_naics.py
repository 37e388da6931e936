"""Official concordances of NAICS, an industry classification with three versions."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

import doors
from unlabel import LabelPlan, UnlabelError

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = ["naics-2007-2012.csv", "naics-2012-2017.csv"]


def pairs_of(name):
    with open(GOLDEN / name, encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def plan_of(name, *, weighted):
    """Make a plan of the pairs; the parts of a split weigh 1, 2, 3 ... parts of the whole."""
    changes = {}
    for old, new in pairs_of(name):
        changes.setdefault(old, []).append(new)
    for old, to in changes.items():
        if weighted:
            whole = math.comb(len(to) + 1, 2)
            changes[old] = {part: (at + 1) / whole for at, part in enumerate(to)}
    return LabelPlan(changes)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("naics-2007-2012.csv", {"split": 6, "merged_into": 72, "other_meaning": 13}),
        ("naics-2012-2017.csv", {"split": 4, "merged_into": 9, "other_meaning": 0}),
    ],
)
def test_the_check_counts_what_the_pairs_say(name, counts):
    pairs = pairs_of(name)
    labels = list(dict.fromkeys(old for old, _ in pairs))
    plain = dict.fromkeys(("unchanged", "renamed", "merged", "split", "other_meaning"), 0)
    for label in labels:
        to = [new for old, new in pairs if old == label]
        arriving = [old for old, new in pairs if new == to[0]]
        if len(to) > 1:
            plain["split"] += 1
        elif len(arriving) > 1:
            plain["merged"] += 1
        elif to == [label]:
            plain["unchanged"] += 1
        else:
            plain["renamed"] += 1
        lives_on = any(new == label for _, new in pairs)
        alone = [pair for pair in pairs if label in pair] == [(label, label)]
        plain["other_meaning"] += lives_on and not alone
    targets = [new for _, new in pairs]
    plain["merged_into"] = len({new for new in targets if targets.count(new) > 1})
    plain["result"], plain["removed"] = len({*targets}), 0
    plain["unlisted"] = plain["unknown"] = plain["misspelt"] = 0
    plain["problems"] = 1  # one that names all of them
    plain["never_answers"] = 0  # without weights nothing is known of that
    check = plan_of(name, weighted=False).check(labels)
    assert {kind: len(found) for kind, found in check.to_dict().items()} == plain
    assert {kind: plain[kind] for kind in counts} == counts


def test_composing_two_versions_is_applying_one_after_the_other():
    first, second = (plan_of(name, weighted=True) for name in FILES)
    labels = [*first.changes]
    one = doors.mask(labels, first)
    other = doors.mask(one.classes_out, second)
    both = doors.mask(labels, first.then(second, classes=labels))
    rows = np.random.default_rng(0).dirichlet(np.full(len(labels), 0.1), size=20)
    assert both.classes_out == other.classes_out
    np.testing.assert_allclose(both.apply(rows), other.apply(one.apply(rows)), atol=1e-12)


def test_splits_without_weights_are_refused():
    plan = plan_of(FILES[1], weighted=False)
    labels = [*plan.changes]
    with pytest.raises(UnlabelError, match=r"splits '211111', .* without weights"):
        doors.mask(labels, plan)
    with pytest.raises(UnlabelError, match=r"first plan: .* splits '211111', .* without"):
        plan.then(LabelPlan({}), classes=labels)
