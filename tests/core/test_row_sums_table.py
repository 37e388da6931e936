"""What a probability row is: one rule, in the pass that filters, compiled and in NumPy."""

import numpy as np
import pytest

import doors
from row_sums import CLASSES, DTYPES, ROWS, TOLERANCE, VALID, expected, filters
from unlabel import UnlabelError

FILTERS = filters()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FILTERS)
def test_rows_are_filtered_or_refused_by_their_sums(both_ways, kind, dtype, name):
    fitted, (row, words) = FILTERS[kind], ROWS[name]
    given = np.array([ROWS["1"][0]] * 3 + [row], dtype=dtype)
    # Wide rows take another way through the loops: labels that have nothing are put beside.
    wide = np.hstack([given, np.zeros((4, 30), dtype=dtype)])
    beside = doors.mask([*CLASSES, *range(30)], {"cat": None} if kind == "mask" else {})
    for each, rows in ((fitted, given), (doors.at_temperature(beside, fitted.temperature), wide)):
        if name in VALID:
            found = each.run(rows)
            sums = found.confidences.sum(axis=1, dtype=np.float64)
            np.testing.assert_allclose(sums, 1, rtol=0, atol=TOLERANCE[dtype])
            assert np.isfinite(found.removed_mass).all()
            continue
        for door in (each.apply, each.run, each.answer):
            with pytest.raises(UnlabelError, match=rf"^Row 3: .*{words}") as caught:
                door(rows)
            assert caught.value.row == 3
    if name in VALID:
        np.testing.assert_allclose(
            fitted.apply(given)[3], expected(fitted, row, dtype), rtol=0, atol=TOLERANCE[dtype]
        )


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_fit_follows_the_same_rule(name, dtype):
    row, words = ROWS[name]
    rows = np.array([ROWS["1"][0]] * 3 + [row], dtype=dtype)
    if words is None:
        assert doors.fit(rows, ["cat"] * 4, classes=CLASSES, remove=["cat"]).counts == (4,)
    else:
        with pytest.raises(UnlabelError, match=f"^Row 3: .*{words}"):
            doors.fit(rows, ["cat"] * 4, classes=CLASSES, remove=["cat"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_edges_of_the_hundredth_are_in_and_beyond_them_out(both_ways, dtype):
    # Entries rounded to hundredths sum to 0.99 and 1.01, and a bit beside these.
    for row in ([0.33, 0.33, 0.33, 0], [0.34, 0.34, 0.33, 0]):
        for fitted in FILTERS.values():
            assert np.isfinite(fitted.apply(np.array([row], dtype=dtype))).all()
    for row in ([0.33, 0.33, 0.329995, 0], [0.34, 0.34, 0.330005, 0]):
        for fitted in FILTERS.values():
            with pytest.raises(UnlabelError, match="more than 1% from 1"):
                fitted.apply(np.array([row], dtype=dtype))


LOGITS = {
    "usual": ([2.0, -1.0, 0.5, 0.0], None),
    "minus infinity": ([2.0, -np.inf, 0.5, -np.inf], None),
    "all minus infinity": ([-np.inf] * 4, "every label is minus infinity"),
    "NaN": ([2.0, np.nan, 0.5, 0.0], "'dog' is NaN"),
    "infinite": ([2.0, np.inf, 0.5, 0.0], "'dog' is infinite"),
}


@pytest.mark.parametrize("name", LOGITS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FILTERS)
def test_logits_are_finite_or_minus_infinity_and_not_all_of_a_row(both_ways, kind, dtype, name):
    fitted = doors.with_kind(FILTERS[kind], "logits")
    row, words = LOGITS[name]
    rows = np.array([[1, 2, 3, 4], row], dtype=dtype)
    if words is None:
        np.testing.assert_allclose(fitted.apply(rows).sum(axis=1), 1, rtol=0, atol=TOLERANCE[dtype])
    else:
        with pytest.raises(UnlabelError, match=rf"^Row 1: it is not a vector of logits: .*{words}"):
            fitted.apply(rows)
