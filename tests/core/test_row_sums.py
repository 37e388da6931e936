"""Rows whose sums are not 1: rounded ones are let in, others are refused with the likely cause."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from unlabel import OutputFilter, UnlabelError, metrics
from unlabel.evaluation.trial import try_labels
from unlabel.fitting import fit_filter
from unlabel.validation import as_confidences, check_rows

LABELS = 77
TRUTH = np.arange(2000) % LABELS
# A confident model gives every other label so little that it is rounded to 0.
OTHERS = np.linspace(0.002, 0.4, 2000)[:, None]
EXACT = np.random.default_rng(0).dirichlet(np.full(LABELS, 9.0), size=2000) * OTHERS
EXACT += np.eye(LABELS)[TRUTH] * (1 - OTHERS)
ROUNDED = EXACT.round(4)
KINDS = {
    "float64": ROUNDED,
    "float32": ROUNDED.astype(np.float32),
    "float32 in float64": ROUNDED.astype(np.float32).astype(np.float64),
}


def refusal(rows, **options):
    with pytest.raises(UnlabelError) as caught:
        check_rows(np.asarray(rows), "probabilities", **options)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def in_sum_1(rows):
    return rows / rows.sum(axis=1, keepdims=True, dtype=np.float64)


# Rounding


@pytest.mark.parametrize("method", ["osr", "mask", "literal"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_77_labels_may_be_rounded_to_4_decimals(kind, method):
    rows = KINDS[kind]
    assert np.abs(rows.sum(axis=1, dtype=np.float64) - 1).max() > 1.1e-3
    fitted = fit_filter(rows, TRUTH, remove=[3, 40], method=method)
    expected = fit_filter(in_sum_1(rows), TRUTH, remove=[3, 40], method=method)
    np.testing.assert_allclose(fitted.means, expected.means, rtol=0, atol=1e-12)
    tolerance = 1e-6 if rows.dtype == np.float32 else 1e-12
    result = fitted.apply(rows)
    np.testing.assert_allclose(result, expected.apply(in_sum_1(rows)), rtol=0, atol=tolerance)
    mass = in_sum_1(rows)[:, [3, 40]].sum(axis=1)
    np.testing.assert_allclose(fitted.removed_mass(rows), mass, rtol=0, atol=1e-12)


def test_metrics_and_trials_take_rounded_rows():
    classes = range(LABELS)
    loss = -np.mean(np.log(in_sum_1(ROUNDED)[np.arange(2000), TRUTH]))
    assert metrics.log_loss(ROUNDED, TRUTH, classes) == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(
        metrics.kl_divergence(ROUNDED, EXACT), metrics.kl_divergence(in_sum_1(ROUNDED), EXACT)
    )
    trial = try_labels(ROUNDED, TRUTH, classes=classes, remove=[3])
    for candidate in trial.candidates.values():
        np.testing.assert_allclose(candidate.output().sum(axis=1), 1, rtol=0, atol=1e-12)


def rounding_explains(units, decimals, tolerance):
    """Tell whether entries, given in units of their last decimal, can be those of a rounded row."""
    entries = [Fraction(unit, 10**decimals) for unit in units]
    shown = next(d for d in range(2, 8) if all((x * 10**d).denominator == 1 for x in entries))
    total = sum(entries)
    moved = len(entries) if total < 1 else sum(x > 0 for x in entries)
    slack = Fraction(tolerance) + Fraction(moved, 2 * 10**shown)
    assume(abs(abs(total - 1) - slack) > 1e-6)  # at the edge a bit may decide
    return total > Fraction(1, 2) and abs(total - 1) <= slack


@st.composite
def units_of_rows(draw):
    """Entries in units of a decimal, with a sum near 1."""
    decimals, n = draw(st.integers(1, 5)), draw(st.integers(2, 60))
    one = 10**decimals
    weights = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any))
    units = [one * weight // sum(weights) for weight in weights]
    for at in draw(st.lists(st.integers(0, n - 1), max_size=n)):
        units[at] += 1
    units[0] += draw(st.integers(0, one // 4))
    return units, decimals


@given(units_of_rows(), st.sampled_from([(np.float32, 1.001e-3), (np.float64, 1.001e-3)]))
def test_what_half_a_unit_per_label_explains_is_let_in(case, kind):
    (units, decimals), (dtype, tolerance) = case, kind
    explained = rounding_explains(units, decimals, tolerance)
    rows = np.array([[unit / 10**decimals for unit in units]], dtype=dtype)
    if explained:
        check_rows(rows, "probabilities")
    else:
        refusal(rows)


@given(st.data(), st.integers(2, 7), st.sampled_from([np.float16, np.float32, np.float64]))
def test_every_rounded_row_that_keeps_half_of_its_mass_is_let_in(data, decimals, dtype):
    weights = data.draw(st.lists(st.floats(0, 1), min_size=2, max_size=90).filter(any))
    rows = (np.array([weights]) / sum(weights)).round(decimals)
    assume(rows.sum() > 0.51)
    check_rows(rows.astype(dtype), "probabilities")


def test_a_row_that_rounding_does_not_explain_is_named_wherever_it_is():
    rows = ROUNDED.copy()
    rows[1900, 5] += 0.01
    message = refusal(rows, first_row=1000)
    total = rows[1900].sum()
    assert message == (
        f"Row 2900 is not a probability vector: it sums to {total:.6g}, {total - 1:.2g} above 1 "
        "and more than rounding explains; give every label's confidence, or divide each row by its "
        "sum (--normalize)."
    )
    fitted = OutputFilter.mask(range(LABELS), [3])
    with pytest.raises(UnlabelError, match="Row 1900 "):
        fitted.apply(rows)


def test_rounding_lets_no_other_bad_row_in():
    for at, value in ((0, -0.0001), (1, np.nan), (2, np.inf)):
        rows = ROUNDED.copy()
        rows[7, at] = value
        assert refusal(rows).startswith("Row 7 ")


@pytest.mark.parametrize("row", [[0.0] * 200, [0.2, 0.2, *[0.0] * 198]])
def test_rows_that_were_cut_off_are_not_rounded(row):
    assert "it sums to 0" in refusal([row])


def test_entries_of_0_were_not_rounded_up():
    assert "0.05 above 1" in refusal([[0.65, 0.4, *[0.0] * 98]])
    check_rows(np.array([[0.55, 0.4, *[0.0] * 98]]), "probabilities")


def test_rounded_probabilities_are_not_logits():
    with pytest.raises(UnlabelError, match="The rows are probabilities, not logits"):
        fit_filter(ROUNDED, TRUTH, remove=[3], input="logits")


# Independent scores


SIGMOID = "look like independent (sigmoid) scores; unlabel is for labels that exclude each other"


def sigmoid_scores(shift):
    logits = np.random.default_rng(1).normal(shift, 2, size=(200, 8))
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shift", [-2, 0, 3])
def test_sigmoid_scores_are_called_so(shift, dtype):
    rows = sigmoid_scores(shift).astype(dtype)
    assert SIGMOID in refusal(rows)
    with pytest.raises(UnlabelError, match="as a softmax gives them"):
        OutputFilter.mask(range(8), [0]).apply(rows)
    with pytest.raises(UnlabelError, match="as a softmax gives them"):
        fit_filter(rows, np.arange(200) % 8, remove=[0])


def test_a_single_row_may_show_it():
    assert SIGMOID in refusal([[0.9, 0.8, 0.7]])
    assert SIGMOID not in refusal([[0.9, 0.2, 0.1]])


def test_other_mistakes_are_not_taken_for_sigmoid_scores():
    rows = np.random.default_rng(2).dirichlet(np.ones(5), size=100)
    one_bad = rows.copy()
    one_bad[3] = [0.9, 0.9, 0.9, 0, 0]
    another_column = np.column_stack([rows, np.linspace(0, 1, 100)])
    for wrong in (rows[:, :4], one_bad, another_column):
        assert "more than rounding explains; give every label's confidence" in refusal(wrong)
    assert "as percentages do" in refusal(100 * rows)
    assert "if these are logits" in refusal(np.log(rows) + 3)


# Normalising


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_normalising_divides_each_row_by_its_sum(dtype):
    rows = sigmoid_scores(0).astype(dtype)
    before = rows.copy()
    result = as_confidences(rows, "probabilities", normalize=True)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, in_sum_1(rows), rtol=np.finfo(dtype).eps, atol=1e-7)
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([0.0, 0.0, 0.0], "it sums to 0; give every label's confidence."),
        ([2.0, -1.0, 0.5], "the label 1 is -1; if these are logits"),
        ([np.nan, 1.0, 1.0], "the label 0 is NaN"),
        ([1.0, np.inf, 1.0], "the label 1 is infinite"),
        ([1e308, 1e308, 1e308], r"the label 0 is 1e\+308; if these are logits"),
    ],
)
def test_no_division_makes_these_rows_probabilities(row, sentence):
    with pytest.raises(UnlabelError, match=f"^Row 1 is not a probability vector: {sentence}"):
        as_confidences([[3.0, 4.0, 5.0], row], "probabilities", normalize=True)


def test_logits_are_not_divided():
    with pytest.raises(UnlabelError, match="--normalize is for probabilities, not logits"):
        as_confidences([[3.0, 4.0]], "logits", normalize=True)
