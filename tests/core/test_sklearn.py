import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import plain
import plain_plan
from unlabel import LabelPlan, LabelRemovalClassifier, LabelRemover, UnlabelError
from unlabel.fitting import fit_filter
from unlabel.metrics import unknown_threshold

NAMES = ["cat", "dog", "fox", "owl"]
ALL_GONE = "one column is one label, and no other would remain"
ALL_COLUMNS = "the check expects a column and predictions for every label of y"

CHECKED = [
    (
        LabelRemover(remove=[1], input="logits"),
        {
            "check_fit2d_1feature": ALL_GONE,
        },
    ),
    (
        LabelRemover(remove=[0], input="logits", method="mask"),
        {
            "check_fit2d_1feature": ALL_GONE,
        },
    ),
    (LabelRemovalClassifier(LogisticRegression(), remove=[]), {}),
    (LabelRemovalClassifier(LogisticRegression(), remove=[], unknown=99), {}),
    (
        LabelRemovalClassifier(LogisticRegression(), remove=[1]),
        {
            "check_estimator_sparse_array": ALL_COLUMNS,
            "check_estimator_sparse_matrix": ALL_COLUMNS,
            "check_classifiers_train": ALL_COLUMNS,
            "check_classifiers_classes": "the check's labels are texts, and 1 is none of them",
        },
    ),
]


def exceptions(estimator):
    return next(failing for checked, failing in CHECKED if repr(checked) == repr(estimator))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*of labels that the model does not have")  # no column
@parametrize_with_checks([estimator for estimator, _ in CHECKED], expected_failed_checks=exceptions)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture
def confidences():
    return np.random.default_rng(0).dirichlet(np.ones(4), 80)


@pytest.fixture
def labels():
    return np.array(NAMES)[np.arange(80) % 4]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, LogisticRegression(max_iter=1000).fit(X, y)


# LabelRemover


def test_the_transformer_gives_what_its_filter_gives(confidences, labels):
    remover = LabelRemover(remove=["fox", "cat"], classes=NAMES).fit(confidences, labels)
    fitted = fit_filter(confidences, labels, classes=NAMES, remove=["fox", "cat"])
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
    expected = fit_filter(confidences, labels, classes=NAMES, remove=["owl"]).apply(confidences)
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    np.testing.assert_array_equal(steps[-1].get_feature_names_out(), NAMES[:3])


@pytest.mark.parametrize(
    "classes",
    [["a", "b", "c", "d"], [10, 20, 30, 40], [0.5, 1.5, 2.5, 3.5], ["a", 2, 2.5, False]],
    ids=["texts", "integers", "floats", "mixed"],
)
def test_labels_keep_their_type(confidences, classes):
    truth = [classes[i % 4] for i in range(80)]
    remover = LabelRemover(remove=[classes[0]], classes=classes).fit(confidences, truth)
    assert remover.filter_.classes == tuple(classes[1:])
    assert [type(label) for label in remover.filter_.classes] == [type(c) for c in classes[1:]]
    assert remover.classes_.tolist() == classes[1:]
    assert remover.filter_.counts == (20,)


def test_numpy_scalars_are_labels_as_their_python_values_are(confidences):
    truth = np.arange(80) % 4
    remover = LabelRemover(remove=[np.int32(2), np.float64(0.0)], classes=np.arange(4)).fit(
        confidences, truth.astype(np.uint8)
    )
    assert remover.filter_.removed == (2, 0)
    assert all(type(label) is int for label in remover.filter_.removed)


# Plans

ROWS = np.random.default_rng(1).dirichlet(np.ones(4), 40)
TRUTH = [NAMES[i % 4] for i in range(40)]
PLAN = {"owl": None, "cat": "pet", "dog": "pet", "fox": {"red": 0.25, "grey": 0.75}}


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


def test_a_temperature_is_fitted_on_the_rows_whose_new_label_is_known(cifar10):
    logits, truth = cifar10
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    plan = {0: None, 1: "vehicle", 9: "vehicle", 2: {"wild": 0.5, "tame": 0.5}, 3: 5}
    remover = LabelRemover(plan, calibrate=True).fit(rows, truth)
    uncalibrated = replace(remover.filter_, temperature=1.0).apply(rows)
    names = plain_plan.result_labels(plan, range(10))
    known, columns = [], []
    for row, label in enumerate(truth.tolist()):
        parts = plain_plan.parts_of(plan, label)
        if len(parts) == 1:
            known.append(row)
            columns.append(names.index(parts[0][0]))
    assert set(truth[known].tolist()) == {1, 3, 4, 5, 6, 7, 8, 9}
    expected = plain.best_temperature(uncalibrated[known].tolist(), columns)
    assert remover.filter_.temperature == pytest.approx(expected, rel=1e-6)


# LabelRemovalClassifier


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_changed_classifier_answers_with_the_new_labels(iris, calibrate):
    X, y, model = iris
    plan = {0: None, 1: "a", 2: "b"}
    changed = LabelRemovalClassifier(FrozenEstimator(model), plan, calibrate=calibrate).fit(X, y)
    rows = model.predict_proba(X)
    steps = plain_plan.steps_of(plan, [0, 1, 2], rows, y)
    expected = plain_plan.changed_rows(plan, [0, 1, 2], rows, steps)
    assert changed.classes_.tolist() == ["a", "b"]
    names = np.array(["a", "b"])[expected.argmax(axis=1)]
    np.testing.assert_array_equal(changed.predict(X), names)
    if not calibrate:
        np.testing.assert_allclose(changed.predict_proba(X), expected, rtol=0, atol=1e-12)


def test_a_grid_search_chooses_a_plan(iris):
    X, y, model = iris
    grid = {"remove": [{1: 2}, LabelPlan({2: 1}), {0: None}]}
    search = GridSearchCV(
        LabelRemovalClassifier(FrozenEstimator(model), []), grid, scoring="accuracy", cv=3
    ).fit(X, y)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_estimator_.filter_.plan == LabelPlan(search.best_params_["remove"])


def test_the_classifier_gives_what_its_filter_gives(iris):
    X, y, model = iris
    retired = LabelRemovalClassifier(FrozenEstimator(model), remove=[1]).fit(X, y)
    rows = model.predict_proba(X)
    expected = fit_filter(rows, y, remove=[1]).apply(rows)
    np.testing.assert_array_equal(retired.predict_proba(X), expected)
    np.testing.assert_array_equal(retired.classes_, [0, 2])
    np.testing.assert_array_equal(retired.predict(X), np.array([0, 2])[expected.argmax(axis=1)])


def test_a_frozen_estimator_is_not_trained_again(iris):
    X, y, model = iris
    before = model.coef_.copy()
    some = y == 1
    retired = LabelRemovalClassifier(FrozenEstimator(model), remove=[1]).fit(X[some], y[some])
    np.testing.assert_array_equal(model.coef_, before)
    np.testing.assert_array_equal(retired.estimator_.predict_proba(X), model.predict_proba(X))


def test_an_estimator_that_is_not_frozen_is_trained_as_a_clone(iris):
    X, y, _ = iris
    model = LogisticRegression(max_iter=1000)
    retired = LabelRemovalClassifier(model, keep=[0, 1]).fit(X, y)
    assert not hasattr(model, "coef_")
    np.testing.assert_array_equal(retired.classes_, [0, 1])
    assert set(retired.predict(X)) == {0, 1}


def test_texts_as_labels_of_a_classifier_in_a_pipeline(iris):
    X, y, _ = iris
    names = load_iris().target_names[y]
    model = make_pipeline(StandardScaler(), LogisticRegression())
    retired = LabelRemovalClassifier(model, remove=["virginica"]).fit(X, names)
    np.testing.assert_array_equal(retired.classes_, ["setosa", "versicolor"])
    assert set(retired.predict(X)) == {"setosa", "versicolor"}


def test_booleans_as_labels(iris):
    X, y, _ = iris
    retired = LabelRemovalClassifier(LogisticRegression(max_iter=1000), remove=[True]).fit(X, y > 0)
    assert retired.filter_.classes == (False,)
    np.testing.assert_array_equal(retired.predict_proba(X), np.ones((150, 1)))


def test_a_mask_needs_no_true_labels(iris):
    X, _, model = iris
    frozen = FrozenEstimator(model)
    retired = LabelRemovalClassifier(frozen, remove=[0], method="mask").fit(X, None)
    rows = model.predict_proba(X)[:, 1:]
    expected = rows / rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(retired.predict_proba(X), expected, rtol=1e-14)


def test_calibrate_reaches_the_filter(iris):
    X, y, model = iris
    frozen = FrozenEstimator(model)
    retired = LabelRemovalClassifier(frozen, remove=[0], calibrate=True).fit(X, y)
    plain = LabelRemovalClassifier(frozen, remove=[0]).fit(X, y)
    assert retired.filter_.temperature != 1
    np.testing.assert_array_equal(retired.predict(X), plain.predict(X))


def test_a_model_that_has_probabilities_only_once_it_is_fitted(iris):
    X, y, model = iris
    stacked = StackingClassifier([("model", model)])
    retired = LabelRemovalClassifier(stacked, remove=[1]).fit(X, y)
    assert set(retired.predict(X)) == {0, 2}


def test_a_model_without_probabilities_is_refused(iris):
    X, y, _ = iris
    for model in (SVC(), FrozenEstimator(SVC().fit(X, y))):
        with pytest.raises(UnlabelError, match=r"^SVC has no predict_proba: use a classifier"):
            LabelRemovalClassifier(model, remove=[0]).fit(X, y)


def test_a_grid_search_chooses_a_method(iris):
    X, y, model = iris
    search = GridSearchCV(
        LabelRemovalClassifier(FrozenEstimator(model), remove=[0]),
        {"method": ["osr", "mask"], "calibrate": [False, True]},
        cv=3,
    ).fit(X, y)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    np.testing.assert_array_equal(search.best_estimator_.classes_, [1, 2])


def test_cross_validation_retrains_the_estimator(iris):
    X, y, _ = iris
    retired = LabelRemovalClassifier(LogisticRegression(max_iter=1000), remove=[])
    assert cross_val_score(retired, X, y, cv=3).min() > 0.9


def test_logarithms_of_probabilities(iris):
    X, y, model = iris
    retired = LabelRemovalClassifier(FrozenEstimator(model), [1]).fit(X, y)
    np.testing.assert_array_equal(retired.predict_log_proba(X), np.log(retired.predict_proba(X)))
    far = LabelRemovalClassifier(FrozenEstimator(model), [1], method="mask").fit(X, y)
    assert far.predict_proba(1e4 * X[:1]).min() == 0
    assert far.predict_log_proba(1e4 * X[:1]).min() == -np.inf


# Unknown


def answers(model, X, removed, above, unknown):
    """The base model's most probable label that stays, or unknown, row by row."""
    result = []
    for row in model.predict_proba(X):
        kept = [column for column in range(len(row)) if column not in removed]
        best = max(kept, key=lambda column: row[column])
        result.append(unknown if sum(row[column] for column in removed) > above else best)
    return result


@pytest.mark.parametrize("above", [0, 0.2, 0.5, 0.9, 1])
@pytest.mark.parametrize("unknown", [-1, "unknown"])
def test_unknown_is_answered_by_the_rule(iris, above, unknown):
    X, _, model = iris
    rule = AnswerRule(max_removed_mass=above, unknown=unknown)
    changed = relabeled(iris, method="mask", rule=rule)
    expected = answers(model, X, [1], above, unknown)
    assert changed.predict(X).tolist() == expected
    assert [type(answer) for answer in changed.predict(X).tolist()] == [*map(type, expected)]
    assert (unknown in expected) == (above < 1)
    assert changed.classes_.tolist() == [0, 2]
    assert changed.predict_proba(X).shape == (150, 2)


def test_the_type_of_answers_does_not_depend_on_the_rows(iris):
    X, y, _ = iris
    names = np.array(["a", "b", "c"])[y]
    model = FrozenEstimator(LogisticRegression(max_iter=1000).fit(X, names))
    rule = AnswerRule(max_removed_mass=0.5, unknown="not a label of ours")
    changed = RelabeledClassifier(model, ["b"], rule=rule).fit(X, names)
    assert set(changed.predict(X)) == {"a", "c", "not a label of ours"}
    assert changed.predict(X[:1]).dtype == changed.predict(X[60:61]).dtype == np.dtype("<U19")


def test_mass_that_is_sent_elsewhere_is_not_removed(iris):
    rule = AnswerRule(max_removed_mass=0.5, unknown="?")
    merged = relabeled(iris, {1: "other", 2: "other"}, rule=rule)
    assert set(merged.predict(iris[0])) == {0, "other"}


def test_a_rule_may_be_set_once_it_is_fitted(iris):
    X, y, model = iris
    changed, kept = relabeled(iris), y != 1
    rows = model.predict_proba(X)
    rule = AnswerRule.fit(rows[kept], y[kept], changed.filter_, target_loss=0.05)
    changed.set_params(rule=replace(rule, unknown=-1))
    assert (changed.predict(X[kept]) == -1).sum() == 5


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (AnswerRule(max_removed_mass=0.5), "no name for it"),
        (AnswerRule(max_removed_mass=0.5, unknown=2), "2 stands for unknown"),
        (AnswerRule(unknown=np.int64(0)), "0 stands for unknown"),
        (AnswerRule({1: 0.5}, unknown=-1), "no label 1"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(iris, rule, words):
    X, y, model = iris
    changed = RelabeledClassifier(FrozenEstimator(model), [1])
    with pytest.raises(UnlabelError, match=words):
        clone(changed).set_params(rule=rule).fit(X, y)
    with pytest.raises(UnlabelError, match=words):
        changed.fit(X, y).set_params(rule=rule).predict(X)


def test_a_removed_label_may_be_the_name_of_unknown(iris):
    changed = relabeled(iris, rule=AnswerRule(max_removed_mass=0.5, unknown=1))
    assert set(changed.predict(iris[0])) == {0, 1, 2}


# Fitted twice


def fitted_pipeline(X, y):
    scaler = StandardScaler().fit(X)
    return make_pipeline(scaler, "passthrough", FrozenEstimator(GaussianNB().fit(X, y)))


FITTED = {
    "model": lambda X, y: GaussianNB().fit(X, y),
    "pipeline": lambda X, y: make_pipeline(StandardScaler(), GaussianNB()).fit(X, y),
    "pipeline with a frozen model": fitted_pipeline,
    "search": lambda X, y: GridSearchCV(GaussianNB(), {"var_smoothing": [0.1, 1]}).fit(X, y),
    "ensemble": lambda X, y: VotingClassifier([("m", GaussianNB())], voting="soft").fit(X, y),
    "ours": lambda X, y: LabelRemovalClassifier(GaussianNB(), []).fit(X, y),
}


@pytest.mark.parametrize("kind", FITTED)
def test_a_fitted_estimator_that_is_not_frozen_is_warned_of(iris, kind):
    X, y, _ = iris
    fitted = FITTED[kind](X, y)
    retired = LabelRemovalClassifier(fitted, [1])
    name = type(fitted).__name__
    with pytest.warns(UserWarning, match=f"The {name} is fitted .* sklearn.frozen.Frozen") as told:
        retired.fit(X, y)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert str(told[0].message).count(". ") == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LabelRemovalClassifier(FrozenEstimator(fitted), [1]).fit(X, y)
        LabelRemovalClassifier(clone(fitted), [1]).fit(X, y)
        cross_val_score(retired, X, y, cv=2)


def test_steps_that_are_not_fitted_may_come_before_a_frozen_model(iris):
    X, y, model = iris
    LabelRemovalClassifier(make_pipeline(StandardScaler(), FrozenEstimator(model)), [1]).fit(X, y)
    LabelRemovalClassifier(make_pipeline(StandardScaler().fit(X), GaussianNB()), [1]).fit(X, y)


def test_fitting_again_warns_of_nothing(iris):
    X, y, _ = iris
    LabelRemovalClassifier(GaussianNB(), [1]).fit(X, y).fit(X, y)


# Metrics take the result as it is


def scored(dtype, n=6):
    rng = np.random.default_rng(0)
    rows, truth = rng.dirichlet(np.full(n, 0.4), 600).astype(dtype), np.arange(600) % n
    remover = LabelRemover(remove=[0, 3]).fit(rows, truth)
    kept = np.isin(truth, remover.classes_)
    return truth[kept], remover.transform(rows[kept]), remover.classes_


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_log_loss_takes_the_result(dtype):
    truth, rows, classes = scored(dtype)
    true_entries = rows.astype(np.float64)[np.arange(len(truth)), np.searchsorted(classes, truth)]
    eps = np.finfo(dtype).eps
    expected = -np.log(np.clip(true_entries, eps, 1 - eps)).mean()
    assert log_loss(truth, rows) == pytest.approx(expected, rel=0.01)


# Rows of float16 do not sum to 1 as closely as roc_auc_score asks of several labels.
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_roc_auc_score_takes_the_result(multi_class, dtype):
    truth, rows, classes = scored(dtype)
    score = roc_auc_score(truth, rows, multi_class=multi_class, labels=classes)
    assert 0 < score < 1


def test_roc_auc_score_takes_a_column_of_the_result_for_two_labels():
    rng = np.random.default_rng(0)
    rows, truth = rng.dirichlet(np.ones(3), 300).astype(np.float16), np.arange(300) % 3
    remover = LabelRemover(keep=[0, 2]).fit(rows, truth)
    kept = truth != 1
    assert 0 < roc_auc_score(truth[kept], remover.transform(rows[kept])[:, 1]) < 1
