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


def with_weights(plan):
    """Give each part of a split a weight, one after another 1, 2, 3 ... parts of the whole."""
    changes = {}
    for label, to in plan.changes.items():
        if isinstance(to, tuple):
            whole = math.comb(len(to) + 1, 2)
            to = {part: (number + 1) / whole for number, part in enumerate(to)}
        changes[label] = to
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
    plain["left"], plain["retired"] = len({*targets}), 0
    plain["unlisted"] = plain["unknown"] = plain["misspelt"] = 0
    plain["without_weights"] = plain["problems"] = plain["split"]
    check = LabelPlan.load(GOLDEN / name).check(labels)
    assert {kind: len(found) for kind, found in check.to_dict().items()} == plain
    assert {kind: plain[kind] for kind in counts} == counts


def test_composing_two_versions_is_applying_one_after_the_other():
    first, second = (with_weights(LabelPlan.load(GOLDEN / name)) for name in FILES)
    labels = [*first.changes]
    one = doors.mask(labels, first)
    other = doors.mask(one.classes_out, second)
    both = doors.mask(labels, first.then(second, classes=labels))
    rows = np.random.default_rng(0).dirichlet(np.full(len(labels), 0.1), size=20)
    assert both.classes_out == other.classes_out
    np.testing.assert_allclose(both.apply(rows), other.apply(one.apply(rows)), atol=1e-12)


def test_splits_without_weights_are_refused_with_their_candidates():
    plan = LabelPlan.load(GOLDEN / FILES[1])
    labels = [*plan.changes]
    sentence = "splits '211111' among '211120', '211130' without weights"
    with pytest.raises(UnlabelError, match=sentence):
        doors.mask(labels, plan)
    with pytest.raises(UnlabelError, match=f"In the first plan: The plan {sentence}"):
        plan.then(LabelPlan({}), classes=labels)


def test_a_concordance_without_its_header_is_noticed(tmp_path):
    text = (GOLDEN / FILES[1]).read_text(encoding="utf-8").split("\n", 1)[1]
    (tmp_path / "naics.csv").write_text(text, encoding="utf-8")
    plan = LabelPlan.load(tmp_path / "naics.csv")
    labels = [old for old, _ in pairs_of(FILES[1])]
    labels = list(dict.fromkeys(labels))
    assert "write from,to above it" in plan.check(labels).problems[0]
