"""What a fit remarks on and refuses, and labels without reference rows."""

import warnings

import numpy as np
import pytest

import doors
import plain
from unlabel import OutputFilter, UnlabelError

NAMES = ["cat", "dog", "fox", "owl"]


def outputs(per_label, right=0.8, seed=0):
    """Rows of a model that is right in a share of the rows of each label, and their true labels."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(4), per_label)
    answers = np.where(np.tile(np.arange(per_label), 4) < right * per_label, truth, (truth + 1) % 4)
    rows = (rng.dirichlet(np.ones(4), len(truth)) + 3 * np.eye(4)[answers]) / 4
    return rows, np.array(NAMES)[truth]


pytestmark = pytest.mark.filterwarnings("ignore:The model answers most rows of some labels")


def remarks(rows, labels, classes=NAMES, **options):
    """Return the remarks of a fit, all of which must point to the line that asked for it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        OutputFilter.fit(rows, labels, classes=classes, **options)
    assert {warning.filename for warning in caught} <= {__file__}
    assert {warning.category for warning in caught} <= {UserWarning}
    return [str(warning.message) for warning in caught]


def test_labels_that_changed_places_are_remarked_on():
    rows, labels = outputs(120)
    swapped = [NAMES[1], NAMES[0], *NAMES[2:]]
    (said,) = remarks(rows, labels, classes=swapped, remove=[NAMES[0]])
    assert f"{NAMES[0]!r} with {NAMES[1]!r}" in said
    assert f"{NAMES[1]!r} with {NAMES[0]!r}" in said
    assert "check the order" in said
    few = np.isin(labels, NAMES[2:]) | (np.arange(480) < 0)
    assert remarks(rows[few], labels[few], classes=swapped, remove=[NAMES[2]]) == []


# Labels without reference rows


@pytest.mark.parametrize(
    "removed", [["cat", "owl"], ["owl", "cat"], ["fox", "cat", "owl"], ["owl", "fox"]]
)
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_a_label_without_rows_is_masked_beside_others_that_are_not(both_ways, removed, temperature):
    rows, labels = outputs(120)
    some = np.isin(labels, ["cat", "dog"])
    fitted = doors.fit(rows[some], labels[some], classes=NAMES, remove=removed)
    assert fitted.method == "osr"
    assert fitted.counts == tuple(120 * (label == "cat") for label in removed)
    columns = [NAMES.index(label) for label in removed]
    references = [
        rows[labels == "cat"] if label == "cat" else np.eye(4)[[column]]
        for label, column in zip(removed, columns, strict=True)
    ]
    calm = np.array([plain.at_temperature(row, temperature) for row in rows])
    expected = plain.apply(calm, plain.fit(references, columns, 4))
    found = doors.at_temperature(fitted, temperature).apply(rows)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    if "cat" not in removed:
        mask = doors.mask(NAMES, removed)
        np.testing.assert_allclose(fitted.apply(rows), mask.apply(rows), rtol=0, atol=1e-15)


def test_labels_without_rows_are_named_in_one_remark():
    rows, labels = outputs(120)
    some = labels == "dog"
    assert remarks(rows[some], labels[some], remove=["owl", "cat"]) == [
        "No reference rows of 'owl', 'cat': masked, which needs none."
    ]
    assert remarks(rows[some], labels[some], remove=["owl", "cat"], method="mask") == []


# Remarks


def test_few_reference_rows_are_remarked_on():
    rows, labels = outputs(120)
    few = (labels != "cat") | (np.arange(480) < 99)
    assert remarks(rows[few], labels[few], remove=["dog", "cat"]) == [
        "Fewer than 100 reference rows of 'cat' ('cat' has 99): a mask may be as good."
    ]
    assert remarks(rows, labels, remove=["dog", "cat"]) == []
    assert remarks(rows[few], labels[few], remove=["cat"], method="mask") == []


@pytest.mark.parametrize(
    ("per_label", "right", "n_removed", "is_remarked_on"),
    [(200, 1.0, 1, True), (100, 1.0, 2, True), (199, 1.0, 1, False), (200, 0.995, 1, False)],
)
def test_reference_rows_that_the_model_gets_right_look_like_training_rows(
    per_label, right, n_removed, is_remarked_on
):
    found = remarks(*outputs(per_label, right), remove=NAMES[:n_removed])
    expected = "The model gets 100.0% of the reference rows right: use rows that it was not "
    assert found == ([f"{expected}trained on."] if is_remarked_on else [])


def test_several_remarks_come_one_by_one():
    rows, labels = outputs(60)
    labels = labels.astype(object)
    labels[-1] = None
    found = remarks(rows, labels, classes=[*NAMES[:3], "elk"], remove=["cat", "elk"])
    for remark, start in zip(found, ["No reference", "Fewer", "1 row without"], strict=True):
        assert remark.startswith(start)


# No better than chance


@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize("calibrate", [False, True])
def test_labels_in_a_wrong_order_are_refused(method, calibrate):
    rows, labels = outputs(120, right=1)
    options = {"remove": ["cat"], "method": method, "calibrate": calibrate}
    words = r"in 0 of 360 rows of labels that stay, no better than chance: .* \(allow_chance=\)"
    with pytest.raises(UnlabelError, match=words):
        OutputFilter.fit(rows, labels, classes=NAMES[::-1], **options)
    if not calibrate:  # no temperature fits such rows
        fitted = doors.fit(rows, labels, classes=NAMES[::-1], allow_chance=True, **options)
        assert fitted.classes_out == ("owl", "fox", "dog")


@pytest.mark.parametrize(
    ("stay", "is_refused"),
    [
        ([25, 25, 0], True),
        ([25, 24, 0], False),  # too few rows tell nothing
        ([60, 0, 0], False),  # and so do rows of one label
        ([17, 17, 16], True),
    ],
)
def test_a_few_rows_and_rows_of_one_label_tell_nothing(stay, is_refused):
    rows, labels = outputs(120, right=0)
    at = [120 + 120 * label + row for label, count in enumerate(stay) for row in range(count)]
    at += range(100)
    options = {"classes": NAMES, "remove": ["cat"], "method": "mask"}
    if is_refused:
        with pytest.raises(UnlabelError, match="no better than chance"):
            OutputFilter.fit(rows[at], labels[at], **options)
    else:
        OutputFilter.fit(rows[at], labels[at], **options)


@pytest.mark.parametrize("right", [0.25, 0.45])
def test_what_is_better_than_chance_passes(right):
    rows, labels = outputs(120, right)
    options = {"classes": NAMES, "remove": ["cat"], "method": "mask"}
    if right == 0.25:
        with pytest.raises(UnlabelError, match="in 90 of 360"):
            OutputFilter.fit(rows, labels, **options)
    else:
        OutputFilter.fit(rows, labels, **options)


@pytest.mark.parametrize(("right", "is_refused"), [(36, True), (37, False)])
def test_two_standard_errors_above_chance_are_the_bound(right, is_refused):
    truth = np.repeat([1, 2, 3], 36)  # of 108 rows and 4 labels: 27 + 2 * sqrt(27 * 3 / 4)
    answers = np.where(np.arange(108) < right, truth, truth % 3 + 1)
    removed = [0] * 200  # rows of the removed label do not count, however right they are
    rows = np.eye(4)[[*answers, *removed]]
    labels = np.array(NAMES)[[*truth, *removed]]
    options = {"classes": NAMES, "remove": ["cat"], "method": "mask"}
    if is_refused:
        with pytest.raises(UnlabelError, match="in 36 of 108"):
            OutputFilter.fit(rows, labels, **options)
    else:
        OutputFilter.fit(rows, labels, **options)
