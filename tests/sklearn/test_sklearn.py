import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import plain_plan
from unlabel import AnswerRule, LabelPlan, OutputFilter, UnlabelError
from unlabel.sklearn import RelabeledClassifier

pytestmark = pytest.mark.filterwarnings(
    "ignore:Fewer than 100 reference rows", "ignore:The model answers most rows of some labels"
)

ALL_COLUMNS = "the check expects a column and predictions for every label of y"

CHECKED = [
    (RelabeledClassifier(LogisticRegression(), []), {}),
    (RelabeledClassifier(LogisticRegression(), [], rule=AnswerRule(unknown=99)), {}),
    (
        RelabeledClassifier(LogisticRegression(), [1]),
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


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, LogisticRegression(max_iter=1000).fit(X, y)


def relabeled(iris, plan=(1,), **options):
    X, y, model = iris
    return RelabeledClassifier(FrozenEstimator(model), plan, **options).fit(X, y)


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_changed_classifier_answers_with_the_new_labels(iris, calibrate):
    X, y, model = iris
    plan = {0: None, 1: "a", 2: "b"}
    changed = relabeled(iris, plan, calibrate=calibrate)
    rows = model.predict_proba(X)
    steps = plain_plan.steps_of(plan, [0, 1, 2], rows, y)
    expected = plain_plan.changed_rows(plan, [0, 1, 2], rows, steps)
    assert changed.classes_.tolist() == ["a", "b"]
    assert (changed.filter_.temperature == 1) == (not calibrate)
    names = np.array(["a", "b"])[expected.argmax(axis=1)]
    np.testing.assert_array_equal(changed.predict(X), names)
    if not calibrate:
        np.testing.assert_allclose(changed.predict_proba(X), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "grid",
    [
        {"plan": [{1: 2}, LabelPlan({2: 1}), {0: None}]},
        {"plan": [[0]], "method": ["osr", "mask"], "calibrate": [False, True]},
    ],
)
def test_a_grid_search_chooses_a_plan_and_a_method(iris, grid):
    X, y, model = iris
    classifier = RelabeledClassifier(FrozenEstimator(model), [])
    search = GridSearchCV(classifier, grid, scoring="accuracy", cv=3).fit(X, y)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.best_estimator_.filter_.plan == LabelPlan(search.best_params_["plan"])


@pytest.mark.parametrize("method", ["osr", "mask"])
def test_the_classifier_gives_what_its_filter_gives(iris, method):
    X, y, model = iris
    changed, rows = relabeled(iris, method=method), model.predict_proba(X)
    expected = OutputFilter.fit(rows, y, remove=[1], method=method).apply(rows)
    np.testing.assert_array_equal(changed.predict_proba(X), expected)
    np.testing.assert_array_equal(changed.predict_log_proba(X), np.log(expected))
    np.testing.assert_array_equal(changed.classes_, [0, 2])
    np.testing.assert_array_equal(changed.predict(X), np.array([0, 2])[expected.argmax(axis=1)])
    if method == "mask":
        np.testing.assert_array_equal(changed.fit(X, None).predict_proba(X), expected)
        assert changed.predict_proba(1e4 * X[:1]).min() == 0
        assert changed.predict_log_proba(1e4 * X[:1]).min() == -np.inf


def test_a_frozen_estimator_is_not_trained_again(iris):
    X, y, model = iris
    before = model.coef_.copy()
    changed = relabeled((X[y == 1], y[y == 1], model))
    np.testing.assert_array_equal(model.coef_, before)
    np.testing.assert_array_equal(changed.estimator_.predict_proba(X), model.predict_proba(X))


def test_an_estimator_that_is_not_frozen_is_trained_as_a_clone(iris):
    X, y, _ = iris
    model = LogisticRegression(max_iter=1000)
    changed = RelabeledClassifier(model, [2]).fit(X, y)
    assert not hasattr(model, "coef_")
    np.testing.assert_array_equal(changed.classes_, [0, 1])
    assert set(changed.predict(X)) == {0, 1}
    assert cross_val_score(RelabeledClassifier(model, []), X, y, cv=3).min() > 0.9


def test_texts_as_labels_of_a_classifier_in_a_pipeline(iris):
    X, y, _ = iris
    names = load_iris().target_names[y]
    model = make_pipeline(StandardScaler(), LogisticRegression())
    changed = RelabeledClassifier(model, ["virginica"]).fit(X, names)
    np.testing.assert_array_equal(changed.classes_, ["setosa", "versicolor"])
    assert set(changed.predict(X)) == {"setosa", "versicolor"}


def test_labels_that_are_neither_strings_nor_whole_numbers_are_refused(iris):
    X, y, _ = iris
    with pytest.raises(UnlabelError, match="neither a string nor a whole number"):
        RelabeledClassifier(LogisticRegression(max_iter=1000), [True]).fit(X, y > 0)


def test_a_plan_is_needed(iris):
    X, y, model = iris
    with pytest.raises(UnlabelError, match="a plan"):
        RelabeledClassifier(FrozenEstimator(model)).fit(X, y)


def test_what_the_fit_remarks_is_warned_of_where_it_was_called(iris):
    X, y, model = iris
    with pytest.warns(UserWarning, match="Fewer than 100 reference rows of 1") as told:
        RelabeledClassifier(FrozenEstimator(model), [1]).fit(X, y)
    assert [each.filename for each in told] == [__file__]


class Renumbering(LogisticRegression):
    """A classifier that numbers labels from 0, as XGBoost may."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = np.arange(len(self.classes_))
        return self


@pytest.mark.filterwarnings("ignore:.*of labels that the model does not have")
def test_labels_that_were_numbered_anew_are_warned_of(iris):
    X, y, _ = iris
    with pytest.warns(
        UserWarning,
        match="it has no label 3 and a label 0 instead",
    ):
        RelabeledClassifier(Renumbering(max_iter=1000), [2]).fit(X, y + 1)


def test_a_model_that_has_probabilities_only_once_it_is_fitted(iris):
    X, y, model = iris
    stacked = StackingClassifier([("model", model)])
    assert set(RelabeledClassifier(stacked, [1]).fit(X, y).predict(X)) == {0, 2}


def test_a_model_without_probabilities_is_refused(iris):
    X, y, _ = iris
    for model in (SVC(), FrozenEstimator(SVC().fit(X, y))):
        with pytest.raises(UnlabelError, match=r"^SVC has no predict_proba"):
            RelabeledClassifier(model, [0]).fit(X, y)


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
    "ours": lambda X, y: RelabeledClassifier(GaussianNB(), []).fit(X, y),
}


@pytest.mark.parametrize("kind", FITTED)
def test_a_fitted_estimator_that_is_not_frozen_is_warned_of(iris, kind):
    X, y, _ = iris
    fitted = FITTED[kind](X, y)
    changed = RelabeledClassifier(fitted, [1], method="mask")
    name = type(fitted).__name__
    with pytest.warns(UserWarning, match=f"The {name} is fitted .* sklearn.frozen.Frozen") as told:
        changed.fit(X, y)
    (said,) = (each for each in told if "is fitted" in str(each.message))
    assert said.filename == __file__
    assert str(said.message).count(". ") == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The model answers most rows")
        RelabeledClassifier(FrozenEstimator(fitted), {}).fit(X, y)
        RelabeledClassifier(clone(fitted), {}).fit(X, y)
        cross_val_score(changed, X, y, cv=2)


def test_what_is_fitted_anew_is_not_warned_of(iris):
    X, y, model = iris
    for estimator in (
        make_pipeline(StandardScaler(), FrozenEstimator(model)),
        make_pipeline(StandardScaler().fit(X), GaussianNB()),
    ):
        RelabeledClassifier(estimator, [1]).fit(X, y)
    RelabeledClassifier(GaussianNB(), [1]).fit(X, y).fit(X, y)


# Metrics take the result as it is


def scored(dtype, n=6):
    rng = np.random.default_rng(0)
    rows, truth = rng.dirichlet(np.full(n, 0.4), 600).astype(dtype), np.arange(600) % n
    fitted = OutputFilter.from_plan(LabelPlan([0, 3]), classes=range(n))
    kept = np.isin(truth, fitted.classes_out)
    return truth[kept], fitted.apply(rows[kept]), fitted.classes_out


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
    truth, rows, classes = scored(np.float16, n=4)
    assert len(classes) == 2
    assert 0 < roc_auc_score(truth, rows[:, 1]) < 1
