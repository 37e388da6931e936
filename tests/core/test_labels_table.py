"""What each value does as a label: in lists of labels, in plans, in true labels and in files."""

from enum import Enum

import numpy as np
import pytest

import doors
from unlabel import AnswerRule, LabelPlan, OutputFilter, UnlabelError
from worlds import FEW


class Animal(str, Enum):  # noqa: UP042 (StrEnum has another text)
    CAT = "cat"


class Code(int, Enum):
    CAT = 5


class Described(str, Enum):  # noqa: UP042 (StrEnum has another text)
    """Members whose value is not their text."""

    def __new__(cls, text):
        member = str.__new__(cls, text)
        member._value_ = f"the {text}"
        return member

    CAT = "cat"


class Bare(Enum):
    CAT = "cat"


REFUSED = None
# Each value, and the label that it is.
VALUES = [
    ("cat", "cat"),
    ("0123", "0123"),
    ("", ""),
    ("None", "None"),
    (np.str_("cat"), "cat"),
    (7, 7),
    (-7, -7),
    (2**63 - 1, 2**63 - 1),
    (np.int64(7), 7),
    (np.uint8(7), 7),
    (2.0, 2),
    (np.float32(2.0), 2),
    (np.float64(-0.0), 0),
    (Animal.CAT, "cat"),
    (Described.CAT, "cat"),
    (Code.CAT, 5),
    (2.5, REFUSED),
    (np.float32(0.1), REFUSED),
    (float("inf"), REFUSED),
    (float("nan"), REFUSED),
    (2**63, REFUSED),
    (10**5000, REFUSED),
    (True, REFUSED),
    (np.False_, REFUSED),
    (None, REFUSED),
    (b"cat", REFUSED),
    (2j, REFUSED),
    ("\ud800", REFUSED),
    (Bare.CAT, REFUSED),
    (("cat",), REFUSED),
    (["cat"], REFUSED),
    (np.array(["cat"]), REFUSED),
]
IDS = [f"{type(value).__name__}-{at}" for at, (value, _) in enumerate(VALUES)]
OTHERS = ["other", 9]


def in_classes(value):
    return doors.mask([value, *OTHERS], ["other"]).classes_in[0]


def in_remove(value):
    classes = [label for label in [plain(value), *OTHERS] if label is not REFUSED]
    rows = np.full((1, len(classes)), 1 / len(classes))
    return doors.fit(rows, classes=classes, remove=[value], method="mask").removed[0]


def in_keep(value):
    classes = [label for label in [plain(value), *OTHERS] if label is not REFUSED]
    rows = np.full((1, len(classes)), 1 / len(classes))
    return doors.fit(rows, classes=classes, keep=[value], method="mask").classes_out[0]


def in_changes(value):
    return next(iter(LabelPlan({value: "new"}).changes))


def as_destination(value):
    return LabelPlan({"old": value}).changes["old"]


def as_part(value):
    return next(iter(LabelPlan({"old": {value: 0.5, "new": 0.5}}).changes["old"]))


def as_allowed(value):
    classes = [label for label in [plain(value), *OTHERS] if label is not REFUSED]
    row = np.full(len(classes), 1 / len(classes))
    allowed = doors.mask(classes, {}).apply(row, allow=[value])
    return classes[int(allowed.argmax())]


def in_a_rule(value):
    return next(iter(AnswerRule({value: 0.5}).min_confidence))


def as_unknown(value):
    return AnswerRule(unknown=value).unknown


def plain(value):
    return next(label for given, label in VALUES if given is value)


PLACES = [in_classes, in_remove, in_keep, in_changes, as_destination, as_part, as_allowed]
NONE_SAYS_MORE = {as_destination, in_a_rule, as_unknown}  # removed, all others, no name
LISTS_SAY_MORE = {as_destination}  # parts


@pytest.mark.parametrize(("value", "label"), VALUES, ids=IDS)
@pytest.mark.parametrize("place", [*PLACES, in_a_rule, as_unknown])
def test_what_is_a_label_and_which(place, value, label):
    if value is None and place in NONE_SAYS_MORE:
        return
    if isinstance(value, list | tuple) and place in LISTS_SAY_MORE:
        assert place(value) == "cat"
        return
    if label is not REFUSED:
        found = place(value)
        assert (found, type(found)) == (label, type(label))
        return
    try:
        hash(value)
    except TypeError:
        if place in (in_changes, as_part, in_a_rule):
            return  # Python itself refuses it as a key
    with pytest.raises(UnlabelError, match="neither a string nor a whole number"):
        place(value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["cat", "cat"], "'cat' appears twice"),
        ([2, 2.0], "2 appears twice"),
        (["cat", Animal.CAT], "'cat' appears twice"),
        ([1, "1"], "1 has the text of '1'"),
        (["1", np.int8(1)], "'1' has the text of 1"),
    ],
)
def test_no_two_labels_have_one_text(labels, words):
    for place in (
        lambda: doors.mask([*labels, "other"], []),
        lambda: LabelPlan(labels),
        lambda: LabelPlan(dict.fromkeys(labels[:1], "new") | {"a": [*labels]}),
        lambda: doors.fit(FEW, classes=[1, "cat", 2], remove=labels, method="mask"),
        lambda: doors.mask([1, "cat", 2], {}).apply(FEW, allow=labels),
    ):
        with pytest.raises(UnlabelError, match=words):
            place()


# True labels


MISSING, OTHER = "without a true label", "of labels that the model does not have"


@pytest.mark.parametrize(
    ("value", "label", "words"),
    [
        ("cat", "cat", ""),
        (Animal.CAT, "cat", ""),
        (Described.CAT, "cat", ""),
        (np.str_("cat"), "cat", ""),
        ("0123", "0123", ""),
        ("123", "0123", OTHER),
        (123, "0123", OTHER),
        (2, 2, ""),
        (2.0, 2, ""),
        (np.float32(2), 2, ""),
        (np.uint8(2), 2, ""),
        ("2", 2, OTHER),  # in true labels a text is not the number
        (2.5, 2, OTHER),
        (True, 1, OTHER),
        (np.True_, 1, OTHER),
        (1, 1, ""),
        (b"cat", "cat", OTHER),
        (Bare.CAT, "cat", OTHER),
        (None, "cat", MISSING),
        (float("nan"), "cat", MISSING),
        ("", "cat", MISSING),
        ("", "", ""),
    ],
)
def test_true_labels(value, label, words):
    classes = [label, "dog", "fox"]
    truth = [value, "dog", "fox"]
    if not words:
        assert doors.fit(FEW, truth, classes=classes, remove=[label]).counts == (1,)
        return
    with pytest.warns(UserWarning, match=f"^1 row {words}"):
        assert OutputFilter.fit(FEW, truth, classes=classes, remove=[], method="mask").counts == ()


@pytest.mark.parametrize("dtype", [float, np.float32, np.uint8, np.int64, object, str, "U9"])
def test_arrays_of_true_labels(dtype):
    numbers = np.array([1, 2, 1]).astype(dtype)
    classes = [1, 2, 3] if numbers.dtype.kind != "U" else ["1", "2", "3"]
    assert doors.fit(FEW, numbers, classes=classes, remove=classes[:2]).counts == (2, 1)


def test_true_labels_of_several_types_keep_them():
    truth = ["1", 2, np.int8(2)]
    assert doors.fit(FEW, truth, classes=["1", 2, "x"], remove=[2, "1"]).counts == (2, 1)


# Categoricals of pandas


@pytest.mark.parametrize("as_series", [False, True])
def test_categoricals_are_their_values(as_series):
    pd = pytest.importorskip("pandas")

    def made(values):
        categorical = pd.Categorical(values, categories=["owl", "fox", "dog", "cat"])
        return pd.Series(categorical) if as_series else categorical

    names = ["cat", "dog", "fox"]
    fitted = doors.fit(FEW, made(["cat", "cat", "dog"]), classes=made(names), remove=made(["cat"]))
    assert (fitted.classes_in, fitted.removed, fitted.counts) == (tuple(names), ("cat",), (2,))
    assert {*map(type, fitted.classes_in)} == {str}
    assert fitted.apply(FEW, allow=made(["fox"])).tolist() == [[0, 1]] * 3
    truth = made(["cat", None, "dog"])
    with pytest.warns(UserWarning, match=f"^1 row {MISSING}"):
        OutputFilter.fit(FEW, truth, classes=names, remove=["cat"], method="mask")
    with pytest.raises(UnlabelError, match="nan is neither"):
        doors.mask(made(["cat", None]), [])


# Files


@pytest.mark.parametrize(
    ("name", "text"), [("p.toml", "[changes]\n%s"), ("p.json", '{"changes": {%s}}')]
)
@pytest.mark.parametrize(
    ("line", "classes", "result"),
    [
        (("8 = 10", '"8": 10'), [7, 8, 9], (7, 10, 9)),  # XGBoost numbers its labels
        (('8 = "10"', '"8": "10"'), [7, 8, 9], (7, 10, 9)),
        (('8 = "x"', '"8": "x"'), [7, 8, 9], (7, "x", 9)),
        (('8 = "010"', '"8": "010"'), [7, 8, 9], (7, "010", 9)),
        (("8 = 9", '"8": 9'), [7, 8, 9], (7, 9)),
        (("8 = false", '"8": false'), [7, 8, 9], (7, 9)),
        (("8 = 1234567890123456789", '"8": "1234567890123456789"'), [8], (1234567890123456789,)),
        (('8 = "9999999999999999999"', '"8": "9999999999999999999"'), [8], ("9" * 19,)),  # no int64
        (("8 = 10", '"8": 10'), ["7", "8"], ("7", "10")),
        (('"0123" = "x"', '"0123": "x"'), ["0123", "123"], ("x", "123")),
    ],
)
def test_plan_files_for_models_of_numbers_and_of_texts(tmp_path, name, text, line, classes, result):
    (tmp_path / name).write_text(text % line[name.endswith("json")])
    fitted = doors.mask(classes, LabelPlan.load(tmp_path / name))
    assert fitted.classes_out == result
    assert [*map(type, fitted.classes_out)] == [*map(type, result)]
    fitted.save(tmp_path / "filter")
    assert OutputFilter.load(tmp_path / "filter") == fitted


def test_a_label_that_another_label_of_a_file_looks_like_is_another(tmp_path):
    (tmp_path / "p.toml").write_text('[changes]\n"123" = "x"')
    with pytest.raises(UnlabelError, match="no label '123': the nearest is '0123'"):
        doors.mask(["0123", "cat"], LabelPlan.load(tmp_path / "p.toml"))
