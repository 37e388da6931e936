"""Each mistake gets one UnlabelError that names it and says what to do."""

import re

import numpy as np
import pytest

import doors
from unlabel import UnlabelError
from unlabel.validation import check_rows
from worlds import NAMES, NUMBERS, ROWS, TRUTH, with_row


@pytest.fixture
def fitted():
    return doors.fit(ROWS, TRUTH, classes=NAMES, remove=["dog"])


def refused(*, rows=ROWS, truth=TRUTH, **arguments):
    arguments = {"classes": NAMES, **arguments}
    if "keep" not in arguments:
        arguments = {"remove": ["dog"], **arguments}
    with pytest.raises(UnlabelError) as caught:
        doors.fit(rows, truth, **arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_an_error_is_a_value_error():
    assert issubclass(UnlabelError, ValueError)


# Rows


BAD_ROWS = [
    (
        [0.5, np.nan, 0.25, 0.25],
        "Row 7 is not a probability vector: the label 'dog' is NaN; give a number or drop the row.",
    ),
    ([0.5, 0.25, np.inf, 0.25], r"Row 7 .* label 'fox' is infinite"),
    ([np.inf, -np.inf, 0.5, 0.5], "Row 7 .* label 'cat' is infinite"),
    ([0.5, 0.5, 0.25, -0.25], r"Row 7 .* label 'owl' is -0.25;"),
    (
        [0.25, 0.25, 0.25, 0.2],
        r"Row 7 .* sums to 0.95, 0.05 below 1 .*; give .*, or divide",
    ),
    ([0.4, 0.4, 0.2, 0.2], r"Row 7 .* it sums to 1.2, 0.2 above 1 and more"),
    ([0.0, 0.0, 0.0, 0.0], r"Row 7 .* it sums to 0;"),
    ([2.5, 0.1, 7.0, 0.3], r"Row 7 .* label 'fox' is 7; if these are logits, .*input='logits'"),
    ([2.5, 0.1, -7.0, 0.3], r"Row 7 .* label 'fox' is -7; if these are logits"),
    ([1e308, 1e308, 1e308, 1e308], r"Row 7 .* label 'cat' is 1e\+308; if these are logits"),
]


@pytest.mark.parametrize(("row", "sentence"), BAD_ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_bad_row_is_named(fitted, row, sentence, dtype):
    rows = with_row(7, row)
    rows[9] = np.nan
    with np.errstate(over="ignore"):
        rows = rows.astype(dtype)
    if np.isposinf(rows[7]).all():
        sentence = "Row 7 .* label 'cat' is infinite"
    assert re.search(sentence, refused(rows=rows))
    with pytest.raises(UnlabelError, match=sentence):
        fitted.apply(rows)
    with pytest.raises(UnlabelError, match=sentence):
        doors.run(fitted, rows)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([0.5, np.nan, 0.25, 0.25], "Row 3 is not a vector of logits: the label 'dog' is NaN"),
        ([0.5, 1.0, np.inf, 0.25], "Row 3 .* label 'fox' is infinite"),
        ([-np.inf] * 4, "Row 3 .* every label is minus infinity"),
    ],
)
def test_the_first_bad_row_of_logits_is_named(row, sentence):
    logits = with_row(3, row, np.log(ROWS))
    assert re.search(sentence, refused(rows=logits, kind="logits"))
    with pytest.raises(UnlabelError, match=sentence):
        doors.mask(NAMES, ["dog"], kind="logits").apply(logits)


def test_rows_of_a_table_are_numbered_from_its_start():
    with pytest.raises(UnlabelError, match="Row 1007 "):
        check_rows(with_row(7, np.zeros(4)), "probabilities", first_row=1000)


@pytest.mark.parametrize(("dtype", "off"), [(np.float16, 9e-3), (np.float32, 9e-4), (float, 9e-4)])
def test_sums_may_be_off_as_stored_tables_round_them(fitted, dtype, off):
    rows = (ROWS * (1 + off * 0.9)).astype(dtype)
    result = fitted.apply(rows).astype(np.float64)
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=2e-3)
    with pytest.raises(UnlabelError, match=r"Row 0 .* sums to"):
        fitted.apply((ROWS * (1 + off * 1.5)).astype(dtype))


@pytest.mark.parametrize("row", [[0.6, 0.5, -0.1, 0.0], [0.25, 0.25, 0.25, 0.251005]])
def test_sums_in_float32_let_no_bad_row_in(fitted, row):
    with pytest.raises(UnlabelError, match="Row 0 is not a probability vector"):
        fitted.apply(np.array([row], dtype=np.float32))


def test_probabilities_given_as_logits_are_refused():
    message = refused(kind="logits")
    assert message.startswith("The rows are probabilities, not logits")
    assert "input='probabilities'" in message


def test_percentages_are_called_so():
    rows = [[70.0, 20.0, 10.0], [30.0, 30.0, 40.0]]
    with pytest.raises(UnlabelError, match=r"Row 0 .* sums to 100, as percentages do; divide"):
        doors.fit(rows, [0, 1], remove=[0])
    with pytest.raises(UnlabelError, match="rows are percentages, not logits: divide by 100"):
        doors.fit(rows, [0, 1], remove=[0], kind="logits")


@pytest.mark.parametrize("rows", [[[2.0, -1.0, 0.0]], [[70.0, 20.0, 10.0], [30.0, 30.0, 41.0]]])
def test_logits_may_sum_to_1_or_100(rows):
    assert doors.fit(rows, remove=[0], method="mask", kind="logits").removed == (0,)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (ROWS[0, :3], r"shape \(3,\), not \(\.\.\., 4\): give one column per label"),
        (ROWS[None, :, :3], r"shape \(1, 40, 3\), not \(\.\.\., 4\)"),
        (0.5, r"shape \(\), not \(\.\.\., 4\)"),
        (ROWS[:, :3], r"shape \(40, 3\), not \(\.\.\., 4\): give one column per label"),
        ([["a", "b", "c", "d"]], "type <U1: give float16, float32 or float64"),
        (ROWS.astype(complex), "type complex128: give"),
        (ROWS.astype(object), "type object: give"),
        ([[0.5, 0.5, 0, 0], [1.0]], "not an array of numbers"),
    ],
)
def test_anything_but_a_table_of_numbers_is_refused(fitted, rows, sentence):
    with pytest.raises(UnlabelError, match=sentence):
        fitted.apply(rows)
    assert re.search(sentence, refused(rows=rows))


@pytest.mark.parametrize("kind", [int, bool, np.int8])
def test_integers_are_taken_as_numbers(fitted, kind):
    one_hot = np.eye(4, dtype=kind)
    np.testing.assert_array_equal(fitted.apply(one_hot), fitted.apply(np.eye(4)))


@pytest.mark.parametrize("kind", [">f8", ">f4", "<f8"])
def test_the_byte_order_of_a_table_does_not_matter(fitted, kind):
    rows = ROWS.astype(kind)
    native = rows.astype(rows.dtype.newbyteorder("="))
    np.testing.assert_array_equal(fitted.apply(rows), fitted.apply(native))
    assert fitted.apply(rows).dtype.isnative


# What is asked for

WITHOUT_FOX = {"rows": ROWS[TRUTH != "fox"], "truth": TRUTH[TRUTH != "fox"]}
ASKED = [
    ({"rows": ROWS[0], "truth": TRUTH[:1]}, r"shape \(4,\), not .*confidences\[None, :\]"),
    ({"rows": ROWS[:0], "truth": TRUTH[:0]}, "'dog' has no reference rows: give"),
    ({"rows": np.empty((3, 0)), "truth": [0] * 3, "classes": None, "remove": [0]}, "no label 0"),
    (WITHOUT_FOX | {"remove": ["cat", "fox"]}, "'fox' has no reference rows: .*method='mask'"),
    ({"remove": ["dogs"]}, "^The model has no label 'dogs': the nearest is 'dog'.$"),
    ({"keep": ["fix"]}, "The model has no label 'fix': .* 'fox'"),
    ({"classes": None, "remove": ["3"], "truth": NUMBERS}, "no label '3':.* nearest is 3"),
    ({"remove": NAMES}, "All 4 labels would be"),
    ({"keep": []}, "All 4 labels would be"),
    ({"remove": None}, "^Give either remove=.* or keep"),
    ({"remove": ["cat"], "keep": ["dog"]}, "^Give either remove=.* or keep"),
    ({"classes": [1, 1.0, 2, 3], "truth": None}, "appears twice in classes"),
    ({"truth": np.array([["dog"], *TRUTH[1:]], dtype=object)}, "not all strings or numbers"),
    ({"truth": [["dog"], *TRUTH[1:]]}, "not all strings or numbers"),
    ({"truth": TRUTH[:39]}, "40 rows have 39 true labels: give one per row"),
    ({"truth": TRUTH[:, None]}, r"true labels have the shape \(40, 1\): give one per row"),
    ({"truth": "dog"}, r"true labels have the shape \(\): give one per row"),
    ({"truth": None}, "y is None: give each reference row's true label"),
    ({"truth": None, "calibrate": True}, "y is None"),
    ({"truth": None, "method": "literal"}, "y is None"),
    ({"method": "literal", "calibrate": True}, "use method='osr'"),
    ({"kind": "scores"}, "use one of 'probabilities', 'logits'"),
    *(({"method": method}, "use one of 'osr', 'mask', ") for method in ("OSR", None, ["osr"], 3)),
]


@pytest.mark.parametrize(("arguments", "words"), ASKED)
def test_what_cannot_be_fitted_is_refused(arguments, words):
    assert re.search(words, refused(**arguments))


# Labels


def test_a_suggestion_is_found_in_bounded_time():
    # Comparing whole strings would take hours.
    classes = ["ab" * 100_000, "cat", *range(100_000)]
    rows = np.full((1, len(classes)), 1 / len(classes))
    with pytest.raises(UnlabelError, match="the nearest is 'abab"):
        doors.fit(rows, None, classes=classes, remove=["ba" * 100_000], method="mask")


@pytest.mark.parametrize("name", ["remove", "keep", "classes"])
def test_duplicate_labels_are_named(name):
    message = refused(**{name: ["cat", "dog", "owl", "dog"]})
    assert message == f"The label 'dog' appears twice in {name}: give it once."


def test_duplicates_among_many_labels_are_found_in_bounded_time():
    n = 300_000
    rows = np.full((1, n), 1 / n)
    with pytest.raises(UnlabelError, match="299998 appears twice in classes"):
        doors.fit(rows, [0], classes=[*range(n - 1), n - 2], remove=[0])


def test_labels_to_keep_among_many_are_found_in_bounded_time():
    n = 50_000
    fitted = doors.fit(np.full((1, n), 1 / n), keep=range(2, n), method="mask")
    assert fitted.removed == (0, 1)


@pytest.mark.parametrize("name", ["remove", "keep", "classes"])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("dog", r"='dog' is a string: give a list, \['dog'\]"),
        (3, "=3 is not a list of labels: give a list"),
        (np.array("dog"), "is not a list of labels"),
        ((label for label in NAMES), "is not a list of labels"),
        ([["cat"], "dog", "fox", "owl"], r"holds \['cat'\]: labels are strings or finite numbers"),
        ([{"a": 1}, "dog", "fox", "owl"], "holds {'a': 1}"),
        ([None, "dog", "fox", "owl"], "holds None"),
        ([float("nan"), "dog", "fox", "owl"], "holds nan"),
        ([float("inf"), "dog", "fox", "owl"], "holds inf"),
        ([b"cat", "dog", "fox", "owl"], "holds b'cat'"),
        ([2j, "dog", "fox", "owl"], "holds 2j"),
        (["\ud800", "dog", "fox", "owl"], "holds "),
    ],
)
def test_anything_but_a_list_of_labels_is_refused(name, value, sentence):
    assert re.match(f"{name}.*{sentence}", refused(**{name: value}))


def test_booleans_are_not_the_true_labels_0_and_1():
    for truth in ([True, False], np.array([True, False])):
        with pytest.raises(UnlabelError, match=r"The model has no label (True|False), nor any"):
            doors.fit([[0.6, 0.4], [0.3, 0.7]], truth, remove=[1])


def test_a_boolean_mask_is_not_a_list_of_numbers():
    truth = NUMBERS
    for mask in ([True], [True, False], np.array([False, True])):
        assert "The model has no label" in refused(classes=None, truth=truth, remove=mask)


def test_true_labels_of_several_types_keep_them():
    classes = ["a", 1, 2.5, "1"]
    truth = [classes[i % 4] for i in range(40)]
    assert doors.fit(ROWS, truth, classes=classes, remove=["1", 1]).counts == (10, 10)


@pytest.mark.parametrize("kind", [float, np.float32, np.uint8, np.int64, object])
def test_true_labels_are_numbers_of_any_type(kind):
    assert doors.fit(ROWS, NUMBERS.astype(kind), remove=[3]).counts == (10,)
