"""The scorer over rows of retained labels, against sums over those rows."""

import pickle
from math import log

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import plain_metrics
from unlabel import AnswerRule, UnlabelError
from unlabel.sklearn import RelabeledClassifier, retained_scorer

# The columns of a result need not be in the order of its sorted labels: here they are not.
PLAN = {"ant": "zebu", "bee": None}
NAMES = np.array(["ant", "bee", "cow"])
RULE = AnswerRule(max_removed_mass=0.2, unknown="?")

pytestmark = pytest.mark.filterwarnings("ignore:Fewer than 100 reference rows")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    X = X + rng.normal(size=X.shape)  # else hardly an answer is wrong
    return X, NAMES[y], LogisticRegression(max_iter=1000).fit(X, NAMES[y])


def changed(iris, plan=PLAN, **options):
    X, y, model = iris
    return RelabeledClassifier(FrozenEstimator(model), plan, **options).fit(X, y)


def test_a_grid_search_chooses_to_calibrate_by_log_loss(iris):
    X, y, _ = iris
    folds, scorer = StratifiedKFold(3), retained_scorer("neg_log_loss")
    relabeled = RelabeledClassifier(LogisticRegression(max_iter=1000), ["ant"])
    grid = {"calibrate": [False, True]}
    search = GridSearchCV(relabeled, grid, scoring=scorer, cv=folds).fit(X, y)
    for at, calibrate in enumerate(grid["calibrate"]):
        for fold, (fitting, judged) in enumerate(folds.split(X, y)):
            fitted = clone(relabeled).set_params(calibrate=calibrate).fit(X[fitting], y[fitting])
            rows, classes = fitted.predict_proba(X[judged]).tolist(), ["bee", "cow"]
            loss = plain_metrics.log_loss(rows, y[judged].tolist(), classes, classes)
            found = search.cv_results_[f"split{fold}_test_score"][at]
            assert found == pytest.approx(-loss, rel=1e-9)


def test_true_labels_become_what_the_plan_makes_of_them(iris):
    X, y, _ = iris
    classifier = changed(iris)
    assert classifier.classes_.tolist() == ["zebu", "cow"]
    new = {"ant": "zebu", "cow": "cow"}
    losses, right = [], []
    probabilities, answers = classifier.predict_proba(X), classifier.predict(X)
    for row, label in enumerate(y.tolist()):
        if label in new:
            own = ["zebu", "cow"].index(new[label])
            losses.append(-log(probabilities[row][own]))
            right.append(answers[row] == new[label])
    assert retained_scorer("neg_log_loss")(classifier, X, y) == pytest.approx(-np.mean(losses))
    assert retained_scorer("accuracy")(classifier, X, y) == pytest.approx(np.mean(right))
    assert 0 < np.mean(right) < 1


def test_labels_that_only_parts_of_a_split_go_to_have_no_rows(iris):
    X, y, _ = iris
    classifier = changed(iris, {"ant": {"a": 0.5, "b": 0.5}})
    assert classifier.classes_.tolist() == ["a", "b", "bee", "cow"]
    rows = classifier.predict_proba(X).tolist()
    loss = plain_metrics.log_loss(rows, y.tolist(), ["a", "b", "bee", "cow"], ["bee", "cow"])
    score = retained_scorer("neg_log_loss")(classifier, X, y)
    assert score == pytest.approx(-loss, rel=1e-9)


def test_labels_of_several_types(iris):
    X, y, _ = iris
    classifier = changed(iris, {"ant": 7, "bee": None})
    assert classifier.classes_.dtype == object
    texts = changed(iris, {"ant": "7", "bee": None})
    for name in ("accuracy", "neg_log_loss", "roc_auc", "f1_macro"):
        scorer = retained_scorer(name)
        assert scorer(classifier, X, y) == scorer(texts, X, y)


def test_rows_of_labels_that_the_model_does_not_have_are_left_out(iris):
    X, y, _ = iris
    classifier, scorer = changed(iris), retained_scorer("neg_log_loss")
    more = np.array([*y, "gnu", None], dtype=object)
    assert scorer(classifier, np.vstack([X, X[:2]]), more) == scorer(classifier, X, y)


def test_unknown_misses_the_label_and_is_no_other(iris):
    X, y, model = iris
    classifier = changed(iris, rule=RULE)
    mass = model.predict_proba(X)[:, 1]
    best = changed(iris).predict(X)
    new, recalls, right = {"ant": "zebu", "cow": "cow"}, [], []
    for label in new:
        own = [mass[row] <= 0.2 and best[row] == new[label] for row in np.flatnonzero(y == label)]
        recalls.append(np.mean(own))
        right += own
    assert (classifier.predict(X[y != "bee"]) == "?").any()
    assert retained_scorer("accuracy")(classifier, X, y) == pytest.approx(np.mean(right))
    assert retained_scorer("recall_macro")(classifier, X, y) == pytest.approx(np.mean(recalls))
    losses = [retained_scorer("neg_log_loss")(each, X, y) for each in (classifier, changed(iris))]
    assert losses[0] == losses[1]


def test_scorers_of_one_label_of_two_take_unknown_as_a_miss(iris):
    X, y, _ = iris
    classifier = changed(iris, rule=RULE)
    assert (classifier.predict(X[y != "bee"]) == "?").any()
    kept = y != "bee"
    positive = classifier.classes_[1]
    truth = np.where(y[kept] == "ant", "zebu", y[kept]) == positive
    answers = classifier.predict(X[kept]) == positive
    hits = np.sum(truth & answers)
    expected = {
        "precision": hits / answers.sum(),
        "recall": hits / truth.sum(),
        "f1": 2 * hits / (answers.sum() + truth.sum()),
        "jaccard": hits / np.sum(truth | answers),
    }
    for name, value in expected.items():
        assert retained_scorer(name)(classifier, X, y) == pytest.approx(value)
    assert 0 < retained_scorer("balanced_accuracy")(classifier, X, y) < 1  # without a warning


def test_a_pipeline_and_a_search_are_scored_too(iris):
    X, y, _ = iris
    scorer = retained_scorer("accuracy")
    pipeline = make_pipeline(
        StandardScaler(), RelabeledClassifier(LogisticRegression(max_iter=1000), PLAN)
    )
    search = GridSearchCV(
        pipeline,
        {f"{RelabeledClassifier.__name__.lower()}__method": ["osr", "mask"]},
        scoring=scorer,
        cv=3,
    )
    scores = cross_val_score(search, X, y, scoring=scorer, cv=3)
    assert scores.min() > 0.5


def test_a_scorer_travels_to_other_processes(iris):
    X, y, _ = iris
    scorer = retained_scorer("neg_log_loss")
    assert pickle.loads(pickle.dumps(scorer))(changed(iris), X, y) == scorer(changed(iris), X, y)


def test_mistakes_get_one_clear_sentence(iris):
    X, y, model = iris
    with pytest.raises(UnlabelError, match="no scorer 'log_los': see "):
        retained_scorer("log_los")
    with pytest.raises(UnlabelError, match="The LogisticRegression has no filter: score a"):
        retained_scorer("accuracy")(model, X, y)
    with pytest.raises(UnlabelError, match="No row has"):
        retained_scorer("accuracy")(changed(iris), X[y == "bee"], y[y == "bee"])
