"""Models of scikit-learn, exported by skl2onnx."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import doors
from onnx_models import mask_filter, run
from unlabel import UnlabelError
from unlabel.onnx import attach
from unlabel.sklearn import RelabeledClassifier

NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32), y


SKLEARN_MODELS = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(15, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=3, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=3, random_state=0),
    "naive bayes": GaussianNB(),
    "network": make_pipeline(
        StandardScaler(), MLPClassifier((16,), max_iter=60, tol=0.01, random_state=0)
    ),
}


# skl2onnx hands protobuf integers of NumPy's, and the network is not trained to the end.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
@pytest.mark.parametrize("labels", ["numbers", "texts"])
@pytest.mark.parametrize("name", SKLEARN_MODELS)
def test_scikit_learn_models_agree_with_the_classifier(digits, name, labels, zipmap):
    X, y = digits
    y = NAMES[y] if labels == "texts" else y
    remove = ["three", "zero", "eight"] if labels == "texts" else [3, 0, 8]
    model = SKLEARN_MODELS[name].fit(X[:600], y[:600])
    expected = RelabeledClassifier(FrozenEstimator(model), plan=remove).fit(X[:600], y[:600])
    last = model[-1] if hasattr(model, "steps") else model
    exported = to_onnx(model, X[:1], options={id(last): {"zipmap": zipmap}})
    grafted = run(attach(exported, expected.filter_), X=X[600:])
    before = run(exported, X=X[600:])
    assert list(grafted) == list(before)
    found, probabilities = grafted.values()
    if zipmap:
        assert [list(row) for row in probabilities[:3]] == [expected.classes_.tolist()] * 3
        probabilities = np.array([list(row.values()) for row in probabilities])
    wanted = expected.predict_proba(X[600:])
    np.testing.assert_allclose(probabilities, wanted, rtol=0, atol=1e-5)
    assert found.dtype == next(iter(before.values())).dtype
    if name == "forest":  # votes tie, and single precision breaks a tie in its own way
        chosen = wanted[np.arange(len(wanted)), np.searchsorted(expected.classes_, found)]
        assert (wanted.max(axis=1) - chosen).max() < 1e-6
    else:
        np.testing.assert_array_equal(found, expected.predict(X[600:]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("zipmap", [True, False], ids=["zipmap", "tensor"])
def test_raw_scores_of_scikit_learn_are_logits(digits, zipmap):
    X, y = digits[0][:300], digits[1][:300]
    model = LogisticRegression(max_iter=500).fit(X, y)
    fitted = doors.fit(model.decision_function(X), y, remove=[3, 8], kind="logits")
    options = {id(model): {"zipmap": zipmap, "raw_scores": True}}
    exported = to_onnx(model, X[:1], options=options)
    _, found = run(attach(exported, fitted), X=X).values()
    if zipmap:
        found = np.array([list(row.values()) for row in found])
    wanted = fitted.apply(model.decision_function(X))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    with pytest.raises(UnlabelError, match="holds logits and the filter takes probabilities"):
        attach(exported, replace(fitted, kind="probabilities"))


def test_labels_of_a_table_are_texts_and_those_of_the_model_numbers(digits):
    X, y = digits
    model = LogisticRegression(max_iter=500).fit(X[:300], y[:300])
    rows, names = model.predict_proba(X[:300]), [str(label) for label in range(10)]
    fitted = doors.fit(rows, y[:300].astype(str), classes=names, remove=["3", "8"])
    found = run(attach(to_onnx(model, X[:1]), fitted), X=X[300:400])
    assert found["output_label"].dtype == np.int64
    assert not set(found["output_label"]) & {3, 8}
    assert list(found["output_probability"][0]) == [0, 1, 2, 4, 5, 6, 7, 9]


def test_a_model_with_other_labels_is_refused(digits):
    X, y = digits
    model = LogisticRegression(max_iter=500).fit(X[:300], NAMES[y[:300]])
    for zipmap in (True, False):
        exported = to_onnx(model, X[:1], options={"zipmap": zipmap})
        fitted = mask_filter(10, remove=["one"], classes=NAMES.tolist())
        with pytest.raises(UnlabelError, match=r"Label 0 is 'eight' in the model and 'zero' in"):
            attach(exported, fitted)
        with pytest.raises(UnlabelError, match=r"filter is for 3 labels .* 10"):
            attach(exported, mask_filter(3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_classifiers_label_that_is_not_followed_is_refused(digits):
    model = to_onnx(
        RandomForestClassifier(3, random_state=0).fit(digits[0][:90], digits[1][:90]),
        digits[0][:1],
        options={"zipmap": False},
    )
    fitted = mask_filter(10)
    assert attach(model, fitted)
    name = model.graph.output[0].name
    model.graph.node.append(helper.make_node("Neg", [name], ["turned"]))
    model.graph.output[0].name = "turned"
    with pytest.raises(UnlabelError, match="'turned' is computed from the confidences"):
        attach(model, fitted)
