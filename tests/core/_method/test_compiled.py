"""Compiled loops and plain NumPy give the same numbers and errors, and keep the same promises."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given

import doors
import plain
from processes import run_python
from simplex import cases
from unlabel import UnlabelError
from unlabel._method import compiled

needs_compiled = pytest.mark.skipif(not compiled.is_available(), reason="they were not built")


def in_plain_numpy(work):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "is_available", lambda: False)
        return work()


def saturated(n_rows, n, removed, dtype, seed=0):
    """Make rows like a network's: nearly all mass on one label, often a removed one."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(n_rows, n))
    truth = rng.integers(n, size=n_rows)
    truth[::2] = rng.choice(removed, size=len(truth[::2]))
    logits[np.arange(n_rows), truth] += rng.normal(10, 4, size=n_rows)
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows[::5, removed[0]] = 0.0
    rows[::5] *= 1e-7 / rows[::5].sum(axis=1, keepdims=True)
    rows[::5, removed[0]] = 1 - 1e-7
    return (rows / rows.sum(axis=1, keepdims=True)).astype(dtype), truth


SIZES = [(10, 1), (10, 7), (40, 3), (40, 25)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_errors_against_the_step_by_step_form(both_ways, n, k, dtype, tolerance):
    removed = np.random.default_rng(1).permutation(n)[:k].tolist()
    rows, _ = saturated(200, n, removed, dtype)
    reference, _ = saturated(6 * k, n, removed, np.float64, seed=2)
    labels = np.repeat(removed, 6)
    steps = plain.fit(np.split(reference, k), removed, n)
    wide = rows.astype(np.float64)
    wide /= wide.sum(axis=1, keepdims=True)
    exact = plain.apply(wide, steps)
    ours = doors.fit(reference, labels, remove=removed).apply(rows)
    assert ours.dtype == dtype
    assert np.abs(ours - exact).max() < tolerance


@needs_compiled
@given(cases())
def test_both_ways_give_the_same_numbers(case):
    fitted, rows = case
    apart = np.abs(fitted.apply(rows) - in_plain_numpy(lambda: fitted.apply(rows))).max()
    assert apart <= max(1e-12, np.finfo(rows.dtype).eps)


@needs_compiled
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("n", "k"), [*SIZES, (300, 150)])
def test_both_ways_fit_the_same_file(tmp_path, n, k, dtype):
    removed = np.random.default_rng(1).permutation(n)[:k].tolist()
    rows, truth = saturated(8 * n, n, removed, np.float64)
    truth[:k] = removed
    for kind, some in (("probabilities", rows), ("logits", np.log(rows + 1e-30))):
        options = {"remove": removed, "kind": kind, "calibrate": n == 300}
        arguments = some.astype(dtype), truth
        saved = [tmp_path / "compiled", tmp_path / "plain"]
        doors.fit(*arguments, **options).save(saved[0])
        in_plain_numpy(partial(doors.fit, *arguments, **options)).save(saved[1])
        assert saved[0].read_bytes() == saved[1].read_bytes()


def broken(change):
    """Rows that are bad in several places: of a block, of a thread's chunk, of several chunks."""
    rows = np.full((900_000, 2), 0.5, dtype=np.float32)
    rows[[600_003, 600_005, 660_000, 880_000], 1] = change
    return rows


@pytest.mark.parametrize("change", [np.nan, np.inf, -np.inf, -0.1, 0.7, 1e30])
def test_the_first_bad_row_is_named_alike(both_ways, monkeypatch, change):
    monkeypatch.setenv("UNLABEL_THREADS", "4")
    fitted = doors.fit(np.eye(2), [0, 1], remove=[0])
    with pytest.raises(UnlabelError, match=r"^Row 600003: "):
        fitted.apply(broken(change))


@pytest.mark.parametrize("n_rows", [10, 40_000])  # one block of rows, and several
@pytest.mark.parametrize("n", [4, 40])  # side by side, and one by one
@pytest.mark.parametrize("entries", [[0.5, -0.5, 0.5, 0.5], [0.5, 0.25, 0.2, 0], [np.nan, 1, 0, 0]])
def test_a_calibrated_filter_names_a_bad_row(both_ways, n_rows, n, entries):
    fitted = doors.at_temperature(doors.fit(np.eye(n), range(n), remove=[0]), 2.0)
    rows = np.full((n_rows, n), 1 / n)
    rows[3] = rows[-1] = np.pad(entries, (0, n - 4))
    with pytest.raises(UnlabelError, match=r"^Row 3: "):
        fitted.apply(rows)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [4, 40])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_an_infinite_logit_of_a_removed_label_is_found(both_ways, dtype, n, temperature):
    fitted = doors.at_temperature(doors.mask(range(n), [0], kind="logits"), temperature)
    rows = np.zeros((10, n), dtype=dtype)
    rows[2, 0], rows[[3, 8], 0] = 100, np.inf  # a lead alone is fine
    with pytest.raises(UnlabelError, match=r"^Row 3: .* label 0 is infinite"):
        fitted.apply(rows)


def test_negative_zero_is_a_probability(both_ways):
    fitted = doors.fit(np.eye(3), [0, 1, 2], remove=[0])
    np.testing.assert_array_equal(fitted.apply([[-0.0, 0.25, 0.75]]), [[0.25, 0.75]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "k"), [(10, 7), (100, 3)])
def test_a_row_does_not_depend_on_its_thread_or_tile(both_ways, n, k, dtype):
    removed = list(range(k))
    rows, truth = saturated(1_500_000 // n, n, removed, dtype)
    fitted = doors.fit(rows[:5000], truth[:5000], remove=removed)
    result = fitted.apply(rows)
    at = np.random.default_rng(0).permutation(len(rows))[:3001]
    np.testing.assert_array_equal(fitted.apply(rows[at]), result[at])
    singles = np.vstack([fitted.apply(rows[i : i + 1]) for i in at[:50]])
    np.testing.assert_array_equal(singles, result[at[:50]])


AT_EXIT = """
import atexit
import numpy as np
import doors
rows = np.full((600_000, 2), 0.5)
fitted = doors.fit(rows[:2], [0, 1], remove=[0])
atexit.register(lambda: print(fitted.apply(rows).sum()))
"""


def test_an_interpreter_that_shuts_down_filters_too():
    done = run_python(AT_EXIT)
    assert done.stdout == "600000.0\n", done.stderr


# In a process of its own, whose memory is not yet fragmented, so that arrays lie close together.
FITTED_AGAIN = """
import numpy as np
import doors
rng = np.random.default_rng(0)
for n, k in [(4, 2), (10, 3), (40, 5), (600, 10)]:
    rows = rng.dirichlet(np.full(n, 0.3), 80)
    others, results = [], set()
    for turn in range(60):
        others.append(np.empty(rng.integers(1, 4000)))
        fitted = doors.fit(rows, np.arange(len(rows)) % min(n, 20), remove=range(k))
        results.add((fitted.means.tobytes(), fitted.shares.tobytes(), fitted.apply(rows).tobytes()))
        if turn % 7 == 0:
            others.clear()
    assert len(results) == 1, (n, k, len(results))
"""


def test_where_arrays_lie_in_memory_changes_no_digit():
    done = run_python(FITTED_AGAIN)
    assert done.returncode == 0, done.stderr


def test_threads_may_apply_a_filter_at_once(both_ways):
    rows, truth = saturated(150_000, 10, [0, 1], np.float32)
    fitted = doors.fit(rows[:2000], truth[:2000], remove=[0, 1])
    expected = fitted.apply(rows)
    with ThreadPoolExecutor(4) as threads:
        for result in threads.map(fitted.apply, [rows] * 8):
            np.testing.assert_array_equal(result, expected)


def test_many_labels_of_a_large_label_space(both_ways):
    n, k = 20_000, 20
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(n, 0.1), k)
    removed = rng.permutation(n)[:k]
    fitted = doors.fit(rows, removed, remove=removed)
    result = fitted.apply(rows.astype(np.float32))
    assert result.shape == (k, n - k)
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=1e-4)


def test_rows_at_the_edge_of_the_tolerance_are_filtered_or_refused(both_ways):
    rows = np.random.default_rng(0).dirichlet(np.ones(3), 500)
    fitted = doors.fit(rows, np.arange(500) % 3, remove=[0])
    rounded = rows.round(3)  # their sums are off by a thousandth, more or less a bit
    assert np.abs(rounded.sum(axis=1) - 1).max() > 0.00099
    for temperature in (1.0, 1.7):
        result = doors.at_temperature(fitted, temperature).apply(rounded)
        np.testing.assert_allclose(result.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [3, 20])  # rows side by side, and one by one
def test_what_is_left_of_a_row_may_be_next_to_nothing(both_ways, n):
    nothing = [0.0] * (n - 3)
    reference = [[1, 1e-200, 1e-270, *nothing], [0.9, 0.1, 0, *nothing]]
    fitted = doors.fit(reference, [2, 0], remove=[2, 0])
    result = fitted.apply([[1, 0, 1e-260, *nothing]])
    np.testing.assert_allclose(result.sum(), 1, rtol=1e-12)
    assert result[0, 0] == 1


def test_tiny_entries_that_decide_keep_their_digits(both_ways):
    reference = [
        [3.5e-80, 3.5e-100, 1, 1.75e-100],
        [0, 0, 1, 6.7e-99],
        [1.7e-99, 8e-100, 1, 0],
        [0, 0, 1, 4.5e-100],
    ]
    fitted = doors.fit(reference, [2, 2, 0, 0], remove=[2, 0])
    np.testing.assert_allclose(
        fitted.apply([[4.8e-99, 0, 1, 0]]), [[0.22826783, 0.77173217]], rtol=1e-7
    )


@pytest.mark.parametrize("beside", [1e-7, 1e-9, 1e-11])
def test_saturated_reference_rows_give_exact_shares(both_ways, beside):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        others = rng.dirichlet(np.ones(9), 3) * beside * rng.uniform(0.5, 1.5, (3, 1))
        rows = np.hstack([1 - others.sum(axis=1, keepdims=True), others])
        ((_, _, share),) = plain.fit_exactly([[plain.exactly(row) for row in rows]], [0], 10)
        fitted = doors.fit(rows, [0] * 3, remove=[0])
        np.testing.assert_allclose(fitted.shares[0, 1:], np.array(share, float), rtol=1e-12)
