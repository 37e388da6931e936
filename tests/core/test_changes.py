"""Changes of labels against a plain oracle: loops over labels, on fractions and decimals."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import doors
import plain
import plain_plan
from unlabel import OutputFilter
from unlabel.filter import outcome_of_filter

pytestmark = pytest.mark.usefixtures("both_ways")

N_ROWS = 5
KINDS = ["probabilities", "logits"]


def labels_of(n):
    return [f"label {number}" for number in range(n)]


@st.composite
def changes_and_rows(draw, **options):
    """Draw labels, changes of them, and rows: probabilities that no rounding spoils."""
    labels = labels_of(draw(st.integers(2, 12)))
    changes = draw(plain_plan.changes_of(labels, **options))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.dirichlet(np.full(len(labels), draw(st.sampled_from([0.05, 0.5, 5.0]))), N_ROWS)
    # Some entries are 0, but none is lost in the noise of others.
    rows[rows < 1e-9] = 0.0
    rows[0] = np.eye(len(labels))[draw(st.integers(0, len(labels) - 1))]
    return labels, changes, rows / rows.sum(axis=1, keepdims=True)


def as_logits(rows):
    with np.errstate(divide="ignore"):
        return np.log(rows) + np.linspace(-3, 40, len(rows))[:, None]


def saved_and_loaded(fitted, folder):
    fitted.save(folder / "filter")
    return OutputFilter.load(folder / "filter")


@given(changes_and_rows())
def test_mask_agrees_with_exact_fractions(tmp_path_factory, case):
    labels, changes, rows = case
    fitted = doors.mask(labels, changes)
    expected = [plain_plan.masked(changes, labels, [*map(Fraction, row)]) for row in rows]
    result = fitted.apply(rows)
    np.testing.assert_allclose(result, np.array(expected, dtype=float), rtol=0, atol=1e-12)
    assert fitted.classes_out == tuple(plain_plan.result_labels(changes, labels))
    assert fitted.removed == tuple(plain_plan.removed(changes))
    loaded = saved_and_loaded(fitted, tmp_path_factory.mktemp("filters"))
    assert loaded == fitted
    np.testing.assert_array_equal(loaded.apply(rows), result)


@given(changes_and_rows())
def test_mask_of_logits_agrees_with_decimals(case):
    labels, changes, rows = case
    logits = as_logits(rows)
    fitted = doors.mask(labels, changes, kind="logits")
    exact = [plain_plan.masked(changes, labels, plain.softmax_exactly(row)) for row in logits]
    np.testing.assert_allclose(fitted.apply(logits), np.array(exact, float), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=settings.default.max_examples // 3)  # decimal numbers are slow
@given(changes_and_rows(), st.sampled_from([1.0, 0.6, 2.5]))
def test_the_method_agrees_with_decimals(tmp_path_factory, kind, case, temperature):
    labels, changes, rows = case
    gone = [labels.index(label) for label in plain_plan.removed(changes)]
    reference = np.random.default_rng(0).dirichlet(np.ones(len(labels)), 4 * len(gone))
    given_rows, given_reference = rows, reference
    exactly = plain.normalised_exactly
    if kind == "logits":
        given_rows, given_reference = as_logits(rows), np.log(reference) - 7
        exactly = plain.softmax_exactly
    truth = [labels[column] for column in np.repeat(gone, 4)]
    if not gone:
        given_reference, truth = given_rows, [labels[0]] * len(rows)
    fitted = doors.fit(given_reference, truth, classes=labels, plan=changes, kind=kind)
    fitted = doors.at_temperature(fitted, temperature)
    exact = [exactly(row) for row in given_reference]
    references = [exact[4 * step : 4 * step + 4] for step in range(len(gone))]
    steps = plain.fit_exactly(references, gone, len(labels))
    expected = []
    for row in given_rows:
        calm = plain_plan.at_temperature(exactly(row), temperature)
        expected.append(plain_plan.redistributed(changes, labels, calm, steps))
    result = fitted.apply(given_rows)
    np.testing.assert_allclose(result, np.array(expected, dtype=float), rtol=0, atol=1e-12)
    loaded = saved_and_loaded(fitted, tmp_path_factory.mktemp("filters"))
    assert loaded == fitted
    np.testing.assert_array_equal(loaded.apply(given_rows), result)


@given(changes_and_rows(with_splits=False))
def test_merging_first_and_removing_first_agree_for_mask(case):
    labels, changes, rows = case
    gone = plain_plan.removed(changes)
    rows = rows[rows[:, [label not in gone for label in labels]].sum(axis=1) > 1e-6]
    merging = doors.mask(labels, {k: to for k, to in changes.items() if to is not None})
    removing = doors.mask(merging.classes_out, gone)
    both = doors.mask(labels, changes)
    assert removing.classes_out == both.classes_out
    result = removing.apply(merging.apply(rows))
    np.testing.assert_allclose(both.apply(rows), result, rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [40, 300])
def test_many_labels_agree_with_a_dense_matrix(n, kind, dtype):
    rng = np.random.default_rng(n)
    labels = labels_of(n)
    changes = dict.fromkeys(labels[::7])
    changes |= {label: f"group {rng.integers(9)}" for label in labels[1::7] + labels[4::7]}
    changes |= {label: {"group 0": 0.25, labels[5]: 0.5, label: 0.25} for label in labels[2::21]}
    rows = rng.dirichlet(np.full(n, 0.2), 70)
    given_rows = (np.log(rows + 1e-12) if kind == "logits" else rows).astype(dtype)
    fitted = doors.mask(labels, changes, kind=kind)
    matrix = np.zeros((n, len(fitted.classes_out)))
    for row, label in enumerate(labels):
        for to, weight in plain_plan.parts_of(changes, label):
            matrix[row, fitted.classes_out.index(to)] = weight
    wide = given_rows.astype(np.float64)
    wide = np.exp(wide) if kind == "logits" else wide
    expected = wide @ matrix
    expected /= expected.sum(axis=1, keepdims=True)
    tolerance = 1e-6 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(fitted.apply(given_rows), expected, rtol=0, atol=tolerance)


def test_more_parts_than_labels():
    parts = {f"part {number}": 1 / 64 for number in range(64)}
    fitted = doors.mask(["a", "b"], {"a": parts})
    result = fitted.apply([[0.5, 0.5]])
    assert fitted.classes_out == (*parts, "b")
    np.testing.assert_allclose(result, [[1 / 128] * 64 + [0.5]], rtol=1e-15)


def test_one_label_that_all_others_go_to_is_certain():
    rows = np.random.default_rng(0).dirichlet(np.full(50, 0.1), 400)
    for dtype in (np.float16, np.float32, np.float64):
        fitted = doors.mask(range(50), dict.fromkeys(range(50), "all"))
        np.testing.assert_array_equal(fitted.apply(rows.astype(dtype)), np.ones((400, 1)))


# What an answer means after a change


def test_an_answer_has_changed_if_it_is_not_the_destination_of_the_old_one():
    changes = {"gone": None, "old": "new", "a": "b", "s": {"b": 0.5, "part": 0.5}}
    fitted = doors.mask(["gone", "old", "a", "b", "s", "same"], changes)
    assert fitted.classes_out == ("new", "b", "part", "same")
    before, after = np.divmod(np.arange(6 * 4), 4)
    unchanged = {("old", "new"), ("a", "b"), ("b", "b"), ("s", "b"), ("s", "part")}
    unchanged.add(("same", "same"))
    found = outcome_of_filter(fitted).has_changed(before, after)
    for changed, old, new in zip(found.tolist(), before, after, strict=True):
        assert changed == ((fitted.classes_in[old], fitted.classes_out[new]) not in unchanged)


def test_mass_that_went_to_other_labels_is_not_removed():
    fitted = doors.mask(["a", "b", "c"], {"a": None, "b": "other"})
    np.testing.assert_allclose(fitted.run([[0.5, 0.25, 0.25]]).removed_mass, [0.5])
