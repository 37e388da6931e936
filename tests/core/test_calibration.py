"""What a temperature does for merged labels, on outputs of a shipped model and of a linear one."""

from pathlib import Path

import numpy as np
import pytest

import doors
import plain_calibration
from natural_merges import BANKING77, MAGIKA, changes_of
from unlabel import LabelPlan

GOLDEN = Path(__file__).parents[1] / "golden"
MERGES = {"magika": MAGIKA, "banking77": BANKING77}
HALVES = 20


def calibrated_fit(confidences, labels, classes, plan):
    return doors.fit(confidences, labels, classes=classes, plan=plan, calibrate=True)


@pytest.fixture(scope="module", params=list(MERGES))
def model(request):
    """The merges of a model, its confidences, the true labels of its rows, and its labels."""
    with np.load(GOLDEN / f"{request.param}.npz", allow_pickle=False) as stored:
        logs = stored["log_confidences"].astype(np.float64)
        confidences = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
        labels = stored["labels"].astype(object)
        return MERGES[request.param], confidences, labels, stored["classes"].tolist()


def columns_of(labels, classes):
    return np.array([classes.index(label) for label in labels.tolist()])


def judged(confidences, truth):
    """The accuracy and the log-loss of confidences."""
    own = confidences[np.arange(len(truth)), truth]
    return (confidences.argmax(axis=1) == truth).mean(), -np.log(own).mean()


def test_calibrated_sums_are_as_accurate_as_mapping_and_their_log_loss_is_lower(model):
    merges, confidences, labels, classes = model
    old_truth, old_answers = columns_of(labels, classes), confidences.argmax(axis=1)
    beyond_mapping = []
    for merge, groups in merges.items():
        plan = LabelPlan(changes_of(groups))
        lower = []
        for half in range(HALVES):
            fitting, rest = np.array_split(np.random.default_rng(half).permutation(len(labels)), 2)
            fitted = calibrated_fit(confidences[fitting], labels[fitting], classes, plan)
            new = [*fitted.classes_out]
            to = np.array([new.index(plan.changes.get(label, label)) for label in classes])
            truth = to[old_truth[rest]]
            accuracy, loss = judged(fitted.apply(confidences[rest]), truth)
            _, loss_of_sums = judged(confidences[rest] @ np.eye(len(new))[to], truth)
            beyond_mapping.append(accuracy - (to[old_answers[rest]] == truth).mean())
            lower.append(loss_of_sums - loss)
        assert np.mean(lower) > 0, merge
    assert np.mean(beyond_mapping) >= -0.001


def test_the_temperature_is_that_of_the_least_robust_log_loss(model):
    merges, confidences, labels, classes = model
    removed = labels[0]
    stay = labels != removed
    for changes, counted in (
        (changes_of(next(iter(merges.values()))), slice(None)),
        ({removed: None}, stay),
    ):
        fitted = calibrated_fit(confidences, labels, classes, LabelPlan(changes))
        best = plain_calibration.best_temperature(
            plain_calibration.robust_log_loss,
            confidences[counted],
            columns_of(labels[counted], classes),
        )
        assert fitted.temperature == pytest.approx(best, rel=1e-6)


def test_confidences_are_added_up_at_the_temperature(model):
    merges, confidences, labels, classes = model
    changes = changes_of(next(iter(merges.values())))
    fitted = calibrated_fit(confidences, labels, classes, LabelPlan(changes))
    new = [*fitted.classes_out]
    to = np.array([new.index(changes.get(label, label)) for label in classes])
    softened = plain_calibration.at_temperature(confidences[:100], fitted.temperature)
    np.testing.assert_allclose(
        fitted.apply(confidences[:100]), softened @ np.eye(len(new))[to], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("factor", [0.6, 1.7])
def test_sharper_outputs_get_a_higher_temperature(model, factor):
    merges, confidences, labels, classes = model
    plan = LabelPlan(changes_of(next(iter(merges.values()))))
    sharper = plain_calibration.at_temperature(confidences, 1 / factor)
    usual, of_sharper = (
        calibrated_fit(rows, labels, classes, plan).temperature for rows in (confidences, sharper)
    )
    assert of_sharper == pytest.approx(factor * usual, rel=1e-6)


@pytest.mark.parametrize("model", ["magika"], indirect=True)
def test_wrong_labels_hardly_move_the_temperature(model):
    merges, confidences, labels, classes = model
    plan = LabelPlan(changes_of(next(iter(merges.values()))))
    rng = np.random.default_rng(0)
    wrong = labels.copy()
    has_one = np.flatnonzero(confidences.min(axis=1) < 1e-9)
    for row in rng.choice(has_one, len(labels) // 50, replace=False):
        wrong[row] = classes[rng.choice(np.flatnonzero(confidences[row] < 1e-9))]
    clean, found = (
        calibrated_fit(confidences, given, classes, plan).temperature for given in (labels, wrong)
    )
    assert clean == pytest.approx(1.52, abs=0.01)
    assert found == pytest.approx(clean, rel=0.05)
    steered = [
        plain_calibration.best_temperature(
            plain_calibration.plain_log_loss, confidences, columns_of(given, classes)
        )
        for given in (labels, wrong)
    ]
    assert steered[1] > 1.15 * steered[0]
