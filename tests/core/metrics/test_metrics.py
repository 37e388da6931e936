import inspect
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plain_metrics as plain
from unlabel import LabelPlan, OutputFilter, UnlabelError, metrics

RETAINED = ["dog", "fox", "owl", "eel"]
REMOVED = ["cat", "bat"]
ALL = ["cat", "dog", "fox", "bat", "owl", "eel"]
OVERS = [None, ["owl", "dog"], REMOVED, ["owl", "cat", "a label without rows"]]


def random_rows(draw, n_rows, n_labels, dtype):
    """Make peaked rows, with zeros and ties."""
    rows = draw.dirichlet(np.full(n_labels, 0.3), n_rows)
    rows[draw.random(rows.shape) < 0.2] = 0.0
    rows[: n_rows // 3, 1] = rows[: n_rows // 3, 0]
    rows[rows.sum(axis=1) == 0] = 1.0
    return (rows / rows.sum(axis=1, keepdims=True)).astype(dtype)


@pytest.fixture(params=[np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


@pytest.fixture(params=[1, 7, 20_000], ids=lambda n: f"{n} rows")
def case(request, dtype):
    """Make confidences over the retained labels, and true labels of which some are retired."""
    draw = np.random.default_rng(request.param)
    labels = draw.choice(ALL, request.param)
    labels[0] = "owl"
    return random_rows(draw, request.param, len(RETAINED), dtype), labels


@pytest.fixture
def pair(case):
    """Make the outputs of two models on the same inputs."""
    rows, _ = case
    return rows, random_rows(np.random.default_rng(99), *rows.shape, rows.dtype)


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("over", OVERS)
def test_judged_metrics_agree_with_the_plain_ones(case, over):
    rows, labels = case
    listed, named = rows.tolist(), labels.tolist()
    judged = RETAINED if over is None else over
    arguments = rows, labels, RETAINED, over
    accuracy = plain.label_accuracy(listed, named, RETAINED, judged)
    assert_close(metrics.label_accuracy(*arguments), accuracy)
    assert_close(metrics.mean_accuracy(*arguments), plain.mean(accuracy))
    assert_close(metrics.coverage(*arguments), plain.coverage(listed, named, RETAINED, judged))
    assert_close(metrics.log_loss(*arguments), plain.log_loss(listed, named, RETAINED, judged))
    for bins in (1, 4, 15):
        actual = metrics.reliability_bins(*arguments, bins=bins)
        for mine, theirs in zip(
            actual, plain.reliability_bins(listed, named, RETAINED, judged, bins), strict=True
        ):
            assert_close(mine, theirs)
        assert_close(
            metrics.expected_calibration_error(*arguments, bins=bins),
            plain.expected_calibration_error(listed, named, RETAINED, judged, bins),
        )
    assert_close(
        metrics.destination_matrix(rows, labels, RETAINED, judged),
        plain.destination_matrix(listed, named, RETAINED, judged),
    )


def test_divergences_agree_with_the_plain_ones(pair):
    p, q = pair
    assert_close(metrics.jensen_shannon(p, q), plain.jensen_shannon(p.tolist(), q.tolist()))
    for epsilon in (1e-30, metrics.EPSILON, 1e-3):
        assert_close(
            metrics.kl_divergence(p, q, epsilon=epsilon),
            plain.kl_divergence(p.tolist(), q.tolist(), epsilon),
        )


def test_rearranging_metrics_agree_with_the_plain_ones(dtype):
    rows = random_rows(np.random.default_rng(3), 3000, len(ALL), dtype)
    rows[0] = np.eye(len(ALL))[ALL.index("cat")]
    after = random_rows(np.random.default_rng(4), 3000, len(RETAINED), dtype)
    kept = metrics.on_retained(rows, ALL, ["eel", "dog"])
    assert kept.dtype == dtype
    expected = np.array(plain.on_retained(rows.tolist(), ALL, ["eel", "dog"]))
    np.testing.assert_allclose(kept, expected, atol=np.finfo(dtype).eps)
    assert_close(
        metrics.removed_mass(rows, ALL, REMOVED), plain.removed_mass(rows.tolist(), ALL, REMOVED)
    )
    changed = metrics.top_label_changed(rows, ALL, after, RETAINED)
    assert changed.tolist() == plain.top_label_changed(rows.tolist(), ALL, after.tolist(), RETAINED)


# Dyadic entries sum to 1 exactly, so that no rounding decides on which side of a bin's edge
# a row falls, and make many ties and zeros.
sixteenths = st.lists(st.integers(0, 3), min_size=15, max_size=15).map(
    lambda columns: [(columns.count(j) + (j == 0)) / 16 for j in range(4)]
)


@given(
    table=st.lists(st.tuples(sixteenths, sixteenths, st.sampled_from(ALL)), min_size=1, max_size=9),
    over=st.one_of(st.none(), st.lists(st.sampled_from(ALL), unique=True)),
    bins=st.sampled_from([1, 3, 8, 16]),
)
def test_ties_and_zeros(table, over, bins):
    rows, others, labels = (list(part) for part in zip(*table, strict=True))
    judged = RETAINED if over is None else over
    if not set(labels) & set(RETAINED + judged):
        with pytest.raises(UnlabelError, match="None of the true labels"):
            metrics.coverage(rows, labels, RETAINED, over)
        return
    for name, options in (
        ("label_accuracy", {}),
        ("coverage", {}),
        ("log_loss", {}),
        ("expected_calibration_error", {"bins": bins}),
    ):
        actual = getattr(metrics, name)(rows, labels, RETAINED, over, **options)
        assert_close(actual, getattr(plain, name)(rows, labels, RETAINED, judged, **options))
    assert_close(metrics.kl_divergence(rows, others), plain.kl_divergence(rows, others))
    assert_close(metrics.jensen_shannon(rows, others), plain.jensen_shannon(rows, others))


def test_scikit_learn_and_scipy_agree():
    judge = pytest.importorskip("sklearn.metrics")
    distance = pytest.importorskip("scipy.spatial.distance")
    special = pytest.importorskip("scipy.special")
    draw = np.random.default_rng(5)
    rows = draw.dirichlet(np.ones(4), 500)
    others = draw.dirichlet(np.ones(4), 500)
    labels = draw.integers(0, 4, 500)
    by_sklearn = judge.log_loss(labels, rows, labels=range(4))
    assert_close(metrics.log_loss(rows, labels, range(4)), by_sklearn)
    recall = judge.recall_score(labels, rows.argmax(axis=1), average=None)
    assert_close(metrics.label_accuracy(rows, labels, range(4)), recall)
    assert_close(metrics.kl_divergence(rows, others), special.rel_entr(rows, others).sum(axis=1))
    distances = distance.jensenshannon(rows, others, axis=1)
    assert_close(metrics.jensen_shannon(rows, others), distances**2)


def test_ranks_take_logits():
    logits = np.array([[-3.0, 7.0, 2.0], [5.0, -np.inf, -np.inf]])
    assert metrics.mean_accuracy(logits, [1, 0], [0, 1, 2]) == 1
    assert metrics.coverage(logits, [2, 1], [0, 1, 2]) == (1 / 3, 0.5)
    assert metrics.top_label_changed(logits, [0, 1, 2], logits, [0, 2, 1]).tolist() == [True, False]


def test_a_removed_label_is_never_predicted_and_never_covered():
    rows, labels = [[0.9, 0.1], [0.2, 0.8]], ["cat", "fox"]
    assert metrics.mean_accuracy(rows, labels, ["dog", "fox"], over=["cat"]) == 0
    assert metrics.coverage(rows, labels, ["dog", "fox"], over=["cat"]) == (np.inf, 0)
    assert metrics.coverage(rows, labels, ["dog", "fox"]) == (0, 0)


def test_nothing_to_judge_is_nan():
    rows, labels = np.empty((0, 2)), []
    assert np.isnan(metrics.label_accuracy(rows, labels, [0, 1])).all()
    assert np.isnan(metrics.coverage(rows, labels, [0, 1])).all()
    for metric in (metrics.mean_accuracy, metrics.log_loss, metrics.expected_calibration_error):
        assert np.isnan(metric(rows, labels, [0, 1]))
    assert metrics.kl_divergence(rows, rows).shape == metrics.jensen_shannon(rows, rows).shape
    assert np.isnan(metrics.ratio_to_seed_floor([], []))
    assert metrics.on_retained(rows, [0, 1], [1]).shape == (0, 1)
    assert metrics.removed_mass(rows, [0, 1], [1]).shape == (0,)


def test_kl_goes_from_the_outputs_to_the_reference():
    sure, unsure = [[1.0, 0.0]], [[0.5, 0.5]]
    assert_close(metrics.kl_divergence(sure, unsure), [np.log(2)])
    assert_close(metrics.kl_divergence(unsure, sure), [np.log(0.5) - np.log(metrics.EPSILON) / 2])


def test_divergences_of_equal_rows_are_0_and_of_disjoint_ones_extreme():
    rows = random_rows(np.random.default_rng(6), 1000, 50, np.float32)
    assert (metrics.kl_divergence(rows, rows) == 0).all()
    assert (metrics.jensen_shannon(rows, rows) == 0).all()
    nearly = rows.astype(np.float64) * (1 + 1e-9 * np.random.default_rng(7).random(rows.shape))
    assert (metrics.jensen_shannon(rows, nearly) < 1e-15).all()
    assert_close(metrics.jensen_shannon([[1, 0, 0]], [[0, 0.5, 0.5]]), [np.log(2)])
    denormal = [[5e-324, 1.0]]
    assert_close(metrics.jensen_shannon(denormal, [[0.0, 1.0]]), [0])


def test_rows_are_divided_by_their_sums():
    rows = np.array([[0.8004, 0.2001]])
    assert metrics.kl_divergence(rows, rows / rows.sum()) == 0
    assert_close(metrics.removed_mass(rows, [0, 1], [0]), rows[:, 0] / rows.sum())


def test_ratio_to_seed_floor():
    assert metrics.ratio_to_seed_floor([0.2, 0.4], [0.1, 0.1]) == pytest.approx(3)
    assert metrics.ratio_to_seed_floor([0.2], [0.0]) == np.inf


def test_confidences_that_come_true_have_no_calibration_error():
    sure = np.repeat([0.6, 0.7, 0.8, 0.9], 1000)
    right = np.concatenate([np.arange(1000) < 1000 * share for share in (0.6, 0.7, 0.8, 0.9)])
    rows, labels = np.column_stack([sure, 1 - sure]), np.where(right, 0, 1)
    assert metrics.expected_calibration_error(rows, labels, [0, 1]) == pytest.approx(0, abs=1e-12)
    too_sure = np.column_stack([sure + 0.05, 0.95 - sure])
    assert metrics.expected_calibration_error(too_sure, labels, [0, 1]) == pytest.approx(0.05)


def test_a_bin_holds_its_upper_edge():
    rows = [[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]
    assert metrics.reliability_bins(rows, [0, 0, 0], [0, 1], bins=4).n_rows.tolist() == [0, 1, 1, 1]


def test_on_retained_is_what_mask_gives(dtype):
    rows = random_rows(np.random.default_rng(8), 500, len(ALL), dtype)
    rows[0] = np.eye(len(ALL))[0]
    confidences, mass, _ = OutputFilter.from_plan(LabelPlan(REMOVED), classes=ALL).run(rows)
    np.testing.assert_array_equal(metrics.on_retained(rows, ALL, RETAINED), confidences)
    np.testing.assert_allclose(metrics.removed_mass(rows, ALL, REMOVED), mass, atol=1e-15)


def test_inputs_are_never_written_to(pair):
    p, q = pair
    labels = np.resize(RETAINED, len(p))
    for table in (p, q, labels):
        table.flags.writeable = False
    for metric in (metrics.label_accuracy, metrics.coverage, metrics.log_loss):
        metric(p, labels, RETAINED)
    metrics.expected_calibration_error(p, labels, RETAINED)
    metrics.destination_matrix(p, labels, RETAINED, ["dog"])
    metrics.kl_divergence(p, q)
    metrics.jensen_shannon(p, q)
    metrics.removed_mass(p, RETAINED, ["dog"])
    metrics.on_retained(p, RETAINED, ["dog"])
    metrics.top_label_changed(p, RETAINED, q, RETAINED)


def test_strings_and_whole_numbers_are_different_labels():
    rows = [[0.9, 0.1], [0.2, 0.8]]
    assert metrics.label_accuracy(rows, ["b", 1], ["b", 1]).tolist() == [1, 1]


@given(
    st.lists(st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)), min_size=1),
    st.lists(st.floats(-0.5, 1.5), max_size=5),
)
def test_the_share_of_unknown_is_counted(masses, thresholds):
    thresholds = [*thresholds, *masses[:3]]
    expected = [sum(mass > above for mass in masses) / len(masses) for above in thresholds]
    assert metrics.unknown_share(masses, thresholds).tolist() == expected
    assert np.isnan(metrics.unknown_share([], thresholds)).all()


ROWS = np.array([[0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.log_loss(ROWS, [0], [0, 1]), "one true label per row"),
        (lambda: metrics.log_loss(ROWS, [[0], [1]], [0, 1]), r"shape \(2, 1\): give one per row"),
        (lambda: metrics.log_loss(ROWS, ["0", "1"], [0, 1]), "such as '0', is among.* such as 0"),
        (lambda: metrics.log_loss(ROWS, [0, 1], [0, 1, 2]), r"shape \(2, 2\), not \(..., 3\)"),
        (lambda: metrics.log_loss(ROWS * 9, [0, 1], [0, 1]), "Row 0: it is not a prob"),
        (lambda: metrics.coverage(ROWS * np.nan, [0, 1], [0, 1]), "Row 0: .* NaN"),
        (lambda: metrics.coverage(ROWS, [0, 1], [0, 0]), "appears twice.*classes="),
        (lambda: metrics.coverage(ROWS, [0, 1], [0, 1], over="ab"), "given as str.*over="),
        (lambda: metrics.coverage(ROWS[:, :0], [0, 1], []), "a column per label"),
        (lambda: metrics.reliability_bins(ROWS, [0, 1], [0, 1], bins=0), "0 bins"),
        (lambda: metrics.kl_divergence(ROWS, ROWS[:1]), r"\(2, 2\) and \(1, 2\) .* same rows and"),
        (lambda: metrics.kl_divergence(ROWS, ROWS, epsilon=0), "0 has no logarithm"),
        (lambda: metrics.on_retained(ROWS, ["dog", "fox"], ["fx"]), "no label 'fx'.* 'fox'"),
        (lambda: metrics.removed_mass(ROWS, ["dog", "fox"], ["cat"]), "no label 'cat'"),
        (lambda: metrics.top_label_changed(ROWS, [0, 1], ROWS[:1], [0, 1]), "2 rows before and 1"),
    ],
)
def test_mistakes_get_one_clear_sentence(call, message):
    with pytest.raises(UnlabelError, match=message) as error:
        call()
    assert str(error.value).count(". ") == 0


def test_every_public_function_shows_an_example():
    public = [
        function
        for name in metrics.__all__
        if inspect.isfunction(function := getattr(metrics, name))
    ]
    assert len(public) == 15
    assert all(">>> " in inspect.getdoc(function) for function in public)


def test_the_metrics_need_numpy_alone():
    code = "import sys, unlabel.metrics; sys.exit(bool({'sklearn', 'scipy'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
