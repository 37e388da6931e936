"""Each mistake gets one UnlabelError that names it and says what to do."""

import re

import numpy as np
import pytest

import doors
from unlabel import LabelRemover, OutputFilter, UnlabelError
from unlabel._method.temperature import COLDEST, HOTTEST
from unlabel.validation import check_rows

NAMES = ["cat", "dog", "fox", "owl"]
ROWS = np.random.default_rng(0).dirichlet(np.ones(4), 40)
TRUTH = np.array(NAMES)[np.arange(40) % 4]


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


def with_row(at, row):
    rows = ROWS.copy()
    rows[at] = row
    return rows


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
    logits = np.log(ROWS)
    fitted = doors.fit(logits, TRUTH, classes=NAMES, remove=["dog"], kind="logits")
    logits[3] = row
    assert re.search(sentence, refused(rows=logits, kind="logits"))
    with pytest.raises(UnlabelError, match=sentence):
        fitted.apply(logits)


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


def test_logits_may_sum_to_100():
    rows = [[70.0, 20.0, 10.0], [30.0, 30.0, 41.0], [99.0, 0.5, 0.4]]
    assert doors.fit(rows, [0, 1, 2], remove=[0], kind="logits").counts == (1,)


def test_logits_may_sum_to_1():
    fitted = doors.fit([[2.0, -1.0, 0.0]], remove=[0], method="mask", kind="logits")
    assert fitted.removed == (0,)


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


def test_a_single_vector_is_no_reference_table():
    sentence = r"shape \(4,\), not \(rows, 4\): .*confidences\[None, :\]"
    assert re.search(sentence, refused(rows=ROWS[0], truth=TRUTH[:1]))


def test_an_empty_table_has_no_reference_rows():
    message = refused(rows=ROWS[:0], truth=TRUTH[:0])
    assert message.startswith("The label 'dog' has no reference rows: give")


def test_a_table_without_columns_has_no_labels():
    message = refused(rows=np.empty((3, 0)), truth=[0, 0, 0], classes=None, remove=[0])
    assert message.startswith("The model has no label 0")


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


def test_numbered_columns_of_a_data_frame_are_not_named_after_labels():
    pandas = pytest.importorskip("pandas")
    fitted = doors.fit(np.eye(2), [1, 0], classes=[1, 0], remove=[0])
    assert fitted.apply(pandas.DataFrame([[0.5, 0.5]])).tolist() == [[1.0]]


# Labels


def test_a_label_that_does_not_exist_suggests_the_nearest():
    assert refused(remove=["dogs"]) == ("The model has no label 'dogs': the nearest is 'dog'.")
    assert "The model has no label 'fix':" in refused(keep=["fix"])
    assert "the nearest is 'fox'" in refused(keep=["fix"])


def test_a_number_given_as_a_text_suggests_the_number():
    message = refused(classes=None, remove=["3"], truth=np.arange(40) % 4)
    assert "The model has no label '3':" in message
    assert "the nearest is 3." in message


def test_a_suggestion_is_found_in_bounded_time():
    # Comparing whole strings would take hours.
    classes = ["ab" * 100_000, "cat", *range(100_000)]
    rows = np.full((1, len(classes)), 1 / len(classes))
    with pytest.raises(UnlabelError, match="the nearest is 'abab"):
        doors.fit(rows, None, classes=classes, remove=["ba" * 100_000], method="mask")


def test_a_label_without_reference_rows_is_named():
    message = refused(rows=ROWS[TRUTH != "fox"], truth=TRUTH[TRUTH != "fox"], remove=["cat", "fox"])
    assert message.startswith("The label 'fox' has no reference rows: give the model's outputs")
    assert "method='mask'" in message


def test_removing_all_labels_is_refused():
    for arguments in ({"remove": NAMES}, {"keep": []}):
        assert refused(**arguments) == ("All 4 labels would be retired: at least one must remain.")


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


def test_equal_numbers_of_two_types_are_the_same_label():
    assert "appears twice in classes" in refused(classes=[1, 1.0, 2, 3], truth=None)


@pytest.mark.parametrize("arguments", [{"remove": None}, {"remove": ["cat"], "keep": ["dog"]}])
def test_either_remove_or_keep_is_given(arguments):
    assert refused(**arguments).startswith("Give either remove=[...] (--remove) or keep")


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
    truth = np.arange(40) % 4
    for mask in ([True], [True, False], np.array([False, True])):
        assert "The model has no label" in refused(classes=None, truth=truth, remove=mask)


def test_labels_of_an_unhashable_type_are_refused():
    truth = np.array([["dog"], *TRUTH[1:]], dtype=object)
    assert refused(truth=truth) == "The true labels are not all strings or numbers."
    assert "not all strings or numbers" in refused(truth=[["dog"], *TRUTH[1:]])


# True labels


@pytest.mark.parametrize(
    ("truth", "sentence"),
    [
        (
            TRUTH[:39],
            "40 rows have 39 true labels: give one per row",
        ),
        (TRUTH[:, None], r"The true labels have the shape \(40, 1\): give one per row"),
        ("dog", r"The true labels have the shape \(\): give one per row"),
    ],
)
def test_there_is_one_true_label_per_row(truth, sentence):
    assert re.match(sentence, refused(truth=truth))


@pytest.mark.parametrize("arguments", [{}, {"method": "literal"}, {"calibrate": True}])
def test_true_labels_are_needed(arguments):
    assert "y is None: give each reference row's true label" in refused(truth=None, **arguments)


def test_true_labels_of_several_types_keep_them():
    classes = ["a", 1, 2.5, "1"]
    truth = [classes[i % 4] for i in range(40)]
    assert doors.fit(ROWS, truth, classes=classes, remove=["1", 1]).counts == (10, 10)


@pytest.mark.parametrize("kind", [float, np.float32, np.uint8, np.int64, object])
def test_true_labels_are_numbers_of_any_type(kind):
    assert doors.fit(ROWS, (np.arange(40) % 4).astype(kind), remove=[3]).counts == (10,)


# Choices


@pytest.mark.parametrize("method", ["OSR", None, ["osr"], 3])
def test_an_unknown_method_lists_the_known_ones(method):
    assert "is not known: use one of 'osr', 'mask', 'literal'." in refused(method=method)


def test_an_unknown_input_lists_the_known_ones():
    assert "use one of 'probabilities', 'logits'." in refused(kind="scores")


def test_literal_cannot_be_calibrated():
    assert "use method='osr'" in refused(method="literal", calibrate=True)


def test_the_transformer_says_the_same():
    with pytest.raises(UnlabelError, match="the nearest is 'dog'"):
        LabelRemover(remove=["dgo"], classes=NAMES).fit(ROWS, TRUTH)


# A filter made by hand


def parts(**changes):
    return {
        "classes_in": ("a", "b", "c"),
        "plan": ("a",),
        "means": [[0.5, 0.25, 0.25]],
        "shares": [[0.0, 0.3, 0.3]],
        "counts": (4,),
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"temperature": 0.0}, f"temperature is 0.0: give {COLDEST} to {HOTTEST}"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 10**400}, f"give {COLDEST} to {HOTTEST}"),
        ({"temperature": 5e-324}, f"give {COLDEST} to {HOTTEST}"),
        ({"temperature": 2.0, "method": "literal"}, "use temperature=1"),
        ({"counts": (4, 5)}, "not one count"),
        ({"counts": (-1,)}, "not one count"),
        ({"means": [[0.5, 0.5]]}, r"means have the shape \(1, 2\), not \(1, 3\)"),
        ({"shares": [[0.3, 0.3, 0.3]]}, "share of the retired label 'a'"),
        ({"shares": [[0.0, -0.3, 0.3]]}, "share of the retired label 'a'"),
        ({"shares": [[0.0, 0.0, 0.0]]}, "share of the retired label 'a'"),
        ({"means": [[0.5, np.nan, 0.5]]}, "mean of the retired label 'a'"),
        ({"means": [[5.0, 2.5, 2.5]]}, "mean of the retired label 'a'"),
        ({"method": "mask"}, "'mask' has no means of retired labels: use OutputFilter.mask"),
        ({"method": "mask", "means": np.zeros((2, 3))}, r"the shape \(2, 3\), not \(0, 3\)"),
        ({"plan": ("d",)}, "no label 'd'"),
        ({"plan": ()}, "not one count"),
    ],
)
def test_statistics_that_no_rows_could_have_given_are_refused(changes, sentence):
    with pytest.raises(UnlabelError, match=sentence):
        OutputFilter(**parts(**changes))


def test_a_filter_cannot_be_changed():
    fitted = OutputFilter(**parts())
    with pytest.raises(AttributeError):
        fitted.temperature = 2.0
    for statistics in (fitted.means, fitted.shares):
        with pytest.raises(ValueError, match="read-only"):
            statistics[0, 0] = 1.0


def test_a_filter_does_not_change_with_the_arrays_it_was_made_of():
    means = np.array([[0.5, 0.25, 0.25]])
    fitted = OutputFilter(**parts(means=means))
    before = fitted.apply([[0.5, 0.25, 0.25]])
    means[:] = [[0.1, 0.8, 0.1]]
    np.testing.assert_array_equal(fitted.apply([[0.5, 0.25, 0.25]]), before)
