"""Frames: columns that could be paired wrongly with labels are refused."""

import numpy as np
import pytest

import doors
from unlabel import LabelRemover, UnlabelError, metrics
from worlds import FEW as ROWS
from worlds import FEW_NAMES as NAMES
from worlds import FEW_TRUTH as TRUTH


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


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
def test_a_frame_whose_counted_columns_were_turned_round_is_refused(pandas, moved):
    frame = pandas.DataFrame(ROWS)
    remover = LabelRemover(remove=[0]).fit(frame, [0, 0, 1])
    for give in (remover.transform, remover.filter_.apply):
        with pytest.raises(UnlabelError, match="the column 2 where the model has the label 0"):
            give(moved(frame))
    assert LabelRemover(remove=[0]).fit(moved(frame), [0, 0, 1]).filter_.classes_in == (2, 1, 0)


def test_numbers_of_another_type_name_the_same_columns(pandas):
    fitted = doors.fit(ROWS, [0, 0, 1], remove=[0])
    with pytest.raises(UnlabelError, match=r"the column 2\.0 where the model has the label 0"):
        fitted.apply(pandas.DataFrame(ROWS, columns=[2.0, 0.0, 1.0]))


def test_transformed_frames_keep_their_order(pandas):
    remover = LabelRemover(remove=[5]).fit(pandas.DataFrame(ROWS, columns=[5, 3, 1]), [5, 5, 3])
    with pytest.raises(UnlabelError, match="the column 3 where the model has the label 5"):
        remover.transform(pandas.DataFrame(ROWS, columns=[3, 5, 1]))


def test_outputs_that_are_compared_have_their_columns_in_one_order(frame):
    with pytest.raises(UnlabelError, match="column 'dog' where the model has the label 'cat'"):
        metrics.kl_divergence(frame(ROWS, NAMES), frame(ROWS, ["dog", "cat", "fox"]))


def test_a_row_of_a_frame_has_the_order_of_its_names(pandas):
    fitted = doors.mask(NAMES, ["cat"])
    expected = fitted.apply(ROWS[0])
    np.testing.assert_array_equal(fitted.apply(pandas.Series(ROWS[0], index=NAMES)), expected)
    np.testing.assert_array_equal(fitted.apply(pandas.Series(ROWS[0])), expected)
    with pytest.raises(UnlabelError, match="column 'dog' where the model has the label 'cat'"):
        fitted.apply(pandas.Series(ROWS[0], index=NAMES)[["dog", "cat", "fox"]])


def test_nullable_floats_are_floats(pandas):
    fitted = doors.mask(NAMES, ["cat"])
    frame = pandas.DataFrame(ROWS, columns=NAMES).astype("Float64")
    np.testing.assert_array_equal(fitted.apply(frame), fitted.apply(ROWS))
    frame.iloc[1, 1] = pandas.NA
    with pytest.raises(UnlabelError, match="not an array of numbers"):
        fitted.apply(frame)
    with pytest.raises(UnlabelError, match="the type object"):
        fitted.apply(pandas.DataFrame(ROWS.astype(str), columns=NAMES))


def test_numbered_columns_of_a_data_frame_are_not_named_after_labels(pandas):
    fitted = doors.fit(np.eye(2), [1, 0], classes=[1, 0], remove=[0])
    assert fitted.apply(pandas.DataFrame([[0.5, 0.5]])).tolist() == [[1.0]]


def test_a_frame_and_a_series_are_fitted_as_their_values(pandas):
    frame = pandas.DataFrame(ROWS, columns=NAMES)
    fitted = doors.fit(frame, pandas.Series(TRUTH), classes=NAMES, remove=["cat"])
    assert fitted == doors.fit(ROWS, TRUTH, classes=NAMES, remove=["cat"])
    assert fitted.apply(frame).shape == (3, 2)
