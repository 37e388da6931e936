"""The impact of a change: every count against a plain recount, row by row."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import doors
import plain_metrics as pm
from plain_impact import new_label, recount
from plain_plan import OLD, add_up, changed_rows, changes_of, removed, steps_of
from unlabel import AnswerRule, UnlabelError
from unlabel.evaluation.impact import MOST_PAIRS, counted_pairs, wilson_intervals
from unlabel.evaluation.judge import Judge
from unlabel.evaluation.summary import summarise
from unlabel.evaluation.trial import try_filter, try_labels

COUNTS_OF_TRUTH = [
    *("rows_of_retained_labels", "right_before", "right_after"),
    *("corrected", "regressed", "neither"),
]


def drawn(seed, n_rows, classes=OLD):
    """Rows, and labels drawn by them so that some predictions are wrong."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(len(classes), 0.4), size=n_rows)
    return rows, [classes[rng.choice(len(classes), p=row)] for row in rows]


def rule_of(above):
    return None if above is None else AnswerRule(max_removed_mass=above)


def check_counts(found, counts, *, has_truth, has_unknown):
    expected = {"rows": counts["rows"], "changed": counts["changed"]}
    expected["unknown"] = counts["unknown"] if has_unknown else None
    expected |= {kind: counts[kind] if has_truth else None for kind in COUNTS_OF_TRUTH}
    assert found == expected


@given(
    changes_of(OLD),
    st.integers(0, 1000),
    st.sampled_from([None, 0.1, 0.5]),
    st.booleans(),
)
def test_answers_are_counted_as_by_hand(changes, seed, above, has_truth):
    rows, truth = drawn(seed, 60)
    if has_truth and not any(new_label(changes, label) for label in truth):
        return  # nothing to judge by
    fitted = doors.mask(OLD, changes)
    trial = try_filter(fitted, rows, truth if has_truth else None, allow_chance=True)
    judge = Judge(replace(trial, rule=rule_of(above)))
    answers = judge.answers(trial.candidates["mask"].run(), is_filter=True)
    after = changed_rows(changes, OLD, rows)
    given = truth if has_truth else None
    counts, pairs, by_label, _ = recount(changes, OLD, rows, after, given, above)
    check_counts(answers.counts(), counts, has_truth=has_truth, has_unknown=above is not None)
    impact = judge.impact(answers)
    assert {(pair["from"], pair["to"]): pair["rows"] for pair in impact["pairs"]} == pairs
    sizes = [pair["rows"] for pair in impact["pairs"]]
    assert sizes == sorted(sizes, reverse=True)
    assert impact["other_pairs"] == {"pairs": 0, "rows": 0}
    assert [entry["label"] for entry in impact["by_label"]] == [x for x in OLD if x in by_label]
    for entry in impact["by_label"]:
        own = by_label[entry["label"]]
        assert entry["rows"] == own["rows"]
        exists = {
            "changed": True,
            "unknown": above is not None,
            "corrected": has_truth and new_label(changes, entry["label"]) is not None,
        }
        exists["regressed"] = exists["corrected"]
        for kind in exists:
            assert (entry[kind] is not None) == exists[kind]
            assert entry[kind] is None or entry[kind]["rows"] == own[kind]


CHANGES = {
    "rat": None,
    "cat": None,
    "dog": "pet",
    "fox": "pet",
    "owl": "bird",
    "pig": {"owl": 0.25, "boar": 0.75},
}
CLASSES = [*OLD, "yak"]


@pytest.fixture(scope="module")
def judged():
    """A fitted filter with an unknown threshold: its summary, and all that it is made of."""
    reference, labels = drawn(1, 400, CLASSES)
    fitted = doors.fit(reference, labels, classes=CLASSES, plan=CHANGES)
    rows, truth = drawn(2, 500, CLASSES)
    retrained = drawn(3, 500, fitted.classes_out)[0]
    trial = try_filter(fitted, rows, truth, retrained=[retrained])
    summary = summarise(replace(trial, rule=AnswerRule(max_removed_mass=0.6)))
    steps = steps_of(CHANGES, CLASSES, reference, labels)
    return summary, rows, truth, changed_rows(CHANGES, CLASSES, rows, steps), retrained


def entry_of(summary, output):
    return next(entry for entry in summary["figures"] if entry["output"] == output)


def test_the_summary_counts_the_answers_of_every_output(judged):
    summary, rows, truth, osr, retrained = judged
    mask = changed_rows(CHANGES, CLASSES, rows)
    for output, after, above in (
        ("OSR", osr, 0.6),
        ("mask", mask, 0.6),
        ("retrained", retrained, None),
    ):
        counts, *_ = recount(CHANGES, CLASSES, rows, after, truth, above)
        found = entry_of(summary, output)["impact"]
        check_counts(found, counts, has_truth=True, has_unknown=above is not None)
        assert min(counts["corrected"], counts["regressed"], counts["neither"]) > 0
    assert "impact" not in summary["figures"][0]


def test_an_answer_that_was_right_and_is_unknown_now_has_regressed(judged):
    summary, rows, truth, osr, _ = judged
    certain, *_ = recount(CHANGES, CLASSES, rows, osr, truth)
    found = entry_of(summary, "OSR")["impact"]
    assert found["regressed"] >= certain["regressed"]
    always = doors.mask(["a", "b", "c"], ["c"])
    trial = try_filter(always, [[0.4, 0.3, 0.3]], ["a"])
    for above, regressed in ((None, 0), (0.2, 1), (0.3, 0)):  # a row at the threshold is not above
        answers = Judge(replace(trial, rule=rule_of(above))).answers(
            trial.candidates["mask"].run(), is_filter=True
        )
        assert answers.counts()["regressed"] == regressed
        assert answers.counts()["changed"] == regressed


def test_an_answer_of_little_confidence_is_unknown():
    rows = [[0.5, 0.3, 0.2], [0.3, 0.1, 0.6], [0.2, 0.7, 0.1]]
    trial = try_filter(doors.mask(["a", "b", "c"], {"c": "a"}), rows, ["a", "c", "b"])
    for rule, unknown in (
        (AnswerRule(min_confidence=0.8), [1, 0, 1]),
        (AnswerRule(min_confidence={None: 0.8, "b": 0.7}), [1, 0, 0]),
    ):
        judge = Judge(replace(trial, rule=rule))
        answers = judge.answers(trial.candidates["mask"].run(), is_filter=True)
        assert answers.is_unknown.tolist() == [bool(each) for each in unknown]
        assert answers.counts()["regressed"] == sum(unknown)


def test_where_inputs_of_removed_labels_go(judged):
    summary, rows, truth, osr, _ = judged
    *_, goes_to = recount(CHANGES, CLASSES, rows, osr, truth, 0.6)
    assert [entry["label"] for entry in summary["destinations"]] == removed(CHANGES)
    for entry in summary["destinations"]:
        expected = goes_to[entry["label"]]
        found = {to["label"]: to["rows"] for to in entry["answers"]}
        assert found == expected
        assert None in found
        sizes = [to["rows"] for to in entry["answers"]]
        assert sizes == sorted(sizes, reverse=True)
        for to in entry["answers"]:
            assert to["share"] == to["rows"] / sum(expected.values())


def test_probabilities_before_are_compared_like_with_like(judged):
    """Added up by destination, with the removed labels beside the new ones."""
    summary, rows, truth, osr, _ = judged
    gone = removed(CHANGES)
    order = ["pet", "bird", "owl", "boar", "yak", *gone]
    before = [
        [*add_up(CHANGES, CLASSES, row.tolist()), *(row[CLASSES.index(label)] for label in gone)]
        for row in rows
    ]
    known = [at for at, label in enumerate(truth) if new_label(CHANGES, label)]
    goal = [new_label(CHANGES, truth[at]) for at in known]
    for name, table, classes in (("before", before, order), ("after", osr.tolist(), order[:-2])):
        of_known = [[*map(float, table[at])] for at in known]
        expected = {
            "log_loss": pm.log_loss(of_known, goal, classes, classes),
            "calibration_error": pm.expected_calibration_error(
                of_known, goal, classes, classes, 15
            ),
        }
        assert summary["impact"][name] == {
            key: pytest.approx(value, abs=1e-9) for key, value in expected.items()
        }


def test_without_true_labels_only_answers_are_compared():
    rows, _ = drawn(5, 200, CLASSES)
    fitted = doors.mask(CLASSES, CHANGES)
    summary = summarise(replace(try_filter(fitted, rows), rule=AnswerRule(max_removed_mass=0.5)))
    counts, pairs, by_label, _ = recount(
        CHANGES, CLASSES, rows, changed_rows(CHANGES, CLASSES, rows), None, 0.5
    )
    found = entry_of(summary, "mask")
    check_counts(found["impact"], counts, has_truth=False, has_unknown=True)
    assert summary["truth"] is None
    assert summary["rows"]["without_true_label"] == summary["rows"]["judged"] == 200
    assert len(summary["impact"]["pairs"]) == len(pairs)
    assert {e["label"]: e["rows"] for e in summary["impact"]["by_label"]} == {
        label: own["rows"] for label, own in by_label.items()
    }
    for name in ("accuracy", "share_right", "changed"):
        assert found[name] == {"retained": None, "removed": None}
    assert summary["unknown"] == []
    assert summary["impact"]["before"] == {"log_loss": None, "calibration_error": None}


def test_retrained_models_need_true_labels():
    rows, _ = drawn(5, 20, CLASSES)
    fitted = doors.mask(CLASSES, CHANGES)
    with pytest.raises(UnlabelError, match="judged by true labels, and there are none: give them"):
        try_filter(fitted, rows, retrained=[fitted.apply(rows)])


def test_only_the_largest_pairs_are_listed():
    classes = [*range(30)]
    rows, _ = drawn(6, 4000, classes)
    fitted = doors.mask(classes, classes[:15])
    trial = try_filter(fitted, rows)
    judge = Judge(trial)
    impact = judge.impact(judge.answers(trial.candidates["mask"].run(), is_filter=True))
    after = rows[:, 15:].argmax(axis=1) + 15
    counted = {}
    for old, new in zip(rows.argmax(axis=1).tolist(), after.tolist(), strict=True):
        if old < 15:
            counted[old, new] = counted.get((old, new), 0) + 1
    assert len(counted) > MOST_PAIRS == len(impact["pairs"])
    sizes = sorted(counted.values(), reverse=True)
    assert [pair["rows"] for pair in impact["pairs"]] == sizes[:MOST_PAIRS]
    for pair in impact["pairs"]:
        assert counted[pair["from"], pair["to"]] == pair["rows"]
    assert impact["other_pairs"] == {
        "pairs": len(counted) - MOST_PAIRS,
        "rows": sum(sizes[MOST_PAIRS:]),
    }


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=30))
def test_pairs_are_counted(pairs):
    first, second = (np.array([pair[i] for pair in pairs], dtype=np.intp) for i in (0, 1))
    found = counted_pairs(first, second)
    assert {(a, b): rows for a, b, rows in found} == {pair: pairs.count(pair) for pair in pairs}
    assert [rows for *_, rows in found] == sorted((rows for *_, rows in found), reverse=True)


def test_intervals_are_wilsons():
    counts, rows = zip(
        *((k, n) for n in (1, 2, 7, 40, 1000) for k in {0, 1, n // 3, n}), strict=True
    )
    for k, n, low, high in zip(counts, rows, *wilson_intervals(counts, rows), strict=True):
        expected = binomtest(k, n).proportion_ci(method="wilson")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
        assert 0 <= low <= k / n <= high <= 1


# True labels that are new already


def in_new(truth):
    """Map true labels by hand; those that are removed or split have no new one."""
    return [new_label(CHANGES, label) or label for label in truth]


def test_new_true_labels_are_judged_as_the_old_ones_that_become_them():
    rows, truth = drawn(7, 600, CLASSES)
    fitted = doors.mask(CLASSES, CHANGES)
    old, new = (
        summarise(
            replace(
                try_filter(fitted, rows, labels, truth=kind), rule=AnswerRule(max_removed_mass=0.5)
            )
        )
        for labels, kind in ((truth, "old"), (in_new(truth), "new"))
    )
    assert (old["truth"], new["truth"]) == ("old", "new")
    assert old["figures"][1:] == new["figures"][1:]
    for part in ("rows", "destinations", "changed_rows", "unknown", "moved_mass"):
        assert old[part] == new[part]
    for part in ("pairs", "before", "after"):
        assert old["impact"][part] == new["impact"][part]
    assert new["figures"][0]["log_loss"] == new["impact"]["before"]["log_loss"]
    merged = {entry["label"]: entry for entry in new["impact"]["by_label"]}["pet"]
    own = [entry for entry in old["impact"]["by_label"] if entry["label"] in ("dog", "fox")]
    assert merged["rows"] == sum(entry["rows"] for entry in own)
    for kind in ("changed", "unknown", "corrected", "regressed"):
        assert merged[kind]["rows"] == sum(entry[kind]["rows"] for entry in own)
    for label, goes_to in (("pet", {"dog", "fox"}), ("rat", {"rat"})):
        right = [
            CLASSES[pm.top(row)] in goes_to
            for row, true in zip(rows.tolist(), truth, strict=True)
            if true in goes_to
        ]
        found = {entry["label"]: entry for entry in new["by_label"]}[label]
        assert (found["rows"], found["before"]) == (len(right), pytest.approx(pm.mean(right)))


def test_a_new_label_of_a_split_is_a_known_truth():
    rows, truth = drawn(8, 300, CLASSES)
    new = ["boar" if label == "pig" else label for label in in_new(truth)]
    summary = summarise(try_filter(doors.mask(CLASSES, CHANGES), rows, new, truth="new"))
    assert summary["rows"]["of_split_labels"] == 0
    assert summary["rows"]["of_retained_labels"] == sum(x not in ("rat", "cat") for x in truth)
    assert math.isfinite(entry_of(summary, "mask")["log_loss"])


def test_filters_are_fitted_on_rows_with_new_true_labels():
    rows, truth = drawn(9, 600, CLASSES)
    trial = try_labels(rows, in_new(truth), classes=CLASSES, plan=CHANGES, truth="new")
    judged = {*trial.row_numbers.tolist()}
    # Rows of a label that several old ones become do not tell the model's own.
    own = {label for label in CLASSES if label not in ("dog", "fox")}
    fitting = [row for row in range(600) if row not in judged and truth[row] in own]
    expected = doors.fit(
        rows[fitting],
        [truth[row] for row in fitting],
        classes=CLASSES,
        plan=CHANGES,
        calibrate=True,
    )
    found = trial.candidates["OSR, calibrated"].filter
    np.testing.assert_array_equal(found.means, expected.means)
    assert found.temperature == pytest.approx(expected.temperature, rel=1e-9)


def test_an_unknown_kind_of_truth_is_refused():
    with pytest.raises(UnlabelError, match="truth"):
        try_filter(doors.mask(CLASSES, CHANGES), drawn(0, 9, CLASSES)[0], truth="newer")
