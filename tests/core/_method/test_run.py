"""Which backend runs, and in how many threads."""

import numpy as np
import pytest

import doors
from processes import run_python
from unlabel import UnlabelError
from unlabel._method import backend, compiled
from unlabel._method.chain import Task
from unlabel._method.threads import thread_limit


@pytest.mark.parametrize("wrong", ["0", "-1", "two", ""])
def test_a_wrong_number_of_threads_is_refused(monkeypatch, wrong):
    monkeypatch.setenv("UNLABEL_THREADS", wrong)
    with pytest.raises(UnlabelError, match=f"^UNLABEL_THREADS is '{wrong}': set it to a number"):
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
    filtered = backend.filter_rows(fitted.recipe, given, kind, with_mass=True)
    np.testing.assert_allclose(filtered.removed_mass, rows[:, [1, 4]].sum(axis=1), atol=1e-10)
    np.testing.assert_array_equal(filtered.rows, fitted.apply(given))


def test_rows_that_are_not_valid_become_nan(both_ways):
    rows = np.full((50, 4), 0.25)
    rows[7, 2], rows[11] = np.nan, [0.5, -0.5, 0.5, 0.5]
    recipe = doors.mask(range(4), [0]).recipe
    for some in (rows, np.tile(rows, (1, 10)) / 10):  # side by side, and one by one
        recipe = doors.mask(range(some.shape[1]), [0]).recipe
        filtered = backend.filter_rows(recipe, some, "probabilities", tolerance=1e-3)
        assert not filtered.all_valid
        bad = np.isnan(filtered.rows)
        assert np.flatnonzero(bad.all(axis=1)).tolist() == [7, 11]
        assert np.flatnonzero(bad.any(axis=1)).tolist() == [7, 11]


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
    task = Task(doors.mask(range(4), [0]).recipe, "probabilities")
    rows, out = np.full((3, 4), 0.25), np.empty((3, 2))
    with pytest.raises(ValueError, match="do not fit together"):
        compiled.filter_rows(task, rows, out, None)
    with pytest.raises(ValueError, match="do not fit together"):
        compiled.filter_rows(task, rows[:, :3].copy(), out, None)
