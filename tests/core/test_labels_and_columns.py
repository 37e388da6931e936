"""Pairing labels with columns: anything that could pair them wrongly is reordered or refused."""

from enum import Enum

import numpy as np
import pytest

import doors
from unlabel import LabelRemovalClassifier, UnlabelError, metrics
from worlds import FEW as ROWS
from worlds import FEW_NAMES as NAMES
from worlds import FEW_TRUTH as TRUTH
from worlds import NUMBERS
from worlds import ROWS as MANY

ID2LABEL = dict(enumerate(NAMES))
LABEL2ID = {name: number for number, name in enumerate(NAMES)}
GIVEN = {"classes": NAMES, "remove": ["cat"]}


def refused(words, call, *arguments, **options):
    with pytest.raises(UnlabelError, match=words):
        call(*arguments, **options)


# Lists, sets and mappings


@pytest.mark.parametrize("name", ["classes", "remove"])
@pytest.mark.parametrize("values", [set(NAMES), frozenset(NAMES), LABEL2ID.keys()])
def test_a_set_has_no_order_and_is_refused(name, values):
    words = f"^{name} is a {type(values).__name__}: give a list, in"
    refused(words, doors.fit, ROWS, TRUTH, **GIVEN | {name: values})


@pytest.mark.parametrize("classes", [set(NAMES), LABEL2ID])
def test_an_evaluation_takes_labels_in_order_too(classes):
    words = r"^classes is a (set|mapping whose keys).*: give a list"
    refused(words, doors.evaluate, ROWS, TRUTH, classes=classes, remove=["cat"])


def test_the_labels_to_keep_may_be_a_set_and_no_mapping():
    assert doors.fit(ROWS, TRUTH, classes=NAMES, keep={"fox", "dog"}).removed == ("cat",)
    assert doors.fit(classes=NAMES, keep=["dog"]).removed == ("cat", "fox")
    for values in ({"cat": "dog"}, {"cat": None}, ID2LABEL):
        refused("^keep is a dict: give a list", doors.fit, ROWS, TRUTH, classes=NAMES, keep=values)


@pytest.mark.parametrize(
    "id2label",
    [
        ID2LABEL,
        dict(reversed(ID2LABEL.items())),
        {str(number): name for number, name in reversed(ID2LABEL.items())},
    ],
)
def test_an_id2label_gives_the_order_of_labels(id2label):
    assert doors.mask(id2label, ["dog"]).classes_in == tuple(NAMES)
    mass = metrics.removed_mass(ROWS, id2label, ["dog"])
    np.testing.assert_allclose(mass, [0.2, 0.1, 0.8], rtol=1e-15)


# The order of a label2id is arbitrary: a saved config has "10" before "2".
LABELS = [f"LABEL_{number}" for number in range(12)]


@pytest.mark.parametrize(
    "classes",
    [
        {name: LABELS.index(name) for name in sorted(LABELS)},
        {name: str(LABELS.index(name)) for name in sorted(LABELS)},
        {"0": 1, "1": 0, "2": 2},
        {1: "cat", 2: "dog", 3: "fox"},
    ],
)
def test_other_mappings_are_not_an_id2label(classes):
    refused("mapping whose keys", doors.mask, classes, ["cat"])


@pytest.mark.parametrize("argument", ["allow", "remove", "classes"])
def test_a_table_is_not_a_list_of_labels(argument):
    table = np.array([NAMES, NAMES])
    calls = {
        "allow": lambda: doors.apply(doors.mask(NAMES, ["cat"]), ROWS, allow=table),
        "remove": lambda: doors.mask(NAMES, table),
        "classes": lambda: doors.mask(table, ["cat"]),
    }
    refused(f"{argument} is a table: give a list", calls[argument])


# Masked arrays and tensors


def test_masked_entries_are_not_taken_for_numbers():
    masked = np.ma.MaskedArray(ROWS, mask=np.zeros(ROWS.shape, dtype=bool))
    fitted = doors.fit(masked, TRUTH, **GIVEN)
    masked[1, 2] = np.ma.masked
    for rows in (masked, [*masked]):
        refused("Row 1 of the confidences has a masked entry", doors.run, fitted, rows)
        refused("Row 1 of the confidences", doors.fit, rows, TRUTH, **GIVEN)


def test_masked_true_labels_are_not_taken_for_labels():
    truth = np.ma.MaskedArray([0, 0, 1], mask=[False, False, True])
    refused("Row 2 of the true labels has a masked entry", doors.fit, ROWS, truth, remove=[0])
    refused("Row 1 of the true labels", doors.fit, ROWS, ["cat", np.ma.masked, "dog"], **GIVEN)
    refused("Row 2 of the true labels", metrics.label_accuracy, ROWS, truth, [0, 1, 2])
    from sklearn.dummy import DummyClassifier

    relabeled = LabelRemovalClassifier(DummyClassifier(), remove=[0])
    refused("Row 2 of the true labels", relabeled.fit, ROWS, truth)


@pytest.mark.parametrize("kind", ["bfloat16", "gradient"])
def test_tensors_that_numpy_cannot_read_are_refused(kind):
    torch = pytest.importorskip("torch")
    rows = torch.tensor(ROWS)
    fitted = doors.fit(rows, TRUTH, **GIVEN)
    rows = rows.bfloat16() if kind == "bfloat16" else rows.requires_grad_()
    words = r"give tensor\.detach\(\)\.float\(\)\.cpu\(\)\.$"
    refused(words, fitted.apply, rows)
    refused(words, doors.fit, rows, TRUTH, **GIVEN)
    if kind == "gradient":
        refused("not an array of numbers", fitted.apply, [*rows])


# Types


@pytest.mark.parametrize(
    "classes",
    [["a", "b", "c", "d"], [10, 20, 30, 40], [0.5, 1.5, 2.5, 3.5], ["a", 2, 2.5, False]],
    ids=["texts", "integers", "floats", "mixed"],
)
def test_labels_keep_their_type(classes):
    truth = [classes[number] for number in NUMBERS]
    fitted = doors.fit(MANY, truth, classes=classes, remove=classes[:1])
    assert fitted.classes_out == tuple(classes[1:])
    assert [*map(type, fitted.classes_out)] == [*map(type, classes[1:])]
    assert fitted.counts == (10,)


def test_numbers_of_numpy_are_labels_as_their_python_values_are():
    removed = [np.int32(2), np.float64(0.0)]
    fitted = doors.fit(MANY, NUMBERS.astype(np.uint8), classes=np.arange(4), remove=removed)
    assert fitted.removed == (2, 0)
    assert {*map(type, fitted.removed)} == {int}
    truth = [0, np.int64(0), np.float32(1)]
    assert doors.fit(ROWS, truth, remove=[0]).counts == (2,)
    accuracy = metrics.label_accuracy(ROWS, truth, [0, 1, 2])
    np.testing.assert_array_equal(accuracy, [1, 1, np.nan])
    refused("no label .*True", doors.fit, ROWS, [np.True_, np.False_, np.True_], remove=[0])
    with pytest.warns(UserWarning, match="1 row of labels .*, such as True"):
        assert doors.fit(ROWS, [1, True, 0], remove=[0]).counts == (1,)


class Animal(str, Enum):  # noqa: UP042 (StrEnum has another text)
    CAT, DOG, FOX = NAMES


class Code(int, Enum):
    CAT, DOG, FOX = 5, 3, 1


class Described(str, Enum):  # noqa: UP042 (StrEnum has another text)
    """Members whose value is not their text."""

    def __new__(cls, text):
        member = str.__new__(cls, text)
        member._value_ = f"the {text}"
        return member

    CAT, DOG, FOX = NAMES


@pytest.mark.parametrize(
    ("members", "plain"), [(Animal, NAMES), (Code, [5, 3, 1]), (Described, NAMES)]
)
def test_members_of_enumerations_are_their_values(members, plain, tmp_path):
    fitted = doors.mask([*members], [members.CAT])
    assert fitted == doors.mask(plain, plain[:1])
    assert [*map(type, fitted.classes_out)] == [*map(type, plain[1:])]
    fitted.save(tmp_path / "filter")
    assert OutputFilter.load(tmp_path / "filter") == fitted
    truth = [members.CAT] * 2
    again = doors.fit(ROWS[:2], truth, classes=[*members], remove=truth[:1])
    assert (again.classes_out, again.counts) == (tuple(plain[1:]), (2,))


# Names


def test_characters_that_look_the_same_are_mentioned():
    words = "the nearest is .*, which has other characters that"
    refused(words, doors.mask, ["caf\u00e9", "tea"], ["cafe\u0301"])


def test_labels_without_names_are_to_be_named():
    words = "'card_arrival': the labels are numbered from 0; name them"
    refused(words, doors.fit, ROWS, [0, 0, 1], remove=["card_arrival"])
    refused("no label 'cat', nor any other of the true labels", doors.fit, ROWS, TRUTH, remove=[0])
