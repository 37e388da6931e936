"""The temperature: fitted by a robust log-loss in the old label space, and applied first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
import plain
import plain_calibration
import plain_plan
from unlabel import UnlabelError
from unlabel._method.temperature import COLDEST, HOTTEST, MIN_ROWS, at_temperature, fit_temperature
from worlds import NAMES


def overconfident(n_rows, sharpness, n=5, seed=0):
    """Make rows too sharp by a known factor, with labels drawn from the right probabilities."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=1.5, size=(n_rows, n))
    truth = np.array([rng.choice(n, p=row) for row in plain.softmax(logits)])
    return plain.softmax(sharpness * logits), truth


def best_of(rows, truth, around):
    loss = plain_calibration.robust_log_loss
    return plain_calibration.best_temperature(loss, rows, truth, around / 8, around * 8)


def fitted_to(rows, truth):
    return fit_temperature(rows, "probabilities", truth)


@pytest.mark.parametrize("sharpness", [0.02, 0.3, 1.0, 4.0, 45.0])
def test_the_temperature_is_that_of_a_plain_search(sharpness):
    rows, truth = overconfident(200, sharpness)
    best = best_of(rows, truth, sharpness)
    assert fitted_to(rows, truth) == pytest.approx(best, rel=1e-6)
    logits = np.log(rows) + np.arange(200)[:, None]
    assert fit_temperature(logits, "logits", truth) == pytest.approx(best, rel=1e-6)


def test_zeros_count_for_nothing_at_any_temperature():
    rows, truth = overconfident(200, 4.0)
    least = rows.argmin(axis=1)
    rows[np.arange(200), least] *= least == truth
    rows /= rows.sum(axis=1, keepdims=True)
    assert fitted_to(rows, truth) == pytest.approx(best_of(rows, truth, 4.0), rel=1e-6)


@pytest.mark.parametrize("sharpness", [0.25, 1.0, 3.0])
def test_a_known_temperature_is_found(sharpness):
    assert fitted_to(*overconfident(4000, sharpness)) == pytest.approx(sharpness, rel=0.1)


def test_rows_without_confidence_in_their_true_label_count_for_nothing():
    rows, truth = overconfident(200, 2.0)
    hopeless = np.tile([0.0, 0.5, 0.5, 0.0, 0.0], (30, 1))
    together = fitted_to(np.vstack([rows, hopeless]), np.append(truth, np.zeros(30, int)))
    assert together == pytest.approx(fitted_to(rows, truth), rel=1e-9)


@pytest.mark.parametrize("temperature", [COLDEST, HOTTEST])
def test_rows_at_the_bounds_are_finite_logits(temperature):
    rows = np.array([[1.0, 0.0, 0.0], [5e-324, 0.5, 0.5], [1e-300, 1e-310, 1.0], [1 / 3] * 3])
    logits, kind = at_temperature(rows, "probabilities", temperature)
    assert kind == "logits"
    result = plain.softmax(logits)
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_array_equal(result[:3], [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]])


def test_a_temperature_of_1_changes_no_bit():
    rows, _ = overconfident(20, 1.0)
    assert at_temperature(rows, "probabilities", 1.0)[0] is rows


# What gives no temperature


def test_enough_rows_are_needed():
    rows, truth = overconfident(MIN_ROWS, 2.0)
    fitted_to(rows, truth)
    with pytest.raises(UnlabelError, match=f"at least {MIN_ROWS} rows .* found {MIN_ROWS - 1}"):
        fitted_to(rows[1:], truth[1:])


@pytest.mark.parametrize(
    ("answers", "words"), [("argmax", "right in nearly all"), ("argmin", "no better than chance")]
)
def test_rows_that_are_all_right_or_all_wrong_give_no_temperature(answers, words):
    rows, _ = overconfident(200, 2.0)
    with pytest.raises(UnlabelError, match=f"the 200 rows .*{words}"):
        fitted_to(rows, getattr(rows, answers)(axis=1))


@pytest.mark.parametrize(
    ("sharpness", "words"), [(90.0, "no better than chance"), (1 / 90, "right in nearly all")]
)
def test_a_temperature_beyond_the_bounds_is_refused(sharpness, words):
    rows, truth = overconfident(200, sharpness)
    assert not COLDEST <= best_of(rows, truth, sharpness) <= HOTTEST  # a search would find it
    with pytest.raises(UnlabelError, match=f"No temperature fits .*{words}"):
        fitted_to(rows, truth)


def test_rows_that_are_all_right_alike_give_no_temperature():
    truth = np.arange(120) % 3
    rows = np.where(np.eye(3, dtype=bool)[truth], 0.98, 0.01)  # each step is as long as the last
    with pytest.raises(UnlabelError, match="right in nearly all"):
        fitted_to(rows, truth)


# In the filter


@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize(
    "plan",
    [
        {},
        {0: None},
        {0: None, 4: None, 1: "both", 2: "both", 3: {"left": 0.5, "right": 0.5}},
        {0: 1, 1: 0},
    ],
)
def test_rows_of_labels_that_stay_count_in_the_old_label_space(method, plan):
    rows, truth = overconfident(400, 3.0)
    stays = ~np.isin(truth, plain_plan.removed(plan))
    fitted = doors.fit(rows, truth, plan=plan, method=method, calibrate=True)
    best = best_of(rows[stays], truth[stays], 3.0)
    assert fitted.temperature == pytest.approx(best, rel=1e-6)


def test_too_few_rows_of_labels_that_stay_are_refused():
    rows, truth = overconfident(400, 3.0)
    few = (truth == 0) | (np.arange(400) < 30)
    with pytest.raises(UnlabelError, match=r"and found \d\d: "):
        doors.fit(rows[few], truth[few], remove=[0], calibrate=True)


def test_of_many_rows_the_same_are_used_in_any_order():
    rows, truth = overconfident(25_000, 2.0)
    order = np.random.default_rng(1).permutation(25_000)
    one = doors.fit(rows, truth, remove=[], calibrate=True)
    other = doors.fit(rows[order], truth[order], remove=[], calibrate=True)
    assert one.temperature == pytest.approx(other.temperature, rel=1e-12)
    assert one.temperature != pytest.approx(fitted_to(rows, truth), rel=1e-9)  # 20,000 of them


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_temperature_is_fitted_in_float64(dtype):
    rows, truth = overconfident(400, 1.5)
    rows = np.maximum(rows, 1e-4).astype(dtype)
    narrow = doors.fit(rows, truth, remove=[1, 3], calibrate=True).temperature
    wide = doors.fit(rows.astype(np.float64), truth, remove=[1, 3], calibrate=True).temperature
    assert narrow == wide


def test_the_statistics_are_those_of_calibrated_rows():
    rows, truth = overconfident(400, 3.0)
    fitted = doors.fit(rows, truth, remove=[2, 0], calibrate=True)
    calm = plain_calibration.at_temperature(rows, fitted.temperature)
    expected = doors.fit(calm, truth, remove=[2, 0])
    np.testing.assert_allclose(fitted.means, expected.means, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fitted.shares, expected.shares, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [4, 40])
def test_what_counts_as_nothing_stays_nothing_at_the_highest_temperature(both_ways, n):
    row = np.zeros(n)
    row[1:4] = 0.5, 0.5, 1e-300
    found = doors.at_temperature(doors.mask(range(n), [0]), HOTTEST).apply(row)
    np.testing.assert_allclose(found[:3], [0.5, 0.5, 0], rtol=1e-15, atol=0)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("n", [6, 40])
def test_float32_rows_are_calibrated_as_float64(n, kind):
    rows = np.random.default_rng(0).dirichlet(np.ones(n), 200)
    fitted = doors.at_temperature(doors.fit(rows, np.arange(200) % n, remove=[0, 1]), 1 / 16)
    fitted = doors.with_kind(fitted, kind)
    narrow = (np.log(rows) if kind == "logits" else rows).astype(np.float32)
    found, exact = fitted.run(narrow), fitted.run(narrow.astype(np.float64))
    np.testing.assert_array_equal(found.confidences, exact.confidences.astype(np.float32))
    np.testing.assert_array_equal(found.removed_mass, exact.removed_mass)


@given(plain_plan.changes_of(NAMES), st.data())
def test_the_temperature_comes_before_everything_else(both_ways, changes, data):
    method, kind = (data.draw(st.sampled_from(each)) for each in (["osr", "mask"], ["p", "logits"]))
    temperature = data.draw(st.sampled_from([COLDEST, 0.4, 1.7, HOTTEST]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    reference, truth = rng.dirichlet(np.ones(4), 20), np.array(NAMES)[np.arange(20) % 4]
    rows = rng.dirichlet(np.ones(4), 4)
    rows[0] = np.eye(4)[0]
    fitted = doors.fit(reference, truth, classes=NAMES, plan=changes, method=method)
    fitted = doors.at_temperature(fitted, temperature)
    calm = np.array([plain.at_temperature(row, temperature) for row in rows])
    steps = plain_plan.steps_of(changes, NAMES, reference, truth) if method == "osr" else None
    expected = plain_plan.changed_rows(changes, NAMES, calm, steps)
    given_rows = rows
    if kind == "logits":
        fitted = doors.with_kind(fitted, "logits")
        with np.errstate(divide="ignore"):
            given_rows = np.log(rows) - 5
    found = fitted.run(given_rows)
    np.testing.assert_allclose(found.confidences, expected, rtol=0, atol=1e-11)
    gone = [NAMES.index(label) for label in plain_plan.removed(changes)]
    np.testing.assert_allclose(found.removed_mass, calm[:, gone].sum(axis=1), rtol=0, atol=1e-12)
