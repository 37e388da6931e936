"""Reference rows without a usable true label are set aside and counted."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator

import doors
from unlabel import LabelRemovalClassifier, UnlabelError
from worlds import NAMES

RANDOM = np.random.default_rng(0).dirichlet(np.ones(4), 120)
# Two rows in three are right, so that there is a temperature.
ROWS = np.array([np.roll(r, i % 4 - r.argmax() if i % 3 else 0) for i, r in enumerate(RANDOM)])
TRUTH = np.array(NAMES, dtype=object)[np.arange(120) % 4]
NAN = float("nan")


def fit(truth, rows=ROWS, **options):
    return doors.fit(rows, truth, **{"classes": NAMES, "remove": ["dog"]} | options)


def with_labels(changes):
    truth = TRUTH.copy()
    for row, label in changes.items():
        truth[row] = label
    return truth


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({5: None}, "1 row without a true label was set aside."),
        ({5: NAN, 8: "", 9: None}, "3 rows without a true label were set aside."),
        (
            {5: "dgo", 9: "cow"},
            "2 rows of labels that the model does not have, such as 'dgo' (the nearest is 'dog'), "
            "were set aside.",
        ),
        (
            {1: "", 5: 7},
            "1 row without a true label and 1 row of labels that the model does not have, such as "
            "7 (the nearest is 'owl'), were set aside.",
        ),
    ],
)
@pytest.mark.parametrize("calibrate", [False, True])
def test_rows_are_set_aside_and_counted(changes, sentence, calibrate):
    truth = with_labels(changes)
    used = [row for row in range(120) if row not in changes]
    expected = fit(TRUTH[used], ROWS[used], calibrate=calibrate)
    for labels in (truth, truth.tolist()):
        with pytest.warns(UserWarning, match="set aside") as caught:
            assert fit(labels, calibrate=calibrate) == expected
        assert [str(warning.message) for warning in caught] == [sentence]


@given(st.lists(st.sampled_from(["cat", "dog", "emu", "ant", None, "", NAN]), max_size=30))
def test_random_labels(labels):
    labels = ["dog", *labels]
    n_missing = n_other = n_dogs = 0
    for label in labels:
        if label in ("emu", "ant"):
            n_other += 1
        elif label not in NAMES:
            n_missing += 1
        n_dogs += label == "dog"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit(labels, ROWS[: len(labels)])
    assert fitted.counts == (n_dogs,)
    message = "".join(str(warning.message) for warning in caught)
    assert len(caught) == (n_missing + n_other > 0)
    assert (f"{n_missing} row" in message) == (n_missing > 0)
    assert (f"{n_other} row" in message) == (n_other > 0)


def as_strings(labels):
    return pytest.importorskip("pandas").Series(labels, dtype="string")


@pytest.mark.parametrize("convert", [as_strings, np.asarray])
def test_missing_labels_are_marked_in_several_ways(convert):
    labels = convert(with_labels({5: None, 9: None}))
    with pytest.warns(UserWarning, match=r"^2 rows without a true label"):
        assert fit(labels).counts == (28,)
    numbers = np.where([row in (5, 9) for row in range(120)], NAN, np.arange(120) % 4)
    with pytest.warns(UserWarning, match=r"^2 rows without a true label"):
        assert fit(numbers, classes=None, remove=[1]).counts == (28,)


def test_an_empty_text_may_be_a_label():
    labels = np.where(TRUTH == "owl", "", TRUTH)
    assert fit(labels, classes=["cat", "dog", "fox", ""], remove=[""]).counts == (30,)


def test_retiring_in_stages():
    first = fit(TRUTH)
    with pytest.warns(UserWarning, match="30 rows of labels .*, such as 'dog'"):
        second = fit(TRUTH, first.apply(ROWS), classes=first.classes_out, remove=["owl"])
    assert second.classes_out == ("cat", "fox")


def test_the_warning_names_the_line_of_the_fit():
    labels = with_labels({5: "dgo"})
    model = FrozenEstimator(DummyClassifier().fit(ROWS, TRUTH.astype(str)))
    with pytest.warns(UserWarning, match="1 row of labels") as caught:
        changed = LabelRemovalClassifier(model, ["dog"]).fit(ROWS, labels)
    assert [warning.filename for warning in caught] == [__file__]
    assert changed.filter_.counts == (29,)


def test_no_row_may_be_left():
    with pytest.raises(UnlabelError) as caught:
        fit(["dgo"] * 60 + [None] * 60)
    assert str(caught.value) == (
        "The model has no label 'dgo', nor any other of the true labels: the nearest is 'dog'."
    )
    for method in ("osr", "mask"):
        with pytest.raises(UnlabelError, match="No row has a true label: give each"):
            fit([None] * 120, method=method)


def test_a_retired_label_whose_rows_were_set_aside_is_refused():
    with pytest.raises(UnlabelError) as caught:
        fit(np.where(TRUTH == "dog", "dgo", TRUTH))
    assert str(caught.value) == (
        "The label 'dog' has no reference rows, and 30 rows of labels that the model does not "
        "have, such as 'dgo' (the nearest is 'dog'), were set aside: give the model's outputs on "
        "some inputs of that label, or fit a mask, which needs none (method='mask', unlabel fit "
        "--method mask)."
    )


def test_the_confidences_of_rows_that_are_set_aside_are_valid_too():
    rows = ROWS.copy()
    rows[5] *= 2
    with pytest.raises(UnlabelError, match="Row 5 is not a probability vector"):
        fit(with_labels({5: None}), rows)
