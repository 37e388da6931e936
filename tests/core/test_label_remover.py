"""The transformer: its filter in the manner of scikit-learn."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import doors
import plain_plan
from unlabel import LabelPlan, LabelRemover, UnlabelError
from worlds import NAMES, ROWS, TRUTH

PLAN = {"owl": None, "cat": "pet", "dog": "pet", "fox": {"red": 0.25, "grey": 0.75}}
ALL_GONE = {"check_fit2d_1feature": "one column is one label, and no other would remain"}


@pytest.mark.filterwarnings("ignore:.*of labels that the model does not have")  # no column
@parametrize_with_checks(
    [
        LabelRemover(remove=[1], input="logits"),
        LabelRemover(remove=[0], input="logits", method="mask"),
    ],
    expected_failed_checks=lambda estimator: ALL_GONE,
)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def confidences():
    return np.random.default_rng(0).dirichlet(np.ones(4), 80)


@pytest.fixture
def labels():
    return np.array(NAMES)[np.arange(80) % 4]


def test_the_transformer_gives_what_its_filter_gives(confidences, labels):
    remover = LabelRemover(remove=["fox", "cat"], classes=NAMES).fit(confidences, labels)
    fitted = doors.fit(confidences, labels, classes=NAMES, remove=["fox", "cat"])
    np.testing.assert_array_equal(remover.transform(confidences), fitted.apply(confidences))
    np.testing.assert_array_equal(remover.classes_, ["dog", "owl"])
    assert remover.filter_.removed == ("fox", "cat")


def test_keep_removes_all_other_labels_in_column_order(confidences, labels):
    keeping = LabelRemover(keep=["owl", "dog"], classes=NAMES).fit(confidences, labels)
    removing = LabelRemover(remove=["cat", "fox"], classes=NAMES).fit(confidences, labels)
    assert keeping.filter_.removed == ("cat", "fox")
    np.testing.assert_array_equal(keeping.classes_, ["dog", "owl"])
    np.testing.assert_array_equal(keeping.transform(confidences), removing.transform(confidences))


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


def test_labels_are_column_numbers_by_default(confidences):
    remover = LabelRemover(remove=[2]).fit(confidences, np.arange(80) % 4)
    np.testing.assert_array_equal(remover.classes_, [0, 1, 3])
    assert remover.classes_.dtype.kind == "i"


def test_the_columns_of_a_data_frame_name_the_labels(confidences, labels, pd):
    frame = pd.DataFrame(confidences, columns=NAMES)
    remover = LabelRemover(remove=["dog"]).fit(frame, pd.Series(labels))
    np.testing.assert_array_equal(remover.classes_, ["cat", "fox", "owl"])
    by_array = LabelRemover(remove=["dog"], classes=NAMES).fit(confidences, labels)
    np.testing.assert_array_equal(remover.transform(frame), by_array.transform(confidences))


def test_given_classes_come_before_the_columns_of_a_data_frame(confidences, pd):
    frame = pd.DataFrame(confidences, columns=NAMES)
    remover = LabelRemover(remove=[7], classes=[7, 8, 9, 10]).fit(frame, np.arange(80) % 4 + 7)
    np.testing.assert_array_equal(remover.classes_, [8, 9, 10])


def test_data_frames_with_other_columns_are_refused(confidences, labels, pd):
    frame = pd.DataFrame(confidences, columns=NAMES)
    remover = LabelRemover(remove=["dog"]).fit(frame, labels)
    with pytest.raises(ValueError, match="feature names should match"):
        remover.transform(frame[NAMES[::-1]])


def test_numbers_may_name_the_columns_of_a_data_frame(confidences, pd):
    frame = pd.DataFrame(confidences, columns=[1, 2, 3, 4])
    remover = LabelRemover(remove=[1]).fit(frame, [1] * 80)
    np.testing.assert_array_equal(remover.classes_, [2, 3, 4])
    by_array = LabelRemover(remove=[1], classes=[1, 2, 3, 4]).fit(confidences, [1] * 80)
    np.testing.assert_array_equal(remover.transform(frame), by_array.transform(confidences))
    np.testing.assert_array_equal(remover.transform(confidences), by_array.transform(frame))
    with pytest.raises(UnlabelError, match=r"the column 4 where .* the label 1:"):
        remover.transform(frame[[4, 3, 2, 1]])
    counted = LabelRemover(remove=[1], classes=[1, 0, 3, 2])
    counted.fit(pd.DataFrame(confidences), [1] * 80)
    assert counted.transform(pd.DataFrame(confidences)).shape == (80, 3)
    with pytest.raises(UnlabelError, match="the column 2 where the model has the label 0:"):
        counted.fit(frame, [1] * 80)


def test_numbers_of_numpy_may_name_columns_and_tuples_may_not(confidences, pd):
    numbers = pd.Index([np.int64(n) for n in (1, 2, 3, 4)], dtype=object)
    frame = pd.DataFrame(confidences, columns=numbers)
    remover = LabelRemover(remove=[1]).fit(frame, [1] * 80)
    assert remover.filter_.classes_in == (1, 2, 3, 4)
    frame.columns = pd.MultiIndex.from_product([["a", "b"], [0, 1]])
    with pytest.raises(UnlabelError, match=r"classes holds \('a', 0\): labels are strings or"):
        remover.fit(frame, [1] * 80)


def test_an_arrow_table_names_the_labels(confidences, labels):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({name: confidences[:, i] for i, name in enumerate(NAMES)})
    remover = LabelRemover(remove=["dog"]).fit(table, labels)
    assert remover.filter_.classes_in == tuple(NAMES)
    np.testing.assert_array_equal(remover.transform(table), remover.filter_.apply(confidences))


def test_a_filter_refuses_data_frames_in_another_order(confidences, labels, pd):
    frame = pd.DataFrame(confidences, columns=NAMES)
    fitted = LabelRemover(remove=["dog"]).fit(frame, labels).filter_
    np.testing.assert_array_equal(fitted.apply(frame), fitted.apply(confidences))
    with pytest.raises(UnlabelError, match="the column 'owl' where the model has the label 'cat'"):
        fitted.apply(frame[NAMES[::-1]])


def test_set_output_gives_a_data_frame_of_the_retained_labels(confidences, labels, pd):
    frame = pd.DataFrame(confidences, columns=NAMES, index=np.arange(80) + 500)
    remover = LabelRemover(remove=["dog"]).set_output(transform="pandas").fit(frame, labels)
    result = remover.transform(frame)
    assert list(result.columns) == ["cat", "fox", "owl"]
    pd.testing.assert_index_equal(result.index, frame.index)
    np.testing.assert_array_equal(result.to_numpy(), remover.filter_.apply(confidences))


def test_names_of_the_columns_are_texts(confidences):
    remover = LabelRemover(remove=[0]).fit(confidences, np.arange(80) % 4)
    np.testing.assert_array_equal(remover.get_feature_names_out(), ["1", "2", "3"])


@pytest.mark.parametrize(
    "remove",
    [["cat", "owl"], ("cat", "owl"), np.array(["cat", "owl"])],
    ids=lambda remove: type(remove).__name__,
)
def test_clone_and_refit_give_the_same_filter(remove, confidences, labels):
    remover = LabelRemover(remove=remove, classes=NAMES)
    first = remover.fit(confidences, labels).transform(confidences)
    again = remover.fit(confidences, labels).transform(confidences)
    copied = clone(remover).fit(confidences, labels).transform(confidences)
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(copied, first)
    assert remover.filter_.removed == ("cat", "owl")


def test_a_range_of_labels(confidences):
    remover = LabelRemover(remove=range(1, 3)).fit(confidences, np.arange(80) % 4)
    assert clone(remover).fit(confidences, np.arange(80) % 4).filter_.removed == (1, 2)


def test_an_iterator_is_refused_since_a_second_fit_would_find_it_empty(confidences, labels):
    remover = LabelRemover(remove=iter(["cat"]), classes=NAMES)
    with pytest.raises(UnlabelError, match="not a list of labels"):
        remover.fit(confidences, labels)


def test_refitting_forgets_the_former_filter(confidences, labels):
    remover = LabelRemover(remove=["cat"], classes=NAMES).fit(confidences, labels)
    remover.set_params(remove=["dog", "fox"], method="mask").fit(confidences[:, ::-1])
    np.testing.assert_array_equal(remover.classes_, ["cat", "owl"])
    assert remover.filter_.method == "mask"
    assert remover.filter_.counts == (0, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_dtype_goes_through(confidences, labels, dtype):
    rows = confidences.astype(dtype)
    remover = LabelRemover(remove=["cat"], classes=NAMES).fit(rows, labels)
    assert remover.transform(rows).dtype == dtype


def test_the_tags_say_which_types_are_kept_and_when_true_labels_are_needed():
    tags = get_tags(LabelRemover(remove=[0]))
    assert set(tags.transformer_tags.preserves_dtype) == {"float16", "float32", "float64"}
    assert tags.target_tags.required
    assert not get_tags(LabelRemover(remove=[0], method="mask")).target_tags.required
    assert get_tags(LabelRemover(remove=[0], method="mask", calibrate=True)).target_tags.required


def test_the_transformer_works_in_a_pipeline_after_a_model_of_logits(confidences, labels):
    logits = np.log(confidences) + 3
    steps = make_pipeline(
        FunctionTransformer(lambda rows: rows - 3),
        LabelRemover(remove=["owl"], classes=NAMES, input="logits"),
    )
    result = steps.fit(logits, labels).transform(logits)
    expected = doors.fit(confidences, labels, classes=NAMES, remove=["owl"]).apply(confidences)
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    np.testing.assert_array_equal(steps[-1].get_feature_names_out(), NAMES[:3])


@given(plain_plan.changes_of(NAMES))
def test_random_plans(plan):
    remover = LabelRemover(plan, classes=NAMES).fit(ROWS, TRUTH)
    steps = plain_plan.steps_of(plan, NAMES, ROWS, TRUTH)
    expected = plain_plan.changed_rows(plan, NAMES, ROWS, steps)
    np.testing.assert_allclose(remover.transform(ROWS), expected, rtol=0, atol=1e-12)
    names = plain_plan.result_labels(plan, NAMES)
    assert remover.classes_.tolist() == remover.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("plan", [PLAN, LabelPlan(PLAN, title="Version 2")], ids=["dict", "plan"])
def test_a_plan_is_cloned_pickled_and_set(plan):
    remover = LabelRemover(plan, classes=NAMES)
    assert remover.get_params()["remove"] is plan
    first = remover.fit(ROWS, TRUTH).filter_
    assert clone(remover).fit(ROWS, TRUTH).filter_ == first
    loaded = pickle.loads(pickle.dumps(remover))
    assert loaded.filter_ == first
    np.testing.assert_array_equal(loaded.transform(ROWS), remover.transform(ROWS))
    other = clone(remover).set_params(remove={"cat": "dog"}).fit(ROWS)
    assert other.classes_.tolist() == ["dog", "fox", "owl"]


def test_a_plan_on_a_data_frame(pd):
    frame = pd.DataFrame(ROWS, columns=NAMES, index=np.arange(40) + 7)
    remover = LabelRemover(PLAN).set_output(transform="pandas").fit(frame, TRUTH)
    result = remover.transform(frame)
    assert result.columns.tolist() == ["pet", "red", "grey"]
    assert result.index.tolist() == frame.index.tolist()
    np.testing.assert_array_equal(result, remover.filter_.apply(ROWS))


def test_numbers_and_texts_as_new_labels():
    remover = LabelRemover({0: "other", 1: "other", 2: 7}).fit(ROWS)
    assert remover.classes_.tolist() == ["other", 7, 3]
    assert remover.get_feature_names_out().tolist() == ["other", "7", "3"]


PLAN = {"owl": None, "cat": "pet", "dog": "pet", "fox": {"red": 0.25, "grey": 0.75}}
