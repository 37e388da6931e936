"""Each mistake gets one UnlabelError that names it and says what to do."""

import re

import numpy as np
import pytest

import doors
from unlabel import UnlabelError
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
        "^Row 7: it is not a probability vector: the label 'dog' is NaN; give a number or drop the "
        r"row\.$",
    ),
    ([0.5, 0.25, np.inf, 0.25], "^Row 7: .* label 'fox' is infinite"),
    ([np.inf, -np.inf, 0.5, 0.5], "^Row 7: .* label 'cat' is infinite"),
    ([0.5, 0.5, 0.25, -0.25], r"^Row 7: .* label 'owl' is -0.25; .*\(kind=\)\.$"),
    ([0.25, 0.25, 0.25, 0.2], "^Row 7: .* sums to 0.95, more than 1% from 1; .* divide"),
    ([0.4, 0.4, 0.2, 0.2], "^Row 7: .* it sums to 1.2, more than 1%"),
    ([0.0, 0.0, 0.0, 0.0], "^Row 7: .* it sums to 0, more than 1%"),
    ([2.5, 0.1, 7.0, 0.3], "^Row 7: .* label 'fox' is 7; if these are logits, say so"),
    ([2.5, 0.1, -7.0, 0.3], "^Row 7: .* label 'fox' is -7; if these are logits"),
    ([1e308, 1e308, 1e308, 1e308], r"^Row 7: .* label 'cat' is 1e\+308; if these are logits"),
]


@pytest.mark.parametrize(("row", "sentence"), BAD_ROWS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_bad_row_is_named(fitted, row, sentence, dtype):
    rows = with_row(7, row)
    rows[9] = np.nan
    with np.errstate(over="ignore"):
        rows = rows.astype(dtype)
    if np.isposinf(rows[7]).all():
        sentence = "^Row 7: .* label 'cat' is infinite"
    assert re.search(sentence, refused(rows=rows))
    with pytest.raises(UnlabelError, match=sentence):
        fitted.apply(rows)
    with pytest.raises(UnlabelError, match=sentence):
        doors.run(fitted, rows)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([0.5, np.nan, 0.25, 0.25], "^Row 3: it is not a vector of logits: the label 'dog' is NaN"),
        ([0.5, 1.0, np.inf, 0.25], "^Row 3: .* label 'fox' is infinite"),
        ([-np.inf] * 4, "^Row 3: .* every label is minus infinity"),
    ],
)
def test_the_first_bad_row_of_logits_is_named(row, sentence):
    logits = with_row(3, row, np.log(ROWS))
    assert re.search(sentence, refused(rows=logits, kind="logits"))
    with pytest.raises(UnlabelError, match=sentence):
        doors.mask(NAMES, ["dog"], kind="logits").apply(logits)


def test_probabilities_given_as_logits_are_refused():
    for rows in (ROWS, ROWS.round(2)):
        message = refused(rows=rows, kind="logits")
        assert message == "The rows are probabilities, not logits: say so (kind=)."


def test_percentages_are_called_so():
    rows = [[70.0, 20.0, 10.0], [30.0, 30.0, 40.0]]
    with pytest.raises(UnlabelError, match=r"^Row 0: .* sums to 100, as percentages do; divide"):
        doors.fit(rows, [0, 1], remove=[0])


def test_logits_may_sum_to_1():
    assert doors.fit([[2.0, -1.0, 0.0]], remove=[0], method="mask", kind="logits").removed == (0,)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (ROWS[0, :2], r"shape \(2,\), not \(\.\.\., 4\): give one column per label"),
        (0.5, r"shape \(\), not \(\.\.\., 4\)"),
        (ROWS[:, :2], r"shape \(40, 2\), not \(\.\.\., 4\): give one column per label"),
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


# Independent scores


SIGMOID = "look like independent .sigmoid. scores"


def sigmoid_scores(shift):
    logits = np.random.default_rng(1).normal(shift, 2, size=(200, 4))
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shift", [-1, 0, 3])
def test_sigmoid_scores_are_called_so(fitted, shift, dtype):
    rows = sigmoid_scores(shift).astype(dtype)
    for given in (rows, [[0.9, 0.8, 0.7, 0.6]]):  # a single row may show it
        with pytest.raises(UnlabelError, match=SIGMOID):
            fitted.apply(given)
    assert re.search(SIGMOID, refused(rows=rows, truth=np.resize(TRUTH, 200)))


def test_other_mistakes_are_not_taken_for_sigmoid_scores(fitted):
    for row in ([0.9, 0.9, 0, 0], [0.2, 0.1, 0, 0]):
        with pytest.raises(UnlabelError, match="give every label's confidence"):
            fitted.apply(with_row(3, row))


# Tables and their like


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_is_refused(fitted, library):
    frame = frame_of(pytest.importorskip(library))
    words = "columns may stand in another order than the labels: give an array"
    assert re.search(words, refused(rows=frame))
    for door in (fitted.apply, fitted.run, fitted.answer):
        with pytest.raises(UnlabelError, match=words):
            door(frame)


def frame_of(library):
    make = getattr(library, "DataFrame", None) or library.table
    return make(dict(zip(NAMES, ROWS.T, strict=True)))


# What is asked for

ASKED = [
    ({"rows": ROWS[0], "truth": TRUTH[:1]}, r"a single vector: .*confidences\[None, :\]"),
    ({"rows": np.empty((3, 0)), "truth": [0] * 3, "classes": None, "remove": [0]}, "no label 0"),
    ({"remove": ["dogs"]}, r"^The model has no label 'dogs': the nearest is 'dog' \(remove=\)\.$"),
    ({"keep": ["fix"]}, "The model has no label 'fix': .* 'fox'"),
    ({"classes": None, "remove": ["9"], "truth": NUMBERS}, "has no label 9:"),
    ({"remove": NAMES}, "All 4 labels"),
    ({"keep": []}, "All 4 labels"),
    ({"remove": None}, "^Give one of a plan, labels to remove and labels to keep"),
    ({"remove": ["cat"], "keep": ["dog"]}, "^Give one of"),
    ({"remove": ["cat"], "plan": {"dog": None}}, "^Give one of"),
    ({"remove": None, "plan": "dog"}, "The plan is a path"),
    ({"truth": np.array([["dog"], *TRUTH[1:]], dtype=object)}, "not all strings or numbers"),
    ({"truth": [["dog"], *TRUTH[1:]]}, "not all strings or numbers"),
    ({"truth": TRUTH[:39]}, "40 rows have 39 true labels: give one per row"),
    ({"truth": TRUTH[:, None]}, r"shape \(40, 1\): give one per row"),
    ({"truth": "dog"}, r"shape \(\): give one per row"),
    ({"truth": None}, "rows need their true labels: give one per row"),
    ({"truth": None, "method": "mask", "calibrate": True}, "rows need their true labels"),
    ({"kind": "scores"}, r"'scores' is not known: give 'probabilities' or 'logits' \(kind=\)"),
    *(({"method": method}, "give 'osr' or 'mask'") for method in ("literal", None, ["osr"], 3)),
]


@pytest.mark.parametrize(("arguments", "words"), ASKED)
def test_what_cannot_be_fitted_is_refused(arguments, words):
    assert re.search(words, refused(**arguments))


# Labels


def test_a_suggestion_is_found_in_bounded_time():
    # Comparing whole strings would take hours.
    classes = ["ab" * 100_000, "cat", *range(100_000)]
    with pytest.raises(UnlabelError, match="the nearest is 'abab"):
        doors.mask(classes, ["ab" * 99_999])


@pytest.mark.parametrize("name", ["remove", "keep", "classes"])
def test_duplicate_labels_are_named(name):
    message = refused(**{name: ["cat", "dog", "owl", "dog"]})
    assert message == f"The label 'dog' appears twice: give each label once ({name}=)."


def test_duplicates_among_many_labels_are_found_in_bounded_time():
    n = 300_000
    rows = np.full((1, n), 1 / n)
    with pytest.raises(UnlabelError, match="299998 appears twice"):
        doors.fit(rows, [0], classes=[*range(n - 1), n - 2], remove=[0])


def test_labels_to_keep_among_many_are_found_in_bounded_time():
    n = 50_000
    fitted = doors.fit(np.full((1, n), 1 / n), keep=range(2, n), method="mask")
    assert fitted.removed == (0, 1)


@pytest.mark.parametrize("name", ["remove", "keep", "classes"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("dog", "given as str: give a list"),
        (3, "given as int: give a list"),
        (np.array("dog"), "given as ndarray: give a list"),
        ((label for label in NAMES), "given as generator: give a list"),
    ],
)
def test_anything_but_a_list_of_labels_is_refused(name, value, words):
    assert re.search(rf"{words}.* \({name}=\)", refused(**{name: value}))
