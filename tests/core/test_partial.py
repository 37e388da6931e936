"""Rows that name only some labels, against all that the rest of their mass can do."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plain_plan import OLD, changes_of, masked, parts_of, result_labels, retired
from unlabel import OutputFilter
from unlabel._partial import filter_partial
from unlabel.errors import RowError
from unlabel.fitting import fit_filter

NAN = np.nan
# How far the sum of a whole row may be from 1.
ROUNDING = Fraction(1, 10**6)


@st.composite
def cases(draw, *, with_splits=True):
    """Draw changes, a whole row, the labels of it that are named, and if they are the largest."""
    changes = draw(changes_of(OLD, with_splits=with_splits))
    entry = st.integers(0, 20) | st.sampled_from([0, 1, 1, 400])
    weights = draw(st.lists(entry, min_size=6, max_size=6).filter(any))
    whole = [weight / sum(weights) for weight in weights]
    order, k = draw(st.permutations(OLD)), draw(st.integers(1, 6))
    largest = draw(st.booleans())
    if largest:
        order.sort(key=lambda label: -whole[OLD.index(label)])
    return changes, whole, set(order[:k]), largest


def hide(whole, named):
    return np.array([[x if label in named else NAN for x, label in zip(whole, OLD, strict=True)]])


def filtered(changes, row, largest):
    partial = filter_partial(OutputFilter.mask(OLD, changes), row, largest=largest)
    return [values[0] for values in partial]


def placements(row, largest, off=Fraction(0)):
    """List the whole rows with the hidden mass in the corners: the others lie between them.

    Both the result and the lead of a label over another are largest and smallest in corners. The
    hidden mass may be off by a little.
    """
    named = [Fraction(x) for x in row if not np.isnan(x)]
    unnamed = [column for column, x in enumerate(row) if np.isnan(x)]
    hidden = max(Fraction(0), 1 - sum(named) + off)
    cap = min(named) if largest else Fraction(1)
    rows = []
    for order in permutations(unnamed) if largest else [[column] for column in unnamed] or [[]]:
        whole, left = [Fraction(0) if np.isnan(x) else Fraction(x) for x in row], hidden
        for column in order:
            whole[column] = min(left, cap)
            left -= whole[column]
        rows.append(whole)
    return rows


def named_results(changes, named):
    reached = {to for label in named for to, _ in parts_of(changes, label)}
    return [to in reached for to in result_labels(changes, OLD)]


def reach(changes, rows):
    results = [masked(changes, OLD, row) for row in rows]
    return [(min(values), max(values)) for values in zip(*results, strict=True)]


def kept_mass(changes, whole, named):
    gone = retired(changes)
    labels = [label for label in named if label not in gone]
    return sum(Fraction(whole[OLD.index(label)]) for label in labels)


# The ends


@given(cases())
def test_the_whole_row_lies_between_the_ends(case):
    changes, whole, named, largest = case
    lower, upper, top, *_ = filtered(changes, hide(whole, named), largest)
    if top < 0:
        assert np.isnan([lower, upper]).all()
        assert kept_mass(changes, whole, named) == 0
        return
    is_named = named_results(changes, named)
    np.testing.assert_array_equal(~np.isnan(lower), is_named)
    np.testing.assert_array_equal(~np.isnan(upper), is_named)
    exact = masked(changes, OLD, [*map(Fraction, whole)])
    for low, value, high, known in zip(lower, exact, upper, is_named, strict=True):
        if known:
            assert low - 1e-12 <= value <= high + 1e-12
            assert 0 <= low <= high <= 1


@given(cases())
def test_every_place_of_the_hidden_mass_is_between_the_ends(case):
    changes, whole, named, largest = case
    row = hide(whole, named)
    lower, upper, top, *_ = filtered(changes, row, largest)
    assume(top >= 0)
    ends = reach(changes, placements(row[0], largest))
    for low, (least, most), high in zip(lower, ends, upper, strict=True):
        if not np.isnan(low):
            assert low - 1e-12 <= least
            assert most <= high + 1e-12


@given(cases(with_splits=False))
def test_without_splits_the_ends_are_reached(case):
    changes, whole, named, largest = case
    row = hide(whole, named)
    lower, upper, top, *_ = filtered(changes, row, largest)
    assume(top >= 0)
    gone = sum(Fraction(whole[OLD.index(label)]) for label in named & set(retired(changes)))
    # Rounding decides about what the retired labels leave where they have most of the row.
    off = ROUNDING if gone > Fraction(1, 2) else Fraction(0)
    rows = [r for each in (-off, 0, off) for r in placements(row[0], largest, each)]
    for low, (least, most), high in zip(lower, reach(changes, rows), upper, strict=True):
        if not np.isnan(low):
            assert least <= low + 1e-12
            assert high - 1e-12 <= most


def test_the_ends_of_an_example():
    # ant and bee are retired; 0.1 is hidden, on bee or on emu
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog", "emu"], ["ant", "bee"])
    row = np.array([[0.2, NAN, 0.4, 0.3, NAN]])
    partial = filter_partial(fitted, row)
    np.testing.assert_allclose(partial.lower, [[0.4 / 0.8, 0.3 / 0.8, NAN]], rtol=1e-14)
    np.testing.assert_allclose(partial.upper, [[0.4 / 0.7, 0.3 / 0.7, NAN]], rtol=1e-14)
    assert partial.top == [0]
    assert partial.certain == [True]  # though the ends are not separate
    np.testing.assert_allclose(partial.removed_mass, [0.2], rtol=1e-14)
    np.testing.assert_allclose(partial.removed_mass_upper, [0.3], rtol=1e-14)


def test_the_smallest_score_bounds_the_others_of_a_top_k_answer():
    labels = ["ant", "bee", "cat", "dog", "emu", "fox"]
    fitted = OutputFilter.mask(labels, ["ant", "bee"])
    row = np.array([[NAN, NAN, 0.75, 0.0625, NAN, NAN]])  # 0.1875 is hidden
    partial = filter_partial(fitted, row, largest=True)
    least, most = 0.75 / (1 - 0.0625), 0.75 / (1 - 0.125)
    np.testing.assert_allclose(partial.lower[0, 0], least, rtol=1e-14)
    np.testing.assert_allclose(partial.upper[0, 0], most, rtol=1e-14)
    np.testing.assert_allclose(partial.removed_mass_upper, [0.125], rtol=1e-14)


def test_a_split_label_that_is_not_named_gives_each_its_weight_at_most():
    # 0.25 is hidden, on ant, which is retired, or on bee, of which cat gets a quarter
    changes = {"ant": None, "bee": {"cat": 0.25, "dog": 0.75}}
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog"], changes)
    partial = filter_partial(fitted, np.array([[NAN, NAN, 0.5, 0.25]]))
    own = 0.25 * np.array([0.25, 0.75])
    named = np.array([0.5, 0.25])
    np.testing.assert_allclose(partial.upper, [(named + own) / (0.75 + own)], rtol=1e-14)
    assert (partial.lower <= named / 0.75).all()
    assert partial.certain == [True]  # 0.5 > 0.25 + 0.1875


def test_hidden_mass_that_rounding_adds_is_left_out():
    # the rest is 0.17, but no label has more than 0.15
    fitted = OutputFilter.mask(OLD, {})
    partial = filter_partial(fitted, np.array([[0.17, 0.17, 0.17, 0.17, 0.15, NAN]]), largest=True)
    expected = [[0.17 / 0.98] * 4 + [0.15 / 0.98, NAN]]
    np.testing.assert_allclose(partial.lower, expected, rtol=1e-14)
    np.testing.assert_allclose(partial.upper, expected, rtol=1e-14)


def test_the_ends_keep_their_order_and_are_at_most_1():
    for n in range(4, 60):
        rows = np.full((n - 3, n), 1 / n)
        for row, k in enumerate(range(3, n)):
            rows[row, k:] = NAN
        for changes in ({0: None, n - 1: None}, {1: "a"} | dict.fromkeys(range(2, n), "b")):
            partial = filter_partial(OutputFilter.mask(range(n), changes), rows, largest=True)
            known = ~np.isnan(partial.lower)
            assert (partial.lower <= partial.upper)[known].all()
            assert (partial.upper[known] <= 1).all()
    rows = np.random.default_rng(0).dirichlet(np.ones(40), 2000)
    rows[:, 0] = NAN
    partial = filter_partial(OutputFilter.mask(range(40), dict.fromkeys(range(40), "all")), rows)
    np.testing.assert_allclose(partial.lower, 1, rtol=1e-14)
    assert (partial.lower <= partial.upper).all()
    assert (partial.upper <= 1).all()


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float16, 4e-3), (np.float32, 1e-6), (np.float64, 1e-6)]
)
def test_a_softmax_in_a_coarse_type_need_not_sum_to_1(dtype, tolerance, largest, k):
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=6, size=(3000, 10)).astype(np.float32)
    whole = np.exp(logits - logits.max(axis=1, keepdims=True))
    whole = (whole / whole.sum(axis=1, keepdims=True)).astype(dtype)
    fitted = OutputFilter.mask(range(10), [0, 4, 7, 9])
    whole = whole[whole[:, [1, 2, 3, 5, 6, 8]].any(axis=1)]
    smallest = np.sort(whole, axis=1)[:, -k, None]
    partial = filter_partial(fitted, np.where(whole >= smallest, whole, NAN), largest=largest)
    kept = whole[:, [1, 2, 3, 5, 6, 8]].astype(np.float64)
    expected = kept / kept.sum(axis=1, keepdims=True)
    known = ~np.isnan(partial.lower)
    assert (partial.lower <= partial.upper)[known].all()
    assert (partial.lower <= expected + tolerance)[known].all()
    assert (expected <= partial.upper + tolerance)[known].all()
    assert 0.2 < partial.certain.mean() < 1
    np.testing.assert_array_equal(
        expected.argmax(axis=1)[partial.certain], partial.top[partial.certain]
    )


# The answer


@given(cases())
def test_certain_answers_are_those_of_every_whole_row(case):
    changes, whole, named, largest = case
    row = hide(whole, named)
    _, _, top, certain, *_ = filtered(changes, row, largest)
    assume(certain)
    rows = [r for off in (-ROUNDING, 0, ROUNDING) for r in placements(row[0], largest, off)]
    for values in [masked(changes, OLD, r) for r in (*rows, [*map(Fraction, whole)])]:
        assert max(values) == values[top]
        assert values.count(max(values)) == 1


@given(cases(with_splits=False))
def test_answers_that_are_not_certain_can_be_others(case):
    changes, whole, named, _ = case
    row = hide(whole, named)
    _, _, top, certain, *_ = filtered(changes, row, largest=False)
    assume(top >= 0 and not certain)
    rows = [r for off in (-ROUNDING, ROUNDING) for r in placements(row[0], False, off)]
    results = [masked(changes, OLD, r) for r in rows]
    others = [max(values[:top] + values[top + 1 :], default=-1) for values in results]
    leads = [values[top] - other for values, other in zip(results, others, strict=True)]
    assert min(leads) <= ROUNDING  # closer labels count as tied


@given(cases())
def test_the_answer_has_the_largest_lower_end(case):
    changes, whole, named, largest = case
    lower, _, top, certain, *_ = filtered(changes, hide(whole, named), largest)
    if top < 0:
        assert not certain
    else:
        assert top == np.nanargmax(lower)


@pytest.mark.parametrize(
    ("row", "is_certain"),
    [
        ([0.5, 0.5, 0.0, 0.0], False),  # a whole row with a tie
        ([0.4, 0.4, NAN, 0.2], False),
        ([0.5, NAN, NAN, 0.2], True),
        ([0.5, NAN, NAN, 0.0], False),  # 0.5 may hide on one label
        ([0.5 + 2e-7, NAN, NAN, 0.0], False),  # the same, if the whole row sums to 1 + 4e-7
        ([0.5 + 2e-6, NAN, NAN, 0.0], True),
        ([2e-7, NAN, NAN, 1 - 2e-7], False),
        ([2e-6, NAN, NAN, 1 - 2e-6], True),
        ([0.25, 0.25 + 1e-9, 0.25, 0.25 - 1e-9], True),  # a whole row
    ],
)
def test_a_tie_is_not_certain(row, is_certain):
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog"], ["dog"])
    assert filter_partial(fitted, np.array([row])).certain == [is_certain]


def test_hidden_mass_that_can_only_be_the_answers_makes_it_certain():
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog"], {"cat": "bee", "dog": None})
    partial = filter_partial(fitted, np.array([[0.4, 0.3, NAN, 0.0], [0.4, 0.3, NAN, NAN]]))
    np.testing.assert_allclose(partial.lower, [[0.4, 0.6], [0.4, 3 / 7]], rtol=1e-14)
    np.testing.assert_allclose(partial.upper, [[0.4, 0.6], [4 / 7, 0.6]], rtol=1e-14)
    np.testing.assert_array_equal(partial.top, [1, 1])
    np.testing.assert_array_equal(partial.certain, [True, False])


def test_an_answer_is_not_certain_if_the_result_may_round_to_a_tie():
    first = np.linspace(0.21, 0.24, 999, dtype=np.float32)
    second = np.nextafter(first, np.float32(1))
    rest = 1 - first - second - np.float32(0.4)
    whole = np.stack([first, second, np.full_like(first, 0.4), rest], axis=1)
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog"], ["cat"])
    answers = fitted.apply(whole).argmax(axis=1)
    assert 100 < np.count_nonzero(answers == 0) < 900  # where the result of both is the same
    whole[:, 3] = NAN
    partial = filter_partial(fitted, whole)
    np.testing.assert_array_equal(partial.certain & (partial.top != answers), False)


def test_a_result_of_one_label_is_certain():
    fitted = OutputFilter.mask(["ant", "bee", "cat"], {"ant": None, "bee": "cat"})
    partial = filter_partial(fitted, np.array([[NAN, 0.2, NAN], [0.9, NAN, NAN], [1.0, 0, 0]]))
    np.testing.assert_array_equal(partial.top, [0, -1, 0])
    np.testing.assert_array_equal(partial.certain, [True, False, True])
    np.testing.assert_array_equal(partial.lower, [[1.0], [NAN], [1.0]])


# Whole rows, and those of which nothing is left


@given(changes_of(OLD), st.lists(st.integers(0, 20), min_size=6, max_size=6).filter(any))
def test_whole_rows_have_the_result_of_the_filter(changes, weights):
    whole = np.array([weights]) / sum(weights)
    fitted = OutputFilter.mask(OLD, changes)
    partial = filter_partial(fitted, whole)
    expected = fitted.apply(whole)
    np.testing.assert_allclose(partial.lower, expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(partial.lower, partial.upper)
    np.testing.assert_array_equal(partial.top, expected.argmax(axis=1))
    np.testing.assert_array_equal(partial.removed_mass, fitted.removed_mass(whole))
    np.testing.assert_array_equal(partial.removed_mass, partial.removed_mass_upper)


@pytest.mark.parametrize("method", ["osr", "literal"])
def test_filters_of_other_methods_that_retire_nothing_do(method):
    fitted = fit_filter([[0.5, 0.3, 0.2]], classes=OLD[:3], remove=[], method=method)
    partial = filter_partial(fitted, np.array([[0.5, 0.3, NAN], [0.5, 0.3, 0.2]]))
    np.testing.assert_allclose(partial.lower, [[0.5, 0.3, NAN], [0.5, 0.3, 0.2]], rtol=1e-14)


@pytest.mark.parametrize(
    "row",
    [
        [0.75, NAN, NAN, NAN],
        [0.75, 0.25, NAN, NAN],
        [0.75, 0.25, 0.0, NAN],  # nothing is left to divide by
    ],
)
def test_rows_that_name_only_retired_labels_are_marked(row):
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog"], ["ant", "bee"])
    partial = filter_partial(fitted, np.array([row, [0.125, NAN, 0.5, NAN]]))
    assert np.isnan([partial.lower[0], partial.upper[0]]).all()
    np.testing.assert_array_equal(partial.top, [-1, 0])
    assert not partial.certain[0]
    assert partial.removed_mass[0] == np.nansum(row[:2])
    assert partial.removed_mass_upper[0] == 1.0
    assert partial.lower[1, 0] == 0.5 / 0.875


def test_a_row_that_sums_to_1_hides_nothing():
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog"], ["ant"])
    partial = filter_partial(fitted, np.array([[0.25, 0.5, 0.25, NAN], [0.25, 0.501, 0.25, NAN]]))
    np.testing.assert_array_equal(partial.lower, partial.upper)
    np.testing.assert_allclose(partial.lower[0], [2 / 3, 1 / 3, NAN], rtol=1e-14)
    np.testing.assert_allclose(partial.lower[1, 0], 0.501 / 0.751, rtol=1e-14)
    assert partial.removed_mass[1] == 0.25 / 1.001
    merged = OutputFilter.mask(["ant", "bee", "cat", "dog"], {"ant": None, "dog": "cat"})
    partial = filter_partial(merged, np.array([[0.25, 0.501, 0.25, NAN]]))
    np.testing.assert_allclose(partial.upper, [[0.501 / 0.751, 0.25 / 0.751]], rtol=1e-14)


def test_rows_are_filtered_apart_and_not_written_to():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(200), 900).astype(np.float32)
    rows[rng.random(rows.shape) < 0.5] = NAN
    before = rows.copy()
    fitted = OutputFilter.mask(range(200), {0: None, 1: None, 2: 3, 4: {5: 0.25, "new": 0.75}})
    together = filter_partial(fitted, rows)
    np.testing.assert_array_equal(rows, before)
    for row in (0, 326, 327, 328, 899):  # blocks have 327 rows
        alone = filter_partial(fitted, rows[row : row + 1])
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], many[row])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_coarser_types_have_the_ends_of_their_numbers(dtype):
    fitted = OutputFilter.mask(["ant", "bee", "cat", "dog"], {"ant": None, "cat": "dog"})
    rows = np.array([[0.1, 0.5, NAN, 0.2], [0.1, 0.5, 0.2, 0.2]], dtype=dtype)
    exact = filter_partial(fitted, rows.astype(np.float64))
    partial = filter_partial(fitted, rows)
    assert partial.lower.dtype == partial.upper.dtype == np.float32
    np.testing.assert_allclose(partial.lower, exact.lower, rtol=1e-6)
    np.testing.assert_allclose(partial.upper, exact.upper, rtol=1e-6)
    assert (partial.lower <= partial.upper).all()


def test_no_rows_have_no_ends():
    partial = filter_partial(OutputFilter.mask(OLD, ["cat"]), np.empty((0, 6)))
    assert partial.lower.shape == (0, 5)


# Labels that the model does not have


OTHERS = ["The", "I", "..."]


@given(
    changes_of(OLD),
    st.lists(st.integers(0, 20), min_size=9, max_size=9).filter(any),
    st.permutations([*OLD, *OTHERS]),
    st.integers(1, 9),
    st.booleans(),
)
def test_other_labels_are_retired_labels(changes, weights, order, k, largest):
    labels = [*OLD, *OTHERS]
    mass = {label: Fraction(x, sum(weights)) for label, x in zip(labels, weights, strict=True)}
    if largest:
        order.sort(key=lambda label: -mass[label])
    named = order[:k]
    assume(not {*OLD}.isdisjoint(named))
    row = hide([float(mass[label]) for label in OLD], {*named} & {*OLD})
    elsewhere = np.array([float(sum(mass[label] for label in named if label in OTHERS))])
    lower, upper, top, certain, least, most = (
        values[0]
        for values in filter_partial(
            OutputFilter.mask(OLD, changes), row, elsewhere, largest=largest
        )
    )
    gone = {*retired(changes), *OTHERS}
    assert least - 1e-12 <= sum(mass[label] for label in gone) <= most + 1e-12
    assume(top >= 0)
    exact = masked(changes | dict.fromkeys(OTHERS), labels, [mass[label] for label in labels])
    for low, value, high in zip(lower, exact, upper, strict=True):
        if not np.isnan(low):
            assert low - 1e-12 <= value <= high + 1e-12
    if certain:
        assert exact.index(max(exact)) == top
        assert sorted(exact)[-2:][0] < max(exact) or len(exact) == 1


def test_any_number_of_other_labels_may_be_hidden():
    mask = OutputFilter.mask(["cat", "dog"], {})
    found = filter_partial(mask, np.array([[0.5, 0.1]]), np.array([0.1]), largest=True)
    np.testing.assert_allclose(found.lower, [[5 / 6, 1 / 6]])
    np.testing.assert_allclose(found.upper, [[5 / 6, 1 / 6]])
    assert found.removed_mass_upper == pytest.approx([0.4])
    np.testing.assert_array_equal(found.certain, [True])


def test_other_labels_count_in_the_sum():
    mask = OutputFilter.mask(["cat", "dog"], {})
    with pytest.raises(RowError, match=r"Row 1 sums to 1\.2, and the labels that it names cannot"):
        filter_partial(mask, np.array([[0.5, 0.2], [0.5, 0.2]]), np.array([0.2, 0.5]))


def test_short_decimals_are_taken_as_they_stand():
    mask = OutputFilter.mask(["cat", "dog", "fox", "owl"], ["cat", "owl"])
    found = filter_partial(mask, np.array([[0.7, 0.2, NAN, NAN], [0.9, 0.06, 0.03, NAN]]))
    # In the second row, the hidden mass has no other place than a retired label.
    np.testing.assert_allclose(found.lower, [[0.2 / 0.3, NAN], [2 / 3, 1 / 3]], rtol=1e-14)
    np.testing.assert_allclose(found.upper, [[1.0, NAN], [2 / 3, 1 / 3]], rtol=1e-14)
