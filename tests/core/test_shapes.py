"""Confidences of any leading dimensions, and the true labels of tokens that have some."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from simplex import DTYPES, cases
from unlabel import OutputFilter, UnlabelError

pytestmark = pytest.mark.usefixtures("both_ways")
LABELS = ["O", "LOC", "PER", "ORG"]
TRUTH = np.random.default_rng(0).integers(4, size=(40, 5))
TOKENS = np.random.default_rng(1).dirichlet(np.ones(4), (40, 5)) / 2 + np.eye(4)[TRUTH] / 2
TOKENS[::4] = np.roll(TOKENS[::4], 1, axis=-1)
TAGS = np.array(LABELS)[TRUTH]


FLAT = TOKENS.reshape(200, 4)
GIVEN = {"classes": LABELS, "remove": ["LOC"]}


def fitted_filter(**options):
    return doors.fit(FLAT, TAGS.ravel(), **GIVEN | options)


# Applying


@given(cases(), st.lists(st.integers(0, 3), max_size=3), st.integers(0, 99))
def test_every_shape_gives_the_bits_of_single_rows(case, leading, seed):
    fitted, rows = case
    taken = np.random.default_rng(seed).integers(len(rows), size=leading)
    array = rows[taken]
    result = fitted.apply(array)
    assert result.shape == (*leading, len(fitted.classes_out))
    assert result.dtype == rows.dtype
    for at in np.ndindex(*leading):
        np.testing.assert_array_equal(result[at], fitted.apply(rows[taken[at]][None])[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["osr", "mask"])
def test_a_vector_and_every_layout_give_the_same(method, dtype):
    fitted, tokens = fitted_filter(method=method), TOKENS.astype(dtype)
    flat = fitted.apply(tokens.reshape(200, 4))
    wide = np.repeat(tokens, 2, axis=1)
    turned = np.ascontiguousarray(tokens.transpose(2, 0, 1)).transpose(1, 2, 0)
    for array in (tokens, np.asfortranarray(tokens), wide[:, ::2], turned):
        array.flags.writeable = False
        before = array.tobytes()
        result = fitted.apply(array)
        np.testing.assert_array_equal(result, flat.reshape(40, 5, 3))
        assert result.dtype == dtype
        assert array.tobytes() == before
    vector = fitted.apply(tokens[2, 3])
    assert vector.shape == (3,)
    np.testing.assert_array_equal(vector, flat[13])


@pytest.mark.parametrize("shape", [(0, 4), (0, 5, 4), (5, 0, 4), (2, 0, 3, 4), (1, 1, 1, 4)])
def test_leading_dimensions_may_be_empty(shape):
    array = np.full(shape, 0.25, dtype=np.float32)
    result = fitted_filter().apply(array)
    assert result.shape == (*shape[:-1], 3)
    assert result.dtype == np.float32


def test_allowed_labels_have_the_shape_of_the_result():
    fitted = fitted_filter()
    allow = np.random.default_rng(2).random((40, 5, 3)) < 0.5
    allow[..., 0] |= ~allow.any(axis=-1)
    result = fitted.apply(TOKENS, allow=allow)
    whole = fitted.apply(TOKENS)
    for at in np.ndindex(40, 5):
        kept = [value * int(may) for value, may in zip(whole[at], allow[at], strict=True)]
        np.testing.assert_allclose(result[at], [value / sum(kept) for value in kept], rtol=1e-15)
    lists = fitted.apply(TOKENS, allow=["O", "PER"])
    assert lists.shape == (40, 5, 3)
    assert not lists[..., 2].any()


@pytest.mark.parametrize("shape", [(), (5,), (6, 5, 2), (4, 6), (4, 1)])
def test_labels_lie_in_the_last_dimension(shape):
    with pytest.raises(UnlabelError, match=r"the shape \(.*\), not \(\.\.\., 4\): give one column"):
        fitted_filter().apply(np.full(shape, 0.25))


@pytest.mark.parametrize("door", ["apply", "run", "answer"])
def test_a_filter_applied_to_its_own_output_is_recognised(door):
    fitted = fitted_filter()
    with pytest.raises(UnlabelError, match=r"the 3 labels of the filter's result .* already"):
        getattr(fitted, door)(fitted.apply(TOKENS))


def test_a_bad_row_is_numbered_over_all_dimensions():
    tokens = TOKENS.copy()
    tokens[2, 3] = 0.5
    with pytest.raises(UnlabelError, match=r"^Row 13: it is not a probability vector"):
        fitted_filter().apply(tokens)


# Fitting


@pytest.mark.parametrize(("method", "calibrate"), [("osr", False), ("osr", True), ("mask", True)])
def test_tokens_are_fitted_as_their_rows_one_after_another(method, calibrate):
    options = {"method": method, "calibrate": calibrate}
    for tokens in (TOKENS, np.asfortranarray(TOKENS), TOKENS.tolist()):
        for tags in (TAGS, TAGS.tolist(), np.asfortranarray(TAGS), TAGS.astype(object)):
            assert doors.fit(tokens, tags, **GIVEN, **options) == fitted_filter(**options)


def test_tokens_of_no_label_are_skipped():
    tags = TAGS.astype(object)
    tags[1], tags[4, 2] = -100, None
    used = np.isin(tags, LABELS)
    expected = doors.fit(TOKENS[used], TAGS[used], calibrate=True, **GIVEN)
    assert doors.fit(TOKENS, tags, calibrate=True, **GIVEN) == expected
    with pytest.warns(UserWarning, match=r"^1 row without a true label and 5 rows of .*-100"):
        OutputFilter.fit(TOKENS, tags, **GIVEN, method="mask")


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        *((TOKENS, shape) for shape in [(5, 40), (40,), (40, 5, 1), ()]),
        *((FLAT, shape) for shape in [(199,), (200, 1), ()]),
    ],
)
def test_labels_of_another_shape_are_refused(rows, shape):
    with pytest.raises(UnlabelError, match=r"true labels.*: give one per row"):
        doors.fit(rows, np.resize(TAGS, shape), **GIVEN)


def test_a_mask_of_tokens_needs_no_labels():
    assert doors.fit(TOKENS, method="mask", **GIVEN) == doors.mask(LABELS, ["LOC"])
    assert doors.fit(TOKENS, remove=[1], method="mask").classes_in == (0, 1, 2, 3)
