"""Reference rows without a usable true label are skipped and counted."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel import OutputFilter, UnlabelError
from worlds import NAMES

RANDOM = np.random.default_rng(0).dirichlet(np.ones(4), 120)
# Two rows in three are right, so that there is a temperature.
ROWS = np.array([np.roll(r, i % 4 - r.argmax() if i % 3 else 0) for i, r in enumerate(RANDOM)])
TRUTH = np.array(NAMES, dtype=object)[np.arange(120) % 4]
NAN = float("nan")


def fit(truth, rows=ROWS, **options):
    """Fit a mask, which remarks on nothing but the rows that are skipped."""
    options = {"classes": NAMES, "remove": ["dog"], "method": "mask"} | options
    return OutputFilter.fit(rows, truth, **options, allow_chance=True)


def with_labels(changes):
    truth = TRUTH.copy()
    for row, label in changes.items():
        truth[row] = label
    return truth


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({5: None}, "1 row without a true label was skipped."),
        ({5: NAN, 8: "", 9: None}, "3 rows without a true label were skipped."),
        (
            {5: "dgo", 9: "cow"},
            "2 rows of labels that the model does not have, such as 'dgo' (the nearest is 'dog'), "
            "were skipped.",
        ),
        (
            {1: "", 5: 7},
            "1 row without a true label and 1 row of labels that the model does not have, such as "
            "7, were skipped.",
        ),
    ],
)
@pytest.mark.parametrize("calibrate", [False, True])
def test_rows_are_skipped_and_counted(changes, sentence, calibrate):
    truth = with_labels(changes)
    used = [row for row in range(120) if row not in changes]
    expected = fit(TRUTH[used], ROWS[used], calibrate=calibrate)
    for labels in (truth, truth.tolist()):
        with pytest.warns(UserWarning, match="skipped") as caught:
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


def test_true_is_not_the_label_1():
    truth = [*np.arange(119) % 4, True]
    with pytest.warns(UserWarning, match="1 row of labels that the model does not have, .* True"):
        fit(truth, classes=range(4), remove=[0])


def test_an_empty_text_may_be_a_label():
    labels = np.where(TRUTH == "owl", "", TRUTH)
    assert fit(labels, classes=["cat", "dog", "fox", ""], remove=[""]).counts == (30,)


def test_removing_in_stages_skips_rows_of_labels_that_are_gone():
    first = fit(TRUTH)
    with pytest.warns(UserWarning, match="30 rows of labels .*, such as 'dog'"):
        second = fit(TRUTH, first.apply(ROWS), classes=first.classes_out, remove=["owl"])
    assert second.classes_out == ("cat", "fox")


def test_names_of_the_result_are_known_and_have_no_column():
    truth = with_labels({5: "pet", 9: "pet"})
    assert fit(truth, remove=None, plan={"cat": "pet", "dog": None}).counts == (28,)


def test_no_row_may_be_left():
    with pytest.raises(UnlabelError, match="has no label 'dgo': the nearest is 'dog'"):
        fit(["dgo"] * 60 + [None] * 60)
    for method in ("osr", "mask"):
        with pytest.raises(UnlabelError, match="No row has a true label: give each"):
            fit([None] * 120, method=method)


def test_the_confidences_of_rows_that_are_skipped_are_valid_too():
    rows = ROWS.copy()
    rows[5] *= 2
    with pytest.raises(UnlabelError, match=r"^Row 5: it is not a probability vector"):
        fit(with_labels({5: None}), rows)
