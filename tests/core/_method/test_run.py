"""How a recipe is executed: compiled or plain, in how many threads, in one pass."""

import numpy as np
import pytest

import doors
from processes import run_python
from unlabel import UnlabelError
from unlabel._method import compiled
from unlabel._method.run import run, thread_limit
from unlabel.filter import recipe_of


@pytest.mark.parametrize("wrong", ["0", "-1", "two", ""])
def test_a_wrong_number_of_threads_is_refused(monkeypatch, wrong):
    monkeypatch.setenv("UNLABEL_THREADS", wrong)
    with pytest.raises(UnlabelError, match=f"^UNLABEL_THREADS is '{wrong}'"):
        thread_limit()


@pytest.mark.skipif(not compiled.is_available(), reason="they were not built")
@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_number_of_threads_changes_no_bit(monkeypatch, threads):
    rows = np.random.default_rng(0).dirichlet(np.full(10, 0.2), 150_000)
    fitted = doors.fit(rows[:500], np.arange(500) % 10, remove=[3, 5])
    expected = fitted.apply(rows)
    monkeypatch.setenv("UNLABEL_THREADS", threads)
    np.testing.assert_array_equal(fitted.apply(rows), expected)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("method", ["osr", "mask"])
def test_the_removed_mass_comes_with_the_rows(both_ways, method, kind):
    rows = np.random.default_rng(0).dirichlet(np.full(6, 0.3), 200)
    fitted = doors.with_kind(
        doors.fit(rows, np.arange(200) % 6, remove=[4, 1], method=method), kind
    )
    given = np.log(rows + 1e-12) if kind == "logits" else rows
    found = fitted.run(given)
    np.testing.assert_allclose(found.removed_mass, rows[:, [1, 4]].sum(axis=1), atol=1e-10)
    np.testing.assert_array_equal(found.confidences, fitted.apply(given))


def test_rows_that_are_not_valid_become_nan(both_ways):
    rows = np.full((50, 4), 0.25)
    rows[7, 2], rows[11] = np.nan, [0.5, -0.5, 0.5, 0.5]
    for some in (rows, np.tile(rows, (1, 10)) / 10):  # side by side, and one by one
        recipe = recipe_of(doors.mask(range(some.shape[1]), [0]))
        found = run(recipe, some, "probabilities")
        assert found.first_bad == 7
        for bad in (np.isnan(found.rows).all(axis=1), np.isnan(found.rows).any(axis=1)):
            assert np.flatnonzero(bad).tolist() == [7, 11]
        assert np.flatnonzero(np.isnan(found.removed_mass)).tolist() == [7, 11]


@pytest.mark.parametrize("beside", [0, 30])  # labels: wide rows take another way
def test_logits_as_far_apart_as_numbers_can_be_keep_their_ratios(both_ways, beside):
    rows = np.hstack([[[1.7e308, -1e308, -1.7e308]], np.full((1, beside), -np.inf)])
    fitted = doors.mask(range(3 + beside), [0], kind="logits")
    assert fitted.apply(rows).tolist() == [[1.0, 0.0] + [0.0] * beside]


FALLBACK = """
import sys
sys.modules["unlabel._method.compiled._loops"] = None
import numpy as np
import doors
from unlabel._method import compiled
assert not compiled.is_available()
print(doors.fit(np.eye(3), [0, 1, 2], remove=[0]).apply([[0, 0.5, 0.5]]))
"""


def test_without_the_compiled_loops_numpy_does_the_work():
    done = run_python(FALLBACK)
    assert done.stdout == "[[0.5 0.5]]\n", done.stderr


@pytest.mark.skipif(not compiled.is_available(), reason="they were not built")
def test_arrays_that_do_not_fit_together_are_refused():
    recipe = recipe_of(doors.mask(range(4), [0]))
    rows, out = np.full((3, 4), 0.25), np.empty((3, 2))
    for some in (rows, rows[:, :3].copy()):
        with pytest.raises(ValueError, match="do not fit together"):
            compiled.filter_rows(recipe, "probabilities", some, out, np.empty(3))
