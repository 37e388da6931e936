"""Pairing labels with columns: anything that could pair them wrongly is refused."""

import numpy as np
import pytest

import doors
from unlabel import UnlabelError
from worlds import FEW as ROWS
from worlds import FEW_NAMES as NAMES
from worlds import FEW_TRUTH as TRUTH

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
    words = f"given as {type(values).__name__}: give a list, in order .{name}="
    refused(words, doors.fit, ROWS, TRUTH, **GIVEN | {name: values})


def test_the_labels_to_keep_may_be_a_set_and_no_mapping():
    assert doors.fit(ROWS, TRUTH, classes=NAMES, keep={"fox", "dog"}).removed == ("cat",)
    assert doors.fit(ROWS, TRUTH, classes=NAMES, keep=["dog"]).removed == ("cat", "fox")
    for values in ({"cat": "dog"}, {"cat": None}, ID2LABEL):
        refused("given as dict: give a list", doors.fit, ROWS, TRUTH, classes=NAMES, keep=values)


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
    refused("keys of the mapping are not 0 to", doors.mask, classes, ["cat"])


@pytest.mark.parametrize("argument", ["allow", "remove", "classes"])
def test_a_table_is_not_a_list_of_labels(argument):
    table = np.array([NAMES, NAMES])
    calls = {
        "allow": lambda: doors.mask(NAMES, ["cat"]).apply(ROWS, allow=table),
        "remove": lambda: doors.fit(ROWS, TRUTH, classes=NAMES, remove=table),
        "classes": lambda: doors.mask(table, ["cat"]),
    }
    refused(f"given as table: give a list.* .{argument}=", calls[argument])


# Masked arrays and tensors


def test_masked_entries_are_not_taken_for_numbers():
    masked = np.ma.MaskedArray(ROWS, mask=np.zeros(ROWS.shape, dtype=bool))
    fitted = doors.fit(masked, TRUTH, **GIVEN)
    masked[1, 2] = np.ma.masked
    refused("The confidences have masked entries", fitted.run, masked)
    refused("The confidences have masked entries", doors.fit, masked, TRUTH, **GIVEN)


def test_masked_true_labels_are_not_taken_for_labels():
    truth = np.ma.MaskedArray([0, 0, 1], mask=[False, False, True])
    refused("The true labels have masked entries", doors.fit, ROWS, truth, remove=[0])
    refused("not all strings", doors.fit, ROWS, ["cat", np.ma.masked, "dog"], **GIVEN)


@pytest.mark.parametrize("kind", ["bfloat16", "gradient"])
def test_tensors_that_numpy_cannot_read_are_refused(kind):
    torch = pytest.importorskip("torch")
    rows = torch.tensor(ROWS)
    fitted = doors.fit(rows, TRUTH, **GIVEN)
    rows = rows.bfloat16() if kind == "bfloat16" else rows.requires_grad_()
    words = "BFloat16" if kind == "bfloat16" else r"Use tensor\.detach"  # PyTorch's own advice
    refused(f"not an array of numbers: .*{words}", fitted.apply, rows)
    refused("not an array of numbers", doors.fit, rows, TRUTH, **GIVEN)
    refused("not an array of numbers", fitted.apply, [*rows])


# Names


@pytest.mark.parametrize(
    ("label", "classes", "words"),
    [
        ("cta", ["cat", "dog"], "the nearest is 'cat'"),
        ("Cat", ["dog", "cat"], "the nearest is 'cat', which is written differently"),
        (
            "cafe\u0301",
            ["caf\u00e9", "tea"],
            "nearest is 'caf\u00e9', which is written differently",
        ),
        ("oos", ["todo_list", "text"], "it has 2 labels: 'todo_list', 'text'"),
        ("cat", [1, 2, 3, 4], "it has 4 labels: 1, 2, 3 and 1 more"),
        ("cat", [0, 1, 2], r"numbered from 0; give their names .classes="),
    ],
)
def test_a_label_that_the_model_lacks_gets_the_nearest_one_where_one_is_near(label, classes, words):
    refused(f"^The model has no label '{label}': .*{words}", doors.mask, classes, [label])


@pytest.mark.parametrize(
    "changes", [{"remove": ["8"]}, {"keep": ["7", "9"]}, {"plan": ["8"]}, {"plan": {"8": None}}]
)
def test_labels_to_remove_or_keep_are_found_by_their_texts(changes):
    rows = np.full((3, 3), 1 / 3)
    fitted = doors.fit(rows, [7, 8, 9], classes=[7, 8, 9], method="mask", **changes)
    assert (fitted.removed, fitted.classes_out) == ((8,), (7, 9))
