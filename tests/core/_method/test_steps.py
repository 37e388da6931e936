import itertools
import tracemalloc
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import doors
import plain
import plain_calibration
from unlabel import OutputFilter
from unlabel._method.recipe import step_numbers
from unlabel._method.statistics import away_from

pytestmark = pytest.mark.usefixtures("both_ways")

ORDERS_10 = [[0], [9], [0, 4], [4, 0], [9, 7, 4, 0], [3, 8, 0, 2, 6, 7, 9], list(range(1, 10))]
ORDERS_100 = [[0], [99, 0], list(range(20)), list(range(19, -1, -1))]
# Zero, next to what counts as nothing, products that underflow, and near 1 in rounding.
EDGES = (0.0, 1e-280, 1e-160, 1e-16, 1.1e-16, 1e-3, 1.0)


def simplex(n_rows, n, concentration=1.0, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n, concentration), n_rows)


def rows_of_each(rows, labels, removed):
    return [rows[labels == label] for label in removed]


def assert_as_plain(rows, labels, removed, to, atol=1e-10):
    steps = plain.fit(rows_of_each(rows, labels, removed), removed, rows.shape[1])
    ours = doors.fit(rows, labels, remove=removed).apply(to)
    np.testing.assert_allclose(ours, plain.apply(to, steps), rtol=0, atol=atol)


def log_loss(rows, truth):
    return plain_calibration.plain_log_loss(rows, truth, 1.0)


# Agreement with the plain implementation


@pytest.mark.parametrize("concentration", [0.05, 1.0, 50.0])
@pytest.mark.parametrize(
    ("n", "removed"), [(2, [0]), (2, [1]), (3, [2, 0]), (7, [5, 1, 3]), (30, [29, 0, 7, 11, 8])]
)
def test_osr_agrees_with_plain_on_random_rows(n, removed, concentration):
    rows = simplex(6 * n, n, concentration)
    assert_as_plain(rows, np.arange(6 * n) % n, removed, simplex(40, n, concentration, seed=1))


def test_osr_agrees_with_plain_over_many_steps():
    assert_as_plain(simplex(160, 80), np.arange(160) % 80, list(range(70)), simplex(20, 80, seed=1))


def test_osr_agrees_with_plain_where_a_residual_is_next_to_nothing():
    reference = np.array([[0.7, 0.05, 0.25], [0.5, 0.15, 0.35]])
    row = np.array([[0.6 * (1 + 5e-4), 1.0, 0.0]])
    assert_as_plain(reference, np.zeros(2, int), [0], row / row.sum(), atol=1e-12)


@pytest.mark.parametrize("removed", list(itertools.permutations(range(4), 3)))
def test_osr_agrees_with_plain_in_every_order_of_removal(removed):
    assert_as_plain(simplex(24, 4), np.arange(24) % 4, list(removed), simplex(20, 4, seed=1))


@pytest.mark.parametrize(
    ("network", "removed"),
    [
        *(("cifar10", order) for order in ORDERS_10),
        *(("cifar100", order) for order in ORDERS_100),
    ],
)
def test_osr_agrees_with_plain_on_real_networks(network, removed, request):
    logits, labels = request.getfixturevalue(network)
    rows = plain.softmax(logits)
    half = np.arange(len(rows)) % 2 == 0
    assert_as_plain(rows[half], labels[half], removed, rows[::3])


@given(
    st.lists(st.sampled_from(EDGES) | st.floats(1e-280, 1), min_size=5, max_size=5),
    st.permutations(range(5)),
    st.integers(1, 4),
)
def test_osr_agrees_with_decimal_numbers_at_the_edges_of_the_simplex(weights, order, n_removed):
    assume(sum(weights) > 0)
    row = np.array(weights) / sum(weights)
    reference, labels, removed = simplex(15, 5), np.arange(15) % 5, order[:n_removed]
    references = [[plain.exactly(y) for y in reference[labels == label]] for label in removed]
    exact = plain.apply_exactly(plain.exactly(row), plain.fit_exactly(references, removed, 5))
    ours = doors.fit(reference, labels, remove=removed).apply(row[None])[0]
    np.testing.assert_allclose(ours, np.array(exact, dtype=float), rtol=1e-12, atol=1e-15)


def test_order_of_removal_matters():
    rows, labels = simplex(24, 4), np.arange(24) % 4
    one = doors.fit(rows, labels, remove=[0, 1]).apply(rows)
    other = doors.fit(rows, labels, remove=[1, 0]).apply(rows)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("removed", [[0], [4, 0], [9, 7, 4, 0]])
def test_mask_drops_the_labels_and_divides_by_the_sum(cifar10, removed):
    rows = plain.softmax(cifar10[0])
    kept = np.delete(rows, removed, axis=1)
    ours = doors.fit(rows, remove=removed, method="mask").apply(rows)
    np.testing.assert_allclose(ours, kept / kept.sum(axis=1, keepdims=True), rtol=1e-14)


def test_mask_is_uniform_where_nothing_is_left():
    ours = doors.fit(np.eye(5), remove=[3, 1], method="mask").apply(np.eye(5)[[1, 3]])
    np.testing.assert_allclose(ours, 1 / 3)


@pytest.mark.parametrize("method", ["osr", "mask"])
def test_removing_no_label_changes_nothing(method):
    rows = simplex(9, 5)
    ours = doors.fit(rows, np.arange(9) % 5, remove=[], method=method).apply(rows)
    np.testing.assert_allclose(ours, rows, rtol=1e-15)


# The facts of the design


@pytest.mark.parametrize("concentration", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("n", [2, 5, 40])
def test_fact_1_the_construction_yields_the_closed_form(n, concentration):
    mean = simplex(5, n, concentration).mean(axis=0)
    closed = np.eye(n) - np.outer(mean, mean) / (mean @ mean)
    np.testing.assert_allclose(plain.projector(mean), closed, rtol=0, atol=1e-12)
    rows = simplex(5, n, concentration, seed=1)
    np.testing.assert_allclose(away_from(mean, rows), np.abs(rows @ closed), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rest", [1e-2, 1e-6, 1e-9, 1e-12])
def test_fact_1_the_diagonal_loses_no_digit_where_the_mean_is_nearly_one_hot(rest):
    mean = np.array([1 - rest, rest / 4, rest * 3 / 4])
    c = plain.exactly(mean)
    with localcontext(prec=plain.DIGITS):
        exact = 1 - c[0] ** 2 / sum(entry**2 for entry in c)
    (diagonal, complement, *_), _ = step_numbers(mean, mean, 0)
    assert diagonal == pytest.approx(float(exact), rel=1e-14, abs=0)
    assert complement == pytest.approx(float(1 - exact), rel=1e-14, abs=0)


def test_fact_1_nothing_of_size_n_by_n_is_built():
    n = 20_000
    rows, labels = simplex(9, n), np.arange(9) % 3
    tracemalloc.start()
    try:
        doors.fit(rows, labels, remove=[0, 1]).apply(rows)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * n * 8  # a hundred vectors, where a matrix has 20,000


@pytest.mark.parametrize(("network", "n_removed"), [("cifar10", 4), ("cifar100", 40)])
def test_facts_2_and_3_results_sum_to_1_and_no_entry_is_0(network, n_removed, request):
    logits, labels = request.getfixturevalue(network)
    rows = plain.softmax(logits)
    ours = doors.fit(rows, labels, remove=range(n_removed)).apply(rows)
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-14)
    assert ours.min() > 0  # clamping results at zero would leave ties, and no ranking
    assert ours.max() <= 1


@pytest.mark.parametrize("rest", [1e-3, 1e-16, 1e-20, 1e-100, 1e-280])
def test_fact_4_no_digit_is_lost_where_the_removed_label_holds_nearly_all(rest):
    reference, labels = simplex(12, 3), np.arange(12) % 3
    row = np.array([1 - rest, rest / 8, rest * 7 / 8])
    references = [plain.exactly(y) for y in reference[labels == 0]]
    exact = plain.apply_exactly(plain.exactly(row), plain.fit_exactly([references], [0], 3))
    ours = doors.fit(reference, labels, remove=[0]).apply(row[None])[0]
    np.testing.assert_allclose(ours, [float(p) for p in exact], rtol=1e-14)
    mask = doors.fit(reference, remove=[0], method="mask").apply(row[None])[0]
    np.testing.assert_allclose(mask, [1 / 8, 7 / 8], rtol=1e-15)


@pytest.mark.parametrize("rest", [1e-3, 1e-12, 1e-16, 1e-20, 1e-100, 1e-270])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_fact_4_no_digit_is_lost_over_several_labels(kind, rest):
    # The shares give the last label nothing, so its entry is the rest of the input's.
    fitted = OutputFilter(
        classes_in=(0, 1, 2, 3),
        plan=[0, 1],
        means=[[0, 0, 1, 0], [0, 0.5, 0.25, 0.25]],
        shares=[[0, 0, 1, 0], [0, 0, 0.5, 0]],
        counts=(1, 1),
        kind=kind,
    )
    half, quarter, one, nothing = Decimal("0.5"), Decimal("0.25"), Decimal(1), Decimal(0)
    steps = [
        (0, [nothing, nothing, one, nothing], [nothing, one, nothing]),
        (0, [half, quarter, quarter], [half, nothing]),
    ]
    row = np.array([0.5, 0.5 - 3 * rest, rest, 2 * rest])
    if kind == "logits":
        row = np.log(row)
        exact = plain.apply_exactly(plain.softmax_exactly(row), steps)
    else:
        exact = plain.apply_exactly(plain.exactly(row), steps)
    ours = fitted.apply(row[None])[0]
    np.testing.assert_allclose(ours, np.array(exact, dtype=float), rtol=1e-13)


@pytest.mark.parametrize("rest", [1e-10, 1e-17, 1e-20, 1e-100, 1e-280])
@pytest.mark.parametrize("own", [0.0, 1e-30, 1e-9, 1e-5])
@pytest.mark.parametrize("n_others", [2, 40])
def test_fact_4_no_digit_is_lost_where_a_residual_is_next_to_all(own, rest, n_others):
    # The first label's mean holds next to nothing of the label itself, and its share gives all to
    # the second label: the row keeps only the part that the first residual leaves.
    spread = [0.25, 0.25] + [0.0] * (n_others - 2)
    means = [[own, 1 - own, 0, 0, *spread[2:]], [0, 0.5, *spread]]
    shares = [[0, 1, 0, 0, *spread[2:]], [0, 0, *spread]]
    row = [1, 0, rest, 0, *spread[2:]]
    steps = [
        (0, plain.exactly(mean[at:]), plain.exactly(share[at + 1 :]))
        for at, mean, share in zip(range(2), means, shares, strict=True)
    ]
    exact = plain.apply_exactly(plain.normalised_exactly(row), steps)
    fitted = OutputFilter(
        classes_in=range(2 + n_others), plan=[0, 1], means=means, shares=shares, counts=(1, 1)
    )
    ours = fitted.apply([row])[0]
    np.testing.assert_allclose(ours, np.array(exact, dtype=float), rtol=1e-13)


def test_fact_4_what_a_residual_leaves_is_not_lost():
    fitted = doors.fit([[0, 1, 0, 0], [0, 0.5, 0.25, 0.25]], [0, 1], remove=[0, 1])
    ours = fitted.apply([[1, 0, 1e-17, 0]])
    np.testing.assert_allclose(ours, [[5 / 6, 1 / 6]], rtol=1e-15)


@pytest.mark.parametrize(
    ("rows", "share"),
    [
        ([[0.7, 0.1, 0.15, 0.05]], [0, 1 / 3, 1 / 2, 1 / 6]),  # a single row
        (np.eye(4)[[0, 0, 0]], [0, 1 / 3, 1 / 3, 1 / 3]),  # one-hot rows
        (np.eye(4)[[2, 2]], [0, 0, 1, 0]),  # rows all on another label
    ],
)
def test_fact_5_rows_without_a_direction_share_by_their_mean(rows, share):
    found = doors.fit(rows, [0] * len(rows), remove=[0]).shares[0]
    np.testing.assert_allclose(found, share, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n", [3, 10, 1000])
def test_fact_5_identical_reference_rows_give_no_direction(n, dtype):
    row = simplex(1, n).astype(dtype).astype(np.float64)
    rows = np.repeat(row, 7, axis=0).astype(dtype)
    share = doors.fit(rows, np.zeros(7, int), remove=[0]).shares[0]
    np.testing.assert_allclose(share[1:], row[0, 1:] / row[0, 1:].sum(), rtol=1e-12)


def test_fact_5_rows_at_rounding_level_do_not_count():
    common, other = np.array([0.7, 0.1, 0.1, 0.1]), np.array([0.1, 0.3, 0.5, 0.1])
    mean = 0.75 * common + 0.25 * other
    # This row is a multiple of the mean, so its residual is rounding noise.
    rows = np.array([common, common, common, other, mean])
    informative = rows[:4]
    away = informative - np.outer(informative @ mean / (mean @ mean), mean)
    away = np.abs(away) / np.abs(away).sum(axis=1, keepdims=True)
    share = doors.fit(rows, np.zeros(5, int), remove=[0]).shares[0]
    np.testing.assert_allclose(share[1:], away.mean(axis=0)[1:], rtol=1e-12)


def test_fact_6_the_share_takes_the_place_of_a_row_that_has_nothing_left():
    rows, labels = simplex(20, 4), np.arange(20) % 4
    fitted = doors.fit(rows, labels, remove=[0])
    expected = fitted.shares[0, 1:] / fitted.shares[0].sum()
    np.testing.assert_allclose(fitted.apply(np.eye(4)[[0]])[0], expected, rtol=1e-14)
    logits = np.array([[3.0, -np.inf, -np.inf, -np.inf]])
    fitted = doors.fit(np.log(rows), labels, remove=[0], kind="logits")
    np.testing.assert_allclose(fitted.apply(logits)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("row", [[0.4, 0, 0.6, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 0, 0]])
@pytest.mark.parametrize("removed", [[0, 2], [2, 0], [2, 1, 0]])
def test_fact_6_agrees_with_plain_over_several_labels(row, removed):
    rows, labels = simplex(25, 5), np.arange(25) % 5
    assert_as_plain(rows, labels, removed, np.array([row], dtype=float), atol=1e-14)


@pytest.mark.parametrize(
    ("network", "removed"),
    [
        ("cifar10", [0]),
        ("cifar10", [0, 4, 7, 9]),
        ("cifar10", [0, 2, 3, 4, 6, 7, 9]),
        ("cifar100", list(range(20))),
        ("cifar100", list(range(60))),
    ],
)
def test_fact_7_osr_is_within_3_percent_of_mask_on_real_networks(network, removed, request):
    logits, labels = request.getfixturevalue(network)
    half = np.arange(len(labels)) % 2 == 0
    kept = np.delete(np.arange(logits.shape[1]), removed)
    scored = ~half & np.isin(labels, kept)
    truth = np.searchsorted(kept, labels[scored])
    accuracy, loss, held_out = {}, {}, {}
    for method in ("osr", "mask"):
        fitted = doors.fit(logits[half], labels[half], remove=removed, method=method, kind="logits")
        held_out[method] = fitted.apply(logits[~half])
        rows = fitted.apply(logits[scored])
        accuracy[method] = (rows.argmax(axis=1) == truth).mean()
        loss[method] = log_loss(rows, truth)
    assert accuracy["osr"] == pytest.approx(accuracy["mask"], rel=0.03)
    assert loss["osr"] == pytest.approx(loss["mask"], rel=0.03)
    assert np.abs(held_out["osr"] - held_out["mask"]).max() > 0.01  # close, and not the same


@pytest.mark.parametrize(("network", "n_removed"), [("cifar10", 1), ("cifar100", 60)])
def test_fact_10_a_temperature_lowers_the_log_loss(network, n_removed, request):
    logits, labels = request.getfixturevalue(network)
    half = np.arange(len(labels)) % 2 == 0
    scored = ~half & (labels >= n_removed)
    arguments = {"remove": range(n_removed), "kind": "logits"}
    raw = doors.fit(logits[half], labels[half], **arguments)
    calibrated = doors.fit(logits[half], labels[half], calibrate=True, **arguments)
    before, after = raw.apply(logits[scored]), calibrated.apply(logits[scored])
    truth = labels[scored] - n_removed
    assert raw.temperature == 1
    assert log_loss(after, truth) < log_loss(before, truth)


# Logits


@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize("removed", [[0], [9, 7, 4, 0]])
def test_logits_give_what_their_softmax_gives(cifar10, removed, method):
    logits, labels = cifar10
    rows = plain.softmax(logits)
    by_logits = doors.fit(logits, labels, remove=removed, method=method, kind="logits")
    by_rows = doors.fit(rows, labels, remove=removed, method=method)
    np.testing.assert_allclose(by_logits.apply(logits), by_rows.apply(rows), rtol=1e-9, atol=1e-12)


def exact_from_logits(reference, labels, removed, logits):
    references = [
        [plain.softmax_exactly(y) for y in reference[labels == label]] for label in removed
    ]
    steps = plain.fit_exactly(references, removed, reference.shape[1])
    rows = [plain.apply_exactly(plain.softmax_exactly(z), steps) for z in logits]
    return np.array(rows, dtype=float)


@pytest.mark.parametrize("removed", [[0], [3, 0], [0, 1, 2]])
def test_logits_are_exact_where_a_softmax_underflows(removed):
    rng = np.random.default_rng(5)
    reference, labels = rng.normal(scale=4, size=(25, 5)), np.arange(25) % 5
    logits = np.array(
        [
            [600.0, 0.5, -0.25, 1.0, 2.0],
            [550.0, 1.0, -1.0, 549.0, 0.0],
            [0.0, -300.0, 300.0, 299.0, -299.0],
            [-300.0, -300.0, -300.0, 300.0, -300.0],
            [300.0, -300.0, 300.0, 300.0, -298.0],
            [37.0, 0.0, -np.inf, 1.0, 2.0],
            [-np.inf, 0.0, -np.inf, -np.inf, -3.0],
            [5.0, 600.0, -30.0, -np.inf, -31.0],
        ]
    )
    exact = exact_from_logits(reference, labels, removed, logits)
    ours = doors.fit(reference, labels, remove=removed, kind="logits").apply(logits)
    np.testing.assert_allclose(ours, exact, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_beyond_a_lead_that_hides_all_else_nothing_changes(dtype):
    rng = np.random.default_rng(5)
    reference, labels = rng.normal(scale=4, size=(25, 5)), np.arange(25) % 5
    fitted = doors.fit(reference, labels, remove=[0], kind="logits")
    logits = np.array([[lead, 0.5, -0.25, 1.0, 2.0] for lead in (600, 1e4, 1e30)], dtype=dtype)
    result = fitted.apply(logits)
    np.testing.assert_allclose(
        result[1:], result[[0, 0]], rtol=1e-6 if dtype == np.float32 else 1e-12
    )


@pytest.mark.parametrize("scale", [10, 100, 300])
@pytest.mark.parametrize("n", [5, 40])  # side by side, and one by one
def test_float32_logits_lose_no_label_that_decides(n, scale):
    # With several removed labels far apart, one of them may be all that is left of another.
    rng = np.random.default_rng(n)
    reference, labels = rng.normal(scale=3, size=(20 * n, n)), np.arange(20 * n) % n
    fitted = doors.fit(reference, labels, remove=range(n // 2), kind="logits")
    logits = rng.uniform(-scale, scale, size=(1000, n)).astype(np.float32)
    exact = fitted.apply(logits.astype(np.float64))
    np.testing.assert_allclose(fitted.apply(logits), exact, rtol=0, atol=1e-6)


@pytest.mark.parametrize("n", [6, 40])
def test_float32_logits_lose_no_removed_label_behind_one_that_is_masked(n):
    reference = np.zeros((30, n))
    reference[:, 1] = np.linspace(0.4, 0.6, 30)
    reference[:, 5] = 1 - reference[:, 1]
    fitted = doors.fit(reference, [1] * 30, remove=[0, 1])  # the first without rows
    fitted = doors.with_kind(fitted, "logits")
    logits = np.full(n, -200, dtype=np.float32)
    logits[:5] = 0, -87.5, -78, -78, -79
    exact = fitted.apply(logits.astype(np.float64))
    np.testing.assert_allclose(fitted.apply(logits), exact, rtol=0, atol=1e-7)


def test_reference_logits_are_exact_where_a_softmax_underflows():
    rng = np.random.default_rng(6)
    reference, labels = rng.normal(scale=3, size=(12, 4)), np.arange(12) % 4
    reference[labels == 0, 0] += 60
    reference[labels == 1] *= 50
    logits = rng.normal(scale=3, size=(6, 4))
    exact = exact_from_logits(reference, labels, [0, 1], logits)
    ours = doors.fit(reference, labels, remove=[0, 1], kind="logits").apply(logits)
    np.testing.assert_allclose(ours, exact, rtol=1e-9)


@pytest.mark.parametrize("method", ["osr", "mask"])
def test_an_equal_shift_of_all_logits_changes_nothing(cifar10, method):
    logits, labels = cifar10
    fitted = doors.fit(logits, labels, remove=[3, 5], method=method, kind="logits")
    shifted = fitted.apply(logits + 1024)
    np.testing.assert_allclose(shifted, fitted.apply(logits), rtol=1e-10)


def test_minus_infinity_is_a_probability_of_zero():
    rows, labels = simplex(20, 4), np.arange(20) % 4
    given = np.array([[0.5, 0.0, 0.5, 0.0], [0.0, 0.25, 0.0, 0.75], [0.0, 1.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(given)
    by_rows = doors.fit(rows, labels, remove=[1, 0])
    by_logits = doors.fit(np.log(rows), labels, remove=[1, 0], kind="logits")
    np.testing.assert_allclose(by_logits.apply(logits), by_rows.apply(given), rtol=1e-12)


def test_logits_of_the_largest_numbers_give_probabilities():
    largest = np.finfo(np.float64).max
    logits = np.array([[largest, largest, -largest, -largest], [-largest, 0, largest, 0]])
    rows, labels = simplex(20, 4), np.arange(20) % 4
    for method in ("osr", "mask"):
        fitted = doors.fit(np.log(rows), labels, remove=[0, 1], method=method, kind="logits")
        ours = fitted.apply(logits)
        np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-14)
        assert ours.min() >= 0


# Types, sizes, and the mass removed


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_dtype_is_kept_and_only_the_result_is_rounded_to_it(dtype):
    rows, labels = simplex(30, 6).astype(dtype), np.arange(30) % 6
    wide = rows.astype(np.float64)
    wide /= wide.sum(axis=1, keepdims=True)
    exact = plain.apply(wide, plain.fit(rows_of_each(wide, labels, [0, 3]), [0, 3], 6))
    ours = doors.fit(rows, labels, remove=[0, 3]).apply(rows)
    assert ours.dtype == dtype
    # Half a unit in the last place: one rounding, and nothing before it.
    np.testing.assert_allclose(ours, exact, rtol=0.5001 * np.finfo(dtype).eps, atol=3e-8)


def test_a_hundred_thousand_labels():
    n = 100_000
    rows = simplex(6, n)
    ours = doors.fit(rows, [n - 1, n - 1, 7, 7, 0, 0], remove=[n - 1, 7]).apply(rows)
    assert ours.shape == (6, n - 2)
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-12)
    kept = rows[:, np.delete(np.arange(n), [n - 1, 7])]
    # One label of a hundred thousand moves next to nothing.
    np.testing.assert_allclose(ours, kept / kept.sum(axis=1, keepdims=True), atol=1e-3)


@pytest.mark.parametrize("input_kind", ["probabilities", "logits"])
def test_removed_mass_is_the_sum_over_the_removed_labels(cifar10, input_kind):
    logits, labels = cifar10
    rows = plain.softmax(logits)
    given = logits if input_kind == "logits" else rows
    fitted = doors.fit(given, labels, remove=[8, 1, 3], kind=input_kind)
    np.testing.assert_allclose(
        doors.run(fitted, given).removed_mass, rows[:, [8, 1, 3]].sum(axis=1), rtol=1e-10
    )
