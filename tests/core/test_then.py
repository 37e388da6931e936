"""One filter for two: exact where it is given, refused elsewhere."""

import numpy as np
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

import doors
from plain_plan import changes_of
from unlabel import LabelPlan, UnlabelError
from unlabel.filter import outcome_of_filter

pytestmark = pytest.mark.usefixtures("both_ways")

LABELS = [f"label {number}" for number in range(7)]


def rows_of(n, n_rows=40, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(n), n_rows)


def fitted(labels, changes, seed=0):
    rows = rows_of(len(labels), 8 * len(labels), seed)
    return doors.fit(rows, np.resize(labels, len(rows)), classes=labels, plan=LabelPlan(changes))


def assert_joined(first, second):
    both = first.then(second)
    assert both.classes_out == second.classes_out
    assert both.classes_in == first.classes_in
    rows = rows_of(len(first.classes_in))
    np.testing.assert_allclose(
        both.apply(rows), second.apply(first.apply(rows)), rtol=0, atol=1e-12
    )
    return both


@given(st.data())
def test_a_second_filter_that_removes_nothing(data):
    changes = data.draw(changes_of(LABELS))
    first = data.draw(st.sampled_from([fitted, doors.mask]))(LABELS, changes)
    later = data.draw(changes_of(first.classes_out, removed=[]))
    first = doors.at_temperature(first, 1.7)
    both = assert_joined(first, doors.mask(first.classes_out, later))
    assert both.removed == first.removed
    assert both.temperature == 1.7


@given(st.data())
def test_masks_without_splits(data):
    first = doors.mask(LABELS, data.draw(changes_of(LABELS, with_splits=False)))
    assume(len(first.classes_out) > 1)
    later = data.draw(changes_of(first.classes_out, with_splits=False))
    second = doors.mask(first.classes_out, later)
    try:
        both = assert_joined(first, second)
    except UnlabelError as error:  # a new label with the name of an old one that is now removed
        assert "cannot be one" in str(error)  # noqa: PT017
        reject()
    assert both.method == "mask"
    rows = rows_of(len(LABELS))
    np.testing.assert_allclose(both.apply(rows).sum(axis=1), 1, rtol=1e-12)


def test_labels_removed_by_the_method_in_two_stages():
    first = fitted(LABELS, [LABELS[4], LABELS[1]])
    second = fitted(first.classes_out, [LABELS[6], LABELS[0]], seed=1)
    both = assert_joined(doors.at_temperature(first, 0.8), second)
    assert both.removed == (LABELS[4], LABELS[1], LABELS[6], LABELS[0])
    assert both.counts == (*first.counts, *second.counts)


def test_labels_may_be_listed_as_what_they_stay():
    first = fitted(LABELS, {LABELS[4]: None, LABELS[0]: LABELS[0]})
    second = fitted(
        first.classes_out, {label: label for label in first.classes_out[1:]} | {LABELS[0]: None}
    )
    assert outcome_of_filter(first).merge is None
    assert_joined(first, second)


def test_a_first_filter_that_removes_nothing_takes_the_method_of_the_second():
    nothing = doors.fit(rows_of(7), classes=LABELS, remove=[])
    for second in (fitted(LABELS, LABELS[:2]), doors.mask(LABELS, LABELS[:2])):
        assert assert_joined(nothing, second).method == second.method
        assert assert_joined(doors.mask(LABELS, []), second).method == second.method


def test_rows_of_logits_go_through_both():
    first = doors.mask(LABELS, LABELS[:1], kind="logits")
    both = first.then(doors.mask(first.classes_out, {LABELS[1]: LABELS[2]}))
    assert both.kind == "logits"


@pytest.mark.parametrize(
    ("changes", "later"),
    [({1: "2"}, {3: "x"}), ({1: None}, {3: "2"}), ({1: "2"}, {2: None})],
)
def test_a_new_label_that_is_written_like_another_stays_another(changes, later):
    first = doors.mask([1, 2, 3], changes)
    assert_joined(first, doors.mask(first.classes_out, later))


def test_title_and_note_of_both_are_kept():
    first = doors.mask(LABELS, LabelPlan(LABELS[:1], title="v2", note="Removed."))
    renamed = LabelPlan({LABELS[1]: "new"}, title="v3", note="Renamed.")
    plan = first.then(doors.mask(first.classes_out, renamed)).plan
    assert (plan.title, plan.note) == ("v2; v3", "Removed.\nRenamed.")


OSR, MASK = fitted(LABELS, LABELS[:2]), doors.mask(LABELS, LABELS[:2])
SPLITS = {LABELS[0]: None, LABELS[1]: {"x": 0.5, "y": 0.5}}
SPLIT = doors.mask(LABELS, SPLITS)
SHARING = fitted(LABELS, {LABELS[0]: None, LABELS[1]: {LABELS[1]: 0.5, LABELS[2]: 0.5}})
SPLIT_LATER = doors.mask([label for label in LABELS if label != LABELS[2]], SPLITS)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (OSR, doors.mask(LABELS, LABELS[:1]), "the first gives"),
        (OSR, doors.mask(OSR.classes_out[::-1], []), "the first gives"),
        (OSR, doors.mask(OSR.classes_out, [], kind="logits"), "takes logits"),
        (OSR, doors.at_temperature(doors.mask(OSR.classes_out, []), 2.0), "second is calibrated"),
        (OSR, doors.at_temperature(doors.mask(OSR.classes_out, []), 0.5), "second is calibrated"),
        (OSR, doors.mask(OSR.classes_out, LABELS[5:6]), "the second removes labels"),
        (MASK, fitted(MASK.classes_out, LABELS[5:6]), "the second removes labels"),
        (SPLIT, doors.mask(SPLIT.classes_out, LABELS[5:6]), "the second removes labels"),
        (doors.mask(LABELS, LABELS[2:3]), SPLIT_LATER, "the second removes labels"),
        (OSR, fitted(OSR.classes_out, {LABELS[5]: None, LABELS[4]: LABELS[3]}), "second removes"),
        (SHARING, fitted(SHARING.classes_out, LABELS[5:6]), "the second removes labels"),
        (MASK, "second.safetensors", "give an OutputFilter"),
    ],
)
def test_filters_that_cannot_be_joined_are_refused(first, second, words):
    with pytest.raises(UnlabelError, match=words):
        first.then(second)
