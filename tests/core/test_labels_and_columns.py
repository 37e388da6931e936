"""Pairing labels with columns: anything that could pair them wrongly is reordered or refused."""

from enum import Enum

import numpy as np
import pytest

import doors
from unlabel import (
    LabelPlan,
    LabelRemovalClassifier,
    LabelRemover,
    OutputFilter,
    UnlabelError,
    metrics,
)
from unlabel.evaluation.trial import try_labels

NAMES = ["cat", "dog", "fox"]
ROWS = np.array([[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]])
TRUTH = ["cat", "cat", "dog"]
ID2LABEL = dict(enumerate(NAMES))
LABEL2ID = {name: number for number, name in enumerate(NAMES)}


# Lists, sets and mappings


@pytest.mark.parametrize("name", ["classes", "remove"])
@pytest.mark.parametrize("values", [set(NAMES), frozenset(NAMES), LABEL2ID.keys()])
def test_a_set_has_no_order_and_is_refused(name, values):
    with pytest.raises(
        UnlabelError, match=f"^{name} is a {type(values).__name__}: give a list, in"
    ):
        doors.fit(ROWS, TRUTH, **{"classes": NAMES, "remove": ["cat"], name: values})


def test_trials_take_labels_in_order_too():
    for classes in (set(NAMES), LABEL2ID):
        with pytest.raises(
            UnlabelError, match=r"^classes is a (set|mapping whose keys).*: give a list"
        ):
            try_labels(ROWS, TRUTH, classes=classes, remove=["cat"])


def test_the_labels_to_keep_may_be_a_set():
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, keep={"fox", "dog"})
    assert fitted.removed == ("cat",)


@pytest.mark.parametrize("values", [{"cat": "dog"}, {"cat": None}, ID2LABEL])
def test_a_mapping_of_labels_to_keep_is_refused(values):
    with pytest.raises(UnlabelError, match=r"^keep is a dict: give a list"):
        doors.fit(ROWS, TRUTH, classes=NAMES, keep=values)


def test_a_label2id_is_not_taken_for_classes():
    # Its order is arbitrary: a saved config has "10" before "2".
    names = [f"LABEL_{number}" for number in range(12)]
    label2id = {name: names.index(name) for name in sorted(names)}
    for classes in (label2id, {name: str(number) for name, number in label2id.items()}):
        with pytest.raises(UnlabelError, match="mapping whose keys are not 0 to 11"):
            doors.mask(classes, ["LABEL_2"])


@pytest.mark.parametrize(
    "id2label",
    [
        ID2LABEL,
        dict(reversed(ID2LABEL.items())),
        {str(number): name for number, name in reversed(ID2LABEL.items())},
    ],
)
def test_an_id2label_gives_the_order_of_labels(id2label):
    fitted = LabelRemover(remove=["dog"], classes=id2label, method="mask").fit(ROWS).filter_
    assert fitted.classes_in == tuple(NAMES)
    mass = metrics.removed_mass(ROWS, id2label, ["dog"])
    np.testing.assert_allclose(mass, [0.2, 0.1, 0.8], rtol=1e-15)


@pytest.mark.parametrize("classes", [{"0": 1, "1": 0, "2": 2}, {1: "cat", 2: "dog", 3: "fox"}])
def test_other_mappings_are_not_an_id2label(classes):
    with pytest.raises(UnlabelError, match="mapping whose keys"):
        doors.mask(classes, [0])


# Columns of tables


FRAMES = {
    "pandas": lambda rows, names: pytest.importorskip("pandas").DataFrame(rows, columns=names),
    "arrow": lambda rows, names: pytest.importorskip("pyarrow").table(
        {str(name): rows[:, at] for at, name in enumerate(names)}
    ),
}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def test_classes_that_permute_the_names_of_a_frame_are_refused(frame):
    with pytest.raises(UnlabelError, match="column 'dog' where the model has the label 'cat'"):
        LabelRemover(remove=["cat"], classes=NAMES).fit(frame(ROWS, ["dog", "cat", "fox"]), TRUTH)


@pytest.mark.parametrize("columns", [["dog", "cat", "fox"], ["other", "fox", "dog"]])
def test_a_column_of_another_label_is_refused(frame, columns):
    remover = LabelRemover(remove=["cat"], classes=NAMES).fit(ROWS, TRUTH)
    for give in (remover.filter_.apply, remover.filter_.removed_mass):
        with pytest.raises(UnlabelError, match=r"column '(dog' .* label 'cat|fox' .* label 'dog)'"):
            give(frame(ROWS, columns))


def test_columns_under_names_that_are_not_labels_are_taken_in_their_order(frame):
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, remove=["cat"])
    result = fitted.apply(frame(ROWS, ["p_cat", "p_dog", "p_fox"]))
    np.testing.assert_array_equal(result, fitted.apply(ROWS))


def test_columns_of_labels_and_of_others_are_refused(frame):
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, remove=["cat"])
    with pytest.raises(UnlabelError, match=r"column 'score' is not named after a label.* to 'fox'"):
        fitted.apply(frame(ROWS, ["cat", "dog", "score"]))


def test_numbers_name_columns_too(frame):
    fitted = doors.fit(ROWS, [0, 0, 1], remove=[0])
    with pytest.raises(UnlabelError, match=r"the column '?2'? where the model has the label 0"):
        fitted.apply(frame(ROWS[:, [2, 0, 1]], [2, 0, 1]))
    np.testing.assert_array_equal(fitted.apply(frame(ROWS, [0, 1, 2])), fitted.apply(ROWS))


@pytest.mark.parametrize("moved", [lambda f: f[[2, 1, 0]], lambda f: f.iloc[:, ::-1]])
def test_a_frame_whose_counted_columns_were_turned_round_is_refused(moved):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    remover = LabelRemover(remove=[0]).fit(frame, [0, 0, 1])
    for give in (remover.transform, remover.filter_.apply):
        with pytest.raises(UnlabelError, match="the column 2 where the model has the label 0"):
            give(moved(frame))
    assert LabelRemover(remove=[0]).fit(moved(frame), [0, 0, 1]).filter_.classes_in == (2, 1, 0)


def test_numbers_of_another_type_name_the_same_columns():
    pandas = pytest.importorskip("pandas")
    fitted = doors.fit(ROWS, [0, 0, 1], remove=[0])
    with pytest.raises(UnlabelError, match=r"the column 2\.0 where the model has the label 0"):
        fitted.apply(pandas.DataFrame(ROWS, columns=[2.0, 0.0, 1.0]))


def test_transformed_frames_keep_their_order():
    pandas = pytest.importorskip("pandas")
    remover = LabelRemover(remove=[5]).fit(pandas.DataFrame(ROWS, columns=[5, 3, 1]), [5, 5, 3])
    with pytest.raises(UnlabelError, match="the column 3 where the model has the label 5"):
        remover.transform(pandas.DataFrame(ROWS, columns=[3, 5, 1]))


def test_outputs_that_are_compared_have_their_columns_in_one_order(frame):
    with pytest.raises(UnlabelError, match="column 'dog' where the model has the label 'cat'"):
        metrics.kl_divergence(frame(ROWS, NAMES), frame(ROWS, ["dog", "cat", "fox"]))


# Masked arrays and tensors


def test_masked_entries_are_not_taken_for_numbers():
    masked = np.ma.MaskedArray(ROWS, mask=np.zeros(ROWS.shape, dtype=bool))
    fitted = doors.fit(masked, TRUTH, classes=NAMES, remove=["cat"])
    masked[1, 2] = np.ma.masked
    remover = LabelRemover(remove=["cat"], classes=NAMES)
    for give in (fitted.apply, fitted.removed_mass, lambda rows: remover.fit(rows, TRUTH)):
        with pytest.raises(UnlabelError, match="Row 1 of the confidences has a masked entry"):
            give(masked)
    remover.fit(ROWS, TRUTH)
    with pytest.raises(UnlabelError, match="Row 1 of the confidences"):
        remover.transform(masked)


def test_masked_true_labels_are_not_taken_for_labels():
    truth = np.ma.MaskedArray([0, 0, 1], mask=[False, False, True])
    with pytest.raises(UnlabelError, match="Row 2 of the true labels has a masked entry"):
        doors.fit(ROWS, truth, remove=[0])
    with pytest.raises(UnlabelError, match="Row 2 of the true labels"):
        metrics.label_accuracy(ROWS, truth, [0, 1, 2])
    from sklearn.dummy import DummyClassifier

    with pytest.raises(UnlabelError, match="Row 2 of the true labels"):
        LabelRemovalClassifier(DummyClassifier(), remove=[0]).fit(ROWS, truth)


@pytest.mark.parametrize("kind", ["bfloat16", "gradient"])
def test_tensors_that_numpy_cannot_read_are_refused(kind):
    torch = pytest.importorskip("torch")
    rows = torch.tensor(ROWS)
    rows = rows.bfloat16() if kind == "bfloat16" else rows.requires_grad_()
    fitted = doors.fit(torch.tensor(ROWS), TRUTH, classes=NAMES, remove=["cat"])
    for give in (fitted.apply, lambda rows: LabelRemover(remove=[0]).fit(rows, [0, 0, 1])):
        with pytest.raises(UnlabelError, match=r"give tensor\.detach\(\)\.float\(\)\.cpu\(\)\.$"):
            give(rows)


def test_lists_of_masked_rows_and_of_tensors_are_refused():
    fitted = doors.fit(ROWS, TRUTH, classes=NAMES, remove=["cat"])
    masked = [np.ma.MaskedArray(ROWS[0]), np.ma.MaskedArray(ROWS[1], mask=[0, 0, 1])]
    with pytest.raises(UnlabelError, match="Row 1 of the confidences has a masked entry"):
        fitted.apply(masked)
    with pytest.raises(UnlabelError, match="Row 1 of the true labels has a masked entry"):
        doors.fit(ROWS, ["cat", np.ma.masked, "dog"], classes=NAMES, remove=["cat"])
    torch = pytest.importorskip("torch")
    with pytest.raises(UnlabelError, match="not an array of numbers"):
        fitted.apply([torch.tensor(row).requires_grad_() for row in ROWS])


def test_numbers_of_numpy_in_a_list_are_labels():
    truth = [0, np.int64(0), np.float32(1)]
    assert doors.fit(ROWS, truth, remove=[0]).counts == (2,)
    accuracy = metrics.label_accuracy(ROWS, truth, [0, 1, 2])
    np.testing.assert_array_equal(accuracy, [1, 1, np.nan])
    with pytest.raises(UnlabelError, match=r"no label .*True"):
        doors.fit(ROWS, [np.True_, np.False_, np.True_], remove=[0])
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
    assert [*map(type, fitted.classes)] == [*map(type, plain[1:])]
    fitted.save(tmp_path / "filter")
    assert OutputFilter.load(tmp_path / "filter") == fitted
    remover = LabelRemover([members.CAT], classes=[*members]).fit(ROWS[:2], [members.CAT] * 2)
    assert remover.classes_.tolist() == plain[1:]
    assert remover.filter_.counts == (2,)


def test_a_row_of_a_frame_has_the_order_of_its_names():
    pandas = pytest.importorskip("pandas")
    fitted = doors.mask(NAMES, ["cat"])
    expected = fitted.apply(ROWS[0])
    np.testing.assert_array_equal(fitted.apply(pandas.Series(ROWS[0], index=NAMES)), expected)
    np.testing.assert_array_equal(fitted.apply(pandas.Series(ROWS[0])), expected)
    with pytest.raises(UnlabelError, match="column 'dog' where the model has the label 'cat'"):
        fitted.apply(pandas.Series(ROWS[0], index=NAMES)[["dog", "cat", "fox"]])


def test_nullable_floats_are_floats():
    pandas = pytest.importorskip("pandas")
    fitted = doors.mask(NAMES, ["cat"])
    frame = pandas.DataFrame(ROWS, columns=NAMES).astype("Float64")
    np.testing.assert_array_equal(fitted.apply(frame), fitted.apply(ROWS))
    frame.iloc[1, 1] = pandas.NA
    with pytest.raises(UnlabelError, match="not an array of numbers"):
        fitted.apply(frame)
    with pytest.raises(UnlabelError, match="the type object"):
        fitted.apply(pandas.DataFrame(ROWS.astype(str), columns=NAMES))


@pytest.mark.parametrize("argument", ["allow", "remove", "classes"])
def test_a_table_is_not_a_list_of_labels(argument):
    table = np.array([NAMES, NAMES])
    calls = {
        "allow": lambda: doors.mask(NAMES, ["cat"]).apply(ROWS, allow=table),
        "remove": lambda: doors.mask(NAMES, table),
        "classes": lambda: doors.mask(table, ["cat"]),
    }
    with pytest.raises(UnlabelError, match=f"{argument} is a table: give a list"):
        calls[argument]()


# Names


def test_characters_that_look_the_same_are_mentioned():
    with pytest.raises(UnlabelError, match=r"the nearest is .*, which has other characters that"):
        doors.mask(["caf\u00e9", "tea"], ["cafe\u0301"])


def test_a_plan_without_a_label_names_it():
    with pytest.raises(KeyError, match=r"^'cow'$"):
        LabelPlan(["cat"])["cow"]


def test_labels_without_names_are_to_be_named():
    with pytest.raises(UnlabelError) as caught:
        doors.fit(ROWS, [0, 0, 1], remove=["card_arrival"])
    assert str(caught.value) == (
        "The model has no label 'card_arrival': the labels are "
        "numbered from 0; name them with classes=[...] (--classes)."
    )
    with pytest.raises(
        UnlabelError, match=r"no label 'cat', nor any other of the true labels: the labels are"
    ):
        doors.fit(ROWS, TRUTH, remove=[0])
