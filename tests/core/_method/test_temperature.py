import numpy as np
import pytest
from scipy.special import softmax

import doors
import plain
import plain_plan
from unlabel import UnlabelError
from unlabel._method.temperature import COLDEST, HOTTEST, MIN_ROWS, at_temperature, fit_temperature


def overconfident(n_rows, sharpness, n=5, seed=0):
    """Make rows too sharp by a known factor, with labels drawn from the right probabilities."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=1.5, size=(n_rows, n))
    truth = np.array([rng.choice(n, p=row) for row in softmax(logits, axis=1)])
    return softmax(sharpness * logits, axis=1), truth


@pytest.mark.parametrize("sharpness", [0.02, 0.3, 1.0, 4.0, 45.0])
def test_the_temperature_is_that_of_a_plain_search(sharpness):
    rows, truth = overconfident(200, sharpness)
    best = plain.best_temperature(rows, truth)
    assert fit_temperature(rows, truth) == pytest.approx(best, rel=1e-6)


def test_zeros_count_for_nothing_at_any_temperature():
    rows, truth = overconfident(200, 4.0)
    least = rows.argmin(axis=1)
    rows[np.arange(200), least] *= least == truth
    rows /= rows.sum(axis=1, keepdims=True)
    best = plain.best_temperature(rows, truth)
    assert fit_temperature(rows, truth) == pytest.approx(best, rel=1e-6)


def test_the_temperature_of_real_confidences_is_that_of_a_plain_search(cifar100):
    logits, labels = cifar100
    fitted = doors.fit(logits, labels, remove=range(60), kind="logits", calibrate=True)
    raw = doors.fit(logits, labels, remove=range(60), kind="logits")
    kept = labels >= 60
    best = plain.best_temperature(raw.apply(logits[kept]), labels[kept] - 60)
    assert fitted.temperature == pytest.approx(best, rel=1e-6)
    assert fitted.temperature > 1


@pytest.mark.parametrize("sharpness", [0.25, 1.0, 3.0])
def test_a_known_temperature_is_found(sharpness):
    rows, truth = overconfident(4000, sharpness)
    assert fit_temperature(rows, truth) == pytest.approx(sharpness, rel=0.1)


@pytest.mark.parametrize("temperature", [COLDEST, 0.5, 2.0, HOTTEST])
def test_rows_are_raised_to_a_power_and_divided_by_their_sum(temperature):
    rows, _ = overconfident(50, 1.0)
    powers = [[p ** (1 / temperature) for p in row] for row in rows]
    expected = [[power / sum(row) for power in row] for row in powers]
    np.testing.assert_allclose(at_temperature(rows, temperature), expected, rtol=1e-12)


@pytest.mark.parametrize("temperature", [COLDEST, HOTTEST])
def test_rows_at_the_bounds_stay_probabilities(temperature):
    rows = np.array([[1.0, 0.0, 0.0], [5e-324, 0.5, 0.5], [1e-300, 1e-310, 1.0], [1 / 3] * 3])
    result = at_temperature(rows, temperature)
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=1e-14)
    assert result.min() >= 0
    np.testing.assert_array_equal(result[0], [1, 0, 0])


@pytest.mark.parametrize("temperature", [COLDEST, 0.3, 3.0, HOTTEST])
def test_a_temperature_changes_no_ranking(cifar10, temperature):
    rows = softmax(cifar10[0], axis=1)
    order = rows.argsort(axis=1)
    after = np.take_along_axis(at_temperature(rows, temperature), order, axis=1)
    assert (np.diff(after, axis=1) >= 0).all()


def test_a_temperature_of_1_changes_no_bit():
    rows, _ = overconfident(20, 1.0)
    np.testing.assert_array_equal(at_temperature(rows, 1.0), rows)


def test_rows_without_confidence_in_their_true_label_are_left_out():
    rows, truth = overconfident(200, 2.0)
    alone = fit_temperature(rows.copy(), truth)
    hopeless = np.tile([0.0, 0.5, 0.5, 0.0, 0.0], (30, 1))
    together = fit_temperature(np.vstack([rows, hopeless]), np.append(truth, np.zeros(30, int)))
    assert together == alone


def test_enough_rows_are_needed():
    rows, truth = overconfident(MIN_ROWS, 2.0)
    fit_temperature(rows.copy(), truth)
    sentence = f"at least {MIN_ROWS} reference rows .* found {MIN_ROWS - 1}: give more rows"
    with pytest.raises(UnlabelError, match=sentence):
        fit_temperature(rows[1:], truth[1:])


def test_rows_that_are_all_right_give_no_temperature():
    rows, _ = overconfident(200, 2.0)
    with pytest.raises(UnlabelError, match=r"right in all, .* of the 200 reference rows"):
        fit_temperature(rows, rows.argmax(axis=1))


def test_rows_that_are_all_wrong_give_no_temperature():
    rows, _ = overconfident(200, 2.0)
    with pytest.raises(UnlabelError, match="no better than chance in the 200 reference rows"):
        fit_temperature(rows, rows.argmin(axis=1))


@pytest.mark.parametrize(
    ("sharpness", "words"),
    [(90.0, "no better than chance"), (1 / 90, "right in all, or nearly all")],
)
def test_a_temperature_beyond_the_bounds_is_refused(sharpness, words):
    rows, truth = overconfident(200, sharpness)
    best = plain.best_temperature(rows, truth)
    assert not COLDEST <= best <= HOTTEST  # a longer search would find it
    with pytest.raises(UnlabelError, match=f"calibrate found no temperature: .*{words}"):
        fit_temperature(rows, truth)


def test_a_single_retained_label_has_no_temperature():
    rows, truth = overconfident(300, 2.0)
    with pytest.raises(UnlabelError, match="calibrate found no temperature"):
        doors.fit(rows, truth, keep=[2], calibrate=True)


# In the filter


def test_only_rows_of_retained_labels_count():
    rows, truth = overconfident(400, 3.0)
    fitted = doors.fit(rows, truth, remove=[0], method="mask", calibrate=True)
    kept = rows[truth > 0][:, 1:]
    kept /= kept.sum(axis=1, keepdims=True)
    best = plain.best_temperature(kept, truth[truth > 0] - 1)
    assert fitted.temperature == pytest.approx(best, rel=1e-6)


def test_only_rows_whose_new_label_is_known_count(cifar10):
    rows, truth = softmax(cifar10[0], axis=1), cifar10[1]
    plan = {0: None, 1: "vehicle", 9: "vehicle", 2: {"wild": 0.5, "tame": 0.5}, 3: 5}
    fitted = doors.fit(rows, truth, plan=plan, calibrate=True)
    uncalibrated = doors.at_temperature(fitted, 1.0).apply(rows)
    names = plain_plan.result_labels(plan, range(10))
    known, columns = [], []
    for row, label in enumerate(truth.tolist()):
        parts = plain_plan.parts_of(plan, label)
        if len(parts) == 1:
            known.append(row)
            columns.append(names.index(parts[0][0]))
    assert set(truth[known].tolist()) == {1, 3, 4, 5, 6, 7, 8, 9}
    expected = plain.best_temperature(uncalibrated[known].tolist(), columns)
    assert fitted.temperature == pytest.approx(expected, rel=1e-6)


def test_too_few_rows_of_retained_labels_are_refused():
    rows, truth = overconfident(400, 3.0)
    few = (truth == 0) | (np.arange(400) < 30)
    with pytest.raises(UnlabelError, match=r"of retained labels, .* and found \d\d: give more"):
        doors.fit(rows[few], truth[few], remove=[0], calibrate=True)


def test_removing_nothing_can_be_calibrated_too():
    rows, truth = overconfident(400, 3.0)
    fitted = doors.fit(rows, truth, remove=[], calibrate=True)
    assert fitted.temperature == pytest.approx(fit_temperature(rows, truth), rel=1e-9)


@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_temperature_is_fitted_in_float64(method, dtype):
    rows, truth = overconfident(400, 1.5)
    rows = np.maximum(rows, 1e-4).astype(dtype)
    wide = rows.astype(np.float64)
    wide /= wide.sum(axis=1, keepdims=True)
    arguments = {"remove": [1, 3], "method": method, "calibrate": True}
    narrow = doors.fit(rows, truth, **arguments).temperature
    assert narrow == pytest.approx(doors.fit(wide, truth, **arguments).temperature, rel=1e-12)


def test_the_filter_applies_its_temperature_last(cifar10):
    logits, labels = cifar10
    raw = doors.fit(logits, labels, remove=[0, 4], kind="logits")
    fitted = doors.fit(logits, labels, remove=[0, 4], kind="logits", calibrate=True)
    powers = raw.apply(logits) ** (1 / fitted.temperature)
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.apply(logits), expected, rtol=1e-12)
    np.testing.assert_array_equal(fitted.shares, raw.shares)
