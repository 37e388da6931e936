"""Promises that hold for every input on the simplex, whatever the method, type and order."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import doors
from simplex import DTYPES, cases
from unlabel import OutputFilter
from worlds import NUMBERS, ROWS

pytestmark = pytest.mark.usefixtures("both_ways")


def assert_probabilities(result, dtype):
    """Assert that rows sum to 1 as closely as their type allows.

    Rounding an entry moves it by at most half an eps of its size, or half the smallest
    subnormal number; the sums in float64 before that are off by about n of their own eps.
    """
    n, narrow = result.shape[1], np.finfo(dtype)
    assert result.dtype == dtype
    assert np.isfinite(result).all()
    assert (result >= 0).all()
    assert (result <= 1).all()  # scikit-learn's log_loss refuses a bit more
    tolerance = narrow.eps / 2 + n * narrow.smallest_subnormal / 2 + (n + 4) * 2.2e-16
    assert np.abs(result.sum(axis=1, dtype=np.float64) - 1).max(initial=0) <= tolerance


# Promise 1


@given(cases())
def test_every_result_is_a_probability_vector(case):
    fitted, rows = case
    result = fitted.apply(rows)
    assert result.shape == (len(rows), len(fitted.classes_out))
    assert_probabilities(result, rows.dtype)
    found = fitted.run(rows)
    np.testing.assert_array_equal(found.confidences, result)
    assert found.removed_mass.dtype == found.not_allowed.dtype == np.float64
    assert ((found.removed_mass >= 0) & (found.removed_mass <= 1)).all()


def near_certain(n_rows, n):
    return np.random.default_rng(0).dirichlet(np.full(n, 0.05), n_rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize(
    ("rows", "n_removed"),
    [
        *((np.eye(6), k) for k in (1, 2, 5)),
        *((near_certain(4000, 4), k) for k in (1, 2, 3)),
        (near_certain(200, 100), 99),
        (near_certain(2000, 1000), 200),
    ],
    ids=lambda rows: "x".join(map(str, np.shape(rows))) or str(rows),
)
def test_one_hot_and_near_certain_rows_give_probability_vectors(rows, n_removed, method, dtype):
    n, rows = rows.shape[1], rows.astype(dtype)
    removed = np.random.default_rng(1).permutation(n)[:n_removed]
    fitted = doors.fit(rows, np.arange(len(rows)) % n, remove=removed, method=method)
    assert_probabilities(fitted.apply(rows), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_two_labels_become_one_that_is_certain(kind, method, dtype):
    rows = np.array([[1, 0], [0, 1], [0.5, 0.5], [0.25, 0.75]], dtype=dtype)
    rows = rows * 20 if kind == "logits" else rows
    fitted = doors.fit(rows, [0, 1, 0, 1], remove=[0], method=method, kind=kind)
    np.testing.assert_array_equal(fitted.apply(rows), np.ones((4, 1), dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_subnormal_rest_gives_probability_vectors(dtype):
    least = np.finfo(dtype).smallest_subnormal
    rest = np.arange(1, 40, dtype=np.float64) * float(least)
    rows = np.stack([np.ones(39), rest, rest[::-1], np.zeros(39)], axis=1).astype(dtype)
    reference, labels = np.random.default_rng(0).dirichlet(np.ones(4), 16), np.arange(16) % 4
    for removed in ([0], [0, 1], [1, 0], [3, 0, 2]):
        fitted = doors.fit(reference, labels, remove=removed)
        assert_probabilities(fitted.apply(rows), dtype)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_no_rows_give_no_rows(kind):
    fitted = doors.fit(np.eye(3) * (9 if kind == "logits" else 1), range(3), remove=[1], kind=kind)
    result = fitted.apply(np.empty((0, 3), dtype=np.float32))
    assert (result.shape, result.dtype) == ((0, 2), np.float32)


# Promise 2


@given(cases(), st.randoms(use_true_random=False))
def test_a_row_does_not_depend_on_the_rows_beside_it(case, random):
    fitted, rows = case
    result = fitted.apply(rows)
    order = random.sample(range(len(rows)), len(rows))
    cut = random.randint(0, len(rows))
    np.testing.assert_array_equal(fitted.apply(rows[order]), result[order])
    np.testing.assert_array_equal(fitted.apply(np.vstack([rows, rows[order]]))[: len(rows)], result)
    chunks = [fitted.apply(rows[:cut]), fitted.apply(rows[cut:])]
    np.testing.assert_array_equal(np.vstack(chunks), result)
    singles = [fitted.apply(row[None]) for row in rows]
    np.testing.assert_array_equal(np.vstack(singles), result)


# Sizes around those of vector registers and loop unrolling, and one that needs many blocks.
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 129, 500])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("method", ["osr", "mask"])
def test_a_row_does_not_depend_on_its_block(n, kind, method):
    rng = np.random.default_rng(n)
    rows = rng.dirichlet(np.full(n, 0.3), 300) + 1e-12
    rows = np.log(rows) if kind == "logits" else rows / rows.sum(axis=1, keepdims=True)
    removed = rng.permutation(min(n, 100))[: (n + 1) // 2]
    fitted = doors.fit(rows, np.arange(300) % n, remove=removed, method=method, kind=kind)
    for temperature in (1.0, 1.7):
        tempered = doors.at_temperature(fitted, temperature)
        result = tempered.apply(rows)
        singles = np.vstack([tempered.apply(row[None]) for row in rows[::6]])
        np.testing.assert_array_equal(singles, result[::6])
        np.testing.assert_array_equal(tempered.apply(rows[7:60]), result[7:60])
        np.testing.assert_array_equal(tempered.apply(rows[::-1]), result[::-1])


@given(cases())
def test_inputs_are_never_written_to_whatever_their_layout(case):
    fitted, rows = case
    result = fitted.apply(rows)
    wide = np.repeat(np.repeat(rows, 2, axis=0), 3, axis=1)
    layouts = {
        "C": rows.copy(order="C"),
        "F": rows.copy(order="F"),
        "strided": wide[::2, ::3],
        "reversed": rows[::-1, ::-1].copy()[::-1, ::-1],
    }
    for given_rows in layouts.values():
        given_rows.flags.writeable = False
        before = given_rows.tobytes()
        np.testing.assert_array_equal(fitted.apply(given_rows), result)
        fitted.run(given_rows)
        assert given_rows.tobytes() == before


@pytest.mark.parametrize("method", ["osr", "mask"])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_fit_writes_to_none_of_its_inputs(kind, method):
    rows = np.random.default_rng(0).dirichlet(np.ones(4), 80)
    rows = np.asfortranarray(np.log(rows) if kind == "logits" else rows)
    labels, names = np.arange(80) % 4, np.array(["a", "b", "c", "d"])
    given_arrays = (rows, labels, names)
    before = [array.tobytes() for array in given_arrays]
    for array in given_arrays:
        array.flags.writeable = False
    fitted = doors.fit(
        rows, names[labels], classes=names, remove=names[[2, 0]], method=method, kind=kind
    )
    fitted.apply(rows)
    assert [array.tobytes() for array in given_arrays] == before


def test_a_read_only_memory_map_is_read(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    result = doors.fit(mapped, NUMBERS, remove=[0, 2]).apply(mapped)
    np.testing.assert_array_equal(result, doors.fit(ROWS, NUMBERS, remove=[0, 2]).apply(ROWS))
    assert type(result) is np.ndarray


def test_a_result_can_be_written_to_and_does_not_alias_its_input():
    rows = np.array([[0.5, 0.25, 0.25]])
    for method in ("osr", "mask"):
        result = doors.fit(rows, [0], remove=[], method=method).apply(rows)
        result[:] = 7.0
    np.testing.assert_array_equal(rows, [[0.5, 0.25, 0.25]])


# Promise 6


@given(cases())
@example((doors.fit(np.eye(2), [0, 1], remove=[]), np.eye(2)))
def test_saving_is_byte_reproducible_and_loading_is_bit_identical(tmp_path_factory, case):
    fitted, rows = case
    folder = tmp_path_factory.mktemp("filters")
    for name in ("one", "two"):
        fitted.save(folder / name)
    loaded = OutputFilter.load(folder / "one")
    loaded.save(folder / "three")
    assert len({path.read_bytes() for path in folder.iterdir()}) == 1
    np.testing.assert_array_equal(loaded.apply(rows), fitted.apply(rows))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_order_of_rows_changes_no_byte_and_500_of_a_label_count(tmp_path, dtype):
    rng = np.random.default_rng(0)
    truth = np.arange(3000) % 3
    rows = ((rng.dirichlet(np.ones(3), 3000) + np.eye(3)[truth]) / 2).astype(dtype)
    for at, order in enumerate([np.arange(3000), rng.permutation(3000), np.arange(3000)[::-1]]):
        fitted = doors.fit(rows[order], truth[order], remove=[2, 0])
        assert fitted.counts == (500, 500)
        fitted.save(tmp_path / str(at))
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_negative_zeros_are_zeros_in_the_choice_of_rows():
    rng = np.random.default_rng(0)
    rows = rng.multinomial(3, [0.4, 0.3, 0.2, 0.1], 1200) / 3
    negative = np.where((rows == 0) & (rng.random(rows.shape) < 0.5), -0.0, rows)
    one, other = (doors.fit(some, np.arange(1200) % 2, remove=[0]) for some in (rows, negative))
    assert (one, one.counts) == (other, (500,))
