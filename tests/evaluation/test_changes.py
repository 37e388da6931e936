"""A changed classifier is judged by its new labels: every metric against plain loops."""

from math import inf, isnan

import numpy as np
import pytest

import doors
import plain
import plain_metrics as pm
from plain_calibration import best_temperature, robust_log_loss
from unlabel import LabelPlan, UnlabelError
from unlabel.evaluation.summary import summarise
from unlabel.evaluation.trial import try_filter, try_labels

pytest.importorskip("rich", reason="the terminal needs the extra: pip install 'unlabel[cli]'")

from unlabel.cli.summary_table import show

CLASSES = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"]
# Two removed, two merged into a new label, two swapped, and one split, in part into a label that
# another goes to as well.
PLAN = {
    "hen": None,
    "bee": None,
    "cat": "pet",
    "dog": "pet",
    "elk": "fox",
    "fox": "elk",
    "gnu": {"elk": 0.25, "wildebeest": 0.75},
}
REMOVED = ["hen", "bee"]
# Written down by hand: the result's labels, and the parts of each label that is not removed.
RESULT = ["ant", "pet", "fox", "elk", "wildebeest"]
PARTS = {
    "ant": {"ant": 1},
    "cat": {"pet": 1},
    "dog": {"pet": 1},
    "elk": {"fox": 1},
    "fox": {"elk": 1},
    "gnu": {"elk": 0.25, "wildebeest": 0.75},
}
NEW = {"ant": "ant", "cat": "pet", "dog": "pet", "elk": "fox", "fox": "elk"}
KEPT = [label for label in CLASSES if label not in REMOVED]


def drawn(seed, n_rows, classes=CLASSES):
    """Rows, and labels drawn by them so that some predictions are wrong."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(len(classes), 0.4), size=n_rows)
    return rows, [classes[rng.choice(len(classes), p=row)] for row in rows]


def added_up(rows, classes):
    """Add confidences in old labels up by destination, label by label."""
    result = []
    for row in rows:
        total = dict.fromkeys(RESULT, 0.0)
        for label, value in zip(classes, row, strict=True):
            for to, weight in PARTS.get(label, {}).items():
                total[to] += weight * value
        result.append([total[label] for label in RESULT])
    return result


@pytest.fixture(scope="module")
def trial():
    """A filter given, judged on other rows beside two models retrained on the new labels."""
    reference, reference_labels = drawn(1, 300)
    fitted = doors.fit(
        reference, reference_labels, classes=CLASSES, plan=LabelPlan(PLAN, title="v2", note="why")
    )
    rows, labels = drawn(2, 400)
    retrained = [drawn(seed, 400, RESULT)[0] for seed in (3, 4)]
    return try_filter(fitted, rows, labels, retrained=retrained), reference, reference_labels


@pytest.fixture(scope="module")
def summary(trial):
    return summarise(trial[0])


@pytest.fixture(scope="module")
def outputs(trial):
    """The outputs of every candidate, by the plain method."""
    _, reference, reference_labels = trial
    rows, _ = drawn(2, 400)
    removed = [CLASSES.index(label) for label in REMOVED]
    by_label = [pm.rows_of(label, reference, reference_labels) for label in REMOVED]
    osr = plain.apply(rows, plain.fit(by_label, removed, len(CLASSES)))
    masked = [pm.normalised([row[CLASSES.index(label)] for label in KEPT]) for row in rows]
    return {
        "OSR": added_up(osr, KEPT),
        "mask": added_up(masked, KEPT),
        "retrained": drawn(3, 400, RESULT)[0].tolist(),
        "retrained again": drawn(4, 400, RESULT)[0].tolist(),
    }


@pytest.fixture(scope="module")
def judged():
    """The rows, their true labels, and the numbers of the rows of each kind."""
    rows, labels = drawn(2, 400)
    return (
        rows.tolist(),
        labels,
        {
            "retained": [row for row, label in enumerate(labels) if label in NEW],
            "removed": [row for row, label in enumerate(labels) if label in REMOVED],
            "split": [row for row, label in enumerate(labels) if label == "gnu"],
        },
    )


def figures(summary):
    return {entry["output"]: entry for entry in summary["figures"]}


def close(value):
    return pytest.approx(value, abs=1e-9)


def by_kind(values, kinds):
    return {
        kind: close(pm.mean([values[row] for row in kinds[kind]]))
        for kind in ("retained", "removed")
    }


def check_shared(entry, rows, labels, classes, over):
    """Compare the metrics that every output has; `over` are the labels that are not removed."""
    assert entry["accuracy"] == {
        "retained": close(pm.mean(pm.label_accuracy(rows, labels, classes, over))),
        "removed": close(pm.mean(pm.label_accuracy(rows, labels, classes, REMOVED))),
    }
    for kind, of in (("retained", over), ("removed", REMOVED)):
        right = [
            classes[pm.top(row)] == label
            for row, label in zip(rows, labels, strict=True)
            if label in of
        ]
        assert entry["share_right"][kind] == close(pm.mean(right))
    worst, ties = pm.coverage(rows, labels, classes, over)
    assert entry["coverage"]["retained"] == close(worst)
    assert entry["ties"] == close(ties)
    removed, _ = pm.coverage(rows, labels, classes, REMOVED)
    assert entry["coverage"]["removed"] == (None if removed == inf else close(removed))
    assert entry["log_loss"] == close(pm.log_loss(rows, labels, classes, over))
    error = pm.expected_calibration_error(rows, labels, classes, over, 15)
    assert entry["calibration_error"] == close(error)


def test_the_base_model_is_judged_on_its_own_labels(summary, judged):
    rows, labels, _ = judged
    entry = summary["figures"][0]
    assert entry["output"] == "base model"
    check_shared(entry, rows, labels, CLASSES, [label for label in CLASSES if label in NEW])


@pytest.mark.parametrize("name", ["OSR", "mask", "retrained", "retrained again"])
def test_outputs_are_judged_on_the_new_labels(summary, outputs, judged, name):
    base, labels, kinds = judged
    output, entry = outputs[name], figures(summary)[name]
    new = [NEW.get(label, label) for label in labels]
    known = [row for row in range(len(new)) if row not in kinds["split"]]
    check_shared(entry, [output[row] for row in known], [new[row] for row in known], RESULT, RESULT)
    of_base = added_up(base, CLASSES)
    kl = [
        sum(a * np.log(max(a, 1e-12) / max(b, 1e-12)) for a, b in zip(p, q, strict=True))
        for p, q in zip(output, of_base, strict=True)
    ]
    assert entry["kl_to_base"] == by_kind([max(value, 0) for value in kl], kinds)
    changed = []
    for before, after in zip(base, output, strict=True):
        to = PARTS.get(CLASSES[pm.top(before)], {})
        changed.append(RESULT[pm.top(after)] not in to)
    assert entry["changed"] == by_kind(changed, kinds)
    goal = outputs["retrained"]
    if name == "retrained":
        assert entry["to_retrained"] is None
    else:
        assert entry["to_retrained"] == {
            "kl": by_kind(pm.kl_divergence(output, goal), kinds),
            "js": by_kind(pm.jensen_shannon(output, goal), kinds),
        }


def test_labels_before_and_after(summary, outputs, judged):
    base, labels, kinds = judged
    osr = outputs["OSR"]
    assert summary["plan"]["title"] == "v2"
    assert summary["plan"]["note"] == "why"
    assert len(summary["plan"]["digest"]) == 64
    assert summary["labels"]["removed"] == REMOVED
    assert summary["labels"]["retained"] == RESULT
    changes = {each["from"]: each["to"] for each in summary["labels"]["changes"]}
    assert list(changes) == CLASSES[1:]  # ant stays
    for label, to in changes.items():
        assert {part["label"]: part["weight"] for part in to} == PARTS.get(label, {})
    assert summary["rows"] == {
        "judged": 400,
        "of_retained_labels": len(kinds["retained"]),
        "of_removed_labels": len(kinds["removed"]),
        "of_split_labels": len(kinds["split"]),
        "without_true_label": 0,
        "fitted_on": 0,
    }
    assert min(map(len, kinds.values())) >= 20
    for label, entry in zip(CLASSES, summary["by_label"], strict=True):
        own = [row for row, true in enumerate(labels) if true == label]
        before = pm.mean([CLASSES[pm.top(base[row])] == label for row in own])
        after = pm.mean([RESULT[pm.top(osr[row])] == NEW.get(label) for row in own])
        assert entry == {
            "label": label,
            "to": NEW.get(label),
            "rows": len(own),
            "before": close(before),
            "after": close(after) if label in NEW else None,
        }
    matrix = pm.destination_matrix(osr, labels, RESULT, REMOVED)
    for label, entry, row in zip(REMOVED, summary["destinations"], matrix, strict=True):
        assert (entry["label"], entry["rows"]) == (label, labels.count(label))
        shares = {to["label"]: to["share"] for to in entry["to"]}
        assert shares == dict(zip(RESULT, map(close, row), strict=True))
    mass = pm.removed_mass(base, CLASSES, REMOVED)
    assert summary["moved_mass"] == by_kind(mass, kinds)


def test_unknown_over_the_threshold(summary, judged):
    base, _, kinds = judged
    mass = pm.removed_mass(base, CLASSES, REMOVED)
    assert [at["above"] for at in summary["unknown"]] == [step / 100 for step in range(101)]
    for at in summary["unknown"]:
        above = [float(each > at["above"]) for each in mass]
        assert at["caught"] == close(pm.mean([above[row] for row in kinds["removed"]]))
        assert at["lost"] == close(pm.mean([above[row] for row in kinds["retained"]]))
    assert summary["unknown"][50]["caught"] > summary["unknown"][50]["lost"] > 0


def test_the_rows_that_change_most(summary, outputs, judged):
    base, labels, kinds = judged
    osr = outputs["OSR"]
    # Over the result's labels and the removed ones.
    before = [
        [*to, *(row[CLASSES.index(label)] for label in REMOVED)]
        for to, row in zip(added_up(base, CLASSES), base, strict=True)
    ]
    distance = pm.jensen_shannon([[*row, 0, 0] for row in osr], before)
    for kind in ("retained", "removed"):
        rows = [
            row
            for row in kinds[kind]
            if RESULT[pm.top(osr[row])] not in PARTS.get(CLASSES[pm.top(base[row])], {})
        ]
        assert summary["changed_rows"][kind] == len(rows) > 10
        rows.sort(key=lambda row: -distance[row])
        assert summary["most_changed"][kind] == [
            {
                "row": row,
                "label": labels[row],
                "to": NEW.get(labels[row]),
                "before": CLASSES[pm.top(base[row])],
                "before_confidence": close(max(base[row])),
                "after": RESULT[pm.top(osr[row])],
                "after_confidence": close(max(osr[row])),
            }
            for row in rows[:10]
        ]


def test_a_model_has_one_temperature_fitted_on_its_own_labels_that_stay():
    rows, labels = drawn(5, 1200)
    masked = [pm.normalised([row[CLASSES.index(label)] for label in KEPT]) for row in rows]
    sharper = np.array(added_up(masked, KEPT)) ** 2
    retrained = sharper / sharper.sum(axis=1, keepdims=True)
    trial = try_labels(rows, labels, classes=CLASSES, plan=PLAN, retrained=[retrained])
    judged = {*trial.row_numbers.tolist()}
    fitting = [row for row in range(1200) if row not in judged]
    stays = [row for row in fitting if labels[row] not in REMOVED]
    known = [row for row in fitting if labels[row] in NEW]
    own = best_temperature(robust_log_loss, rows[stays], [CLASSES.index(labels[r]) for r in stays])
    new = [RESULT.index(NEW[labels[row]]) for row in known]
    other = best_temperature(robust_log_loss, retrained[known], new)
    for name, best in (("OSR", own), ("mask", own), ("retrained", other)):
        found = trial.candidates[f"{name}, calibrated"].filter.temperature
        assert found == pytest.approx(best, rel=1e-6)
    assert {c.filter.plan for n, c in trial.candidates.items() if "retrained" not in n} == {
        LabelPlan(PLAN)
    }


def test_new_names_alone_change_no_metric():
    rows, labels = drawn(7, 400)
    names = {label: label.upper() for label in CLASSES}
    kept, renamed = (
        summarise(try_labels(rows, labels, classes=CLASSES, plan=remove)) for remove in ({}, names)
    )
    for entry in renamed["figures"][1:]:
        assert entry["changed"] == {"retained": 0, "removed": None}
    assert renamed["figures"] == kept["figures"]
    assert renamed["labels"]["retained"] == [label.upper() for label in CLASSES]
    assert renamed["most_changed"] == {"retained": [], "removed": []}


def test_without_removed_labels_the_method_has_nothing_to_do():
    rows, labels = drawn(7, 400)
    summary = summarise(try_labels(rows, labels, classes=CLASSES, plan={"cat": "dog"}))
    osr, mask = (figures(summary)[name] for name in ("OSR", "mask"))
    assert osr | {"output": "mask"} == mask
    assert osr["accuracy"]["removed"] is None
    assert not isnan(osr["log_loss"])
    assert summary["destinations"] == []
    assert summary["unknown"] == []
    assert "nknown" not in "".join(map(str, show(summary).renderables))


def test_rows_of_split_and_removed_labels_alone_are_refused():
    rows, labels = drawn(7, 400)
    fitted = doors.fit(rows, labels, classes=CLASSES, plan=PLAN)
    some = [row for row, label in enumerate(labels) if label in ("gnu", "hen")]
    with pytest.raises(UnlabelError, match="no rows of retained labels"):
        summarise(try_filter(fitted, rows[some], [labels[row] for row in some]))


def test_a_retrained_model_has_the_new_labels():
    rows, labels = drawn(7, 400)
    with pytest.raises(UnlabelError, match=r"\(400, 8\), not \(\.\.\., 5\)"):
        try_labels(rows, labels, classes=CLASSES, plan=PLAN, retrained=[rows])


def lead(summary):
    return str(show(summary).renderables[0])


def test_the_terminal_says_what_changes(summary):
    split = summary["rows"]["of_split_labels"]
    assert lead(summary).startswith(
        "v2\nRemoved: 'hen', 'bee'. Merged: 'cat', 'dog' into 'pet'; 'fox' into 'elk'. Renamed: "
        "'elk' to 'fox'. Split: 'gnu' into 'elk', 'wildebeest'. Judged on "
    )
    assert lead(summary).endswith(f"(filter given); {split} of split labels are left out.")


def test_the_terminal_counts_many_changes():
    rows, labels = drawn(8, 400, range(24))
    plan = dict.fromkeys(range(2)) | {number: number % 3 + 50 for number in range(2, 9)}
    plan |= {number: f"new {number}" for number in range(9, 14)}
    summary = summarise(try_labels(rows, labels, classes=range(24), plan=plan))
    assert lead(summary).startswith("2 labels removed, 7 merged into 3, 5 renamed. Judged on ")
    summary = summarise(try_labels(rows, labels, classes=range(24), plan={0: 1}))
    assert lead(summary).startswith("Merged: 0 into 1. Judged on ")
    assert lead(summary).endswith(" rows of retained labels (fitted on 200 other rows).")
