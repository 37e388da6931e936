"""Confidences in 8 or 16 bits: how far they are off, and what rounding must not change."""

import base64
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from explore_data import codes_of, decoded, plain_probabilities
from unlabel.evaluation.samples import load_cifar10
from unlabel.explore.packing import pack

DTYPES = st.sampled_from([np.float16, np.float32, np.float64])
SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 7))
BITS = st.sampled_from([8, 16])
FARTHEST = {8: 20, 16: 60}


@st.composite
def packed_rows(draw):
    """Rows of a model's outputs with ties, near ties, and labels that have nothing."""
    dtype, shape, kind = draw(DTYPES), draw(SHAPES), draw(st.sampled_from(["logits", "p"]))
    top = 80.0 if dtype == np.float16 else 800.0
    values = st.one_of(
        st.sampled_from([0.0, 1.0, 1.0 + 2.0**-10, 1.0 - 2.0**-50, -30.0]), st.floats(-top, top)
    )
    rows = draw(hnp.arrays(np.float64, shape, elements=values))
    none = draw(hnp.arrays(np.bool_, shape))
    none[np.arange(shape[0]), rows.argmax(axis=1)] = False
    with np.errstate(under="ignore"):
        if kind == "p":
            rows = np.exp(rows - rows.max(axis=1, keepdims=True))
            rows = np.where(none, 0, rows / rows.sum(axis=1, keepdims=True))
            return rows.astype(dtype), "probabilities", draw(BITS)
        return np.where(none, -math.inf, rows).astype(dtype), "logits", draw(BITS)


def as_data(packed, n_labels, n_rows):
    return vars(packed) | {"classes": ["x"] * n_labels, "rows": n_rows}


def first_largest(row):
    return [*row].index(max(row))


@given(packed_rows())
def test_rounding_is_what_is_stated_and_changes_no_answer(given):
    rows, kind, bits = given
    packed = pack(rows, kind, bits)
    data = as_data(packed, rows.shape[1], len(rows))
    after, errors = decoded(data), [0.0]
    for row, found in zip(rows.tolist(), after, strict=True):
        expected = plain_probabilities(row, kind)
        errors += [abs(one - other) for one, other in zip(expected, found, strict=True)]
        assert first_largest(found) == first_largest(row)
        for value, other in zip(row, found, strict=True):
            is_none = value == (0 if kind == "probabilities" else -math.inf)
            assert (other == 0) == is_none
    assert packed.rounding == pytest.approx(max(errors), rel=1e-6, abs=1e-12)


@given(packed_rows())
def test_logarithms_are_off_by_half_a_step(given):
    rows, kind, bits = given
    packed = pack(rows, kind, bits)
    last = 2**bits - 2
    assert packed.step * last <= FARTHEST[bits] * (1 + 1e-12)
    for row, codes in zip(
        rows.tolist(), codes_of(as_data(packed, rows.shape[1], len(rows))), strict=True
    ):
        logs = row
        if kind == "probabilities":
            logs = [math.log(value) if value else -math.inf for value in row]
        for value, log, code in zip(row, logs, codes, strict=True):
            distance = min(max(logs) - log, FARTHEST[bits])
            if log == -math.inf:
                assert code == last + 1
                continue
            off = 1 if code == 1 else 0.5
            assert abs(code * packed.step - distance) <= off * packed.step + 1e-12
            assert (code == 0) == (value == max(row))


def test_the_step_is_as_small_as_the_rows_allow():
    for bits in (8, 16):
        near = pack(np.array([[0.0, -3.0, -1.5]]), "logits", bits)
        assert near.step == 3.0 / (2**bits - 2)
        far = pack(np.array([[0.0, -3.0, -1e300]]), "logits", bits)
        assert far.step == FARTHEST[bits] / (2**bits - 2)
        tied = pack(np.full((2, 3), 7.0), "logits", bits)
        assert set(base64.b64decode(tied.codes)) == {0}
        assert tied.rounding == 0


def test_nearly_tied_labels_stay_nearly_tied():
    row = np.array([[0.5, np.nextafter(0.5, 1), 0.0]])
    for bits in (8, 16):
        packed = pack(row, "probabilities", bits)
        [(first, second, none)] = decoded(as_data(packed, 3, 1))
        assert first < second
        assert (first, second, none) == pytest.approx((0.5, 0.5, 0), abs=1e-10)


def test_a_real_network_is_rounded_by_less_than_a_ten_thousandth():
    outputs = load_cifar10()
    assert 0 < pack(outputs.base, "logits", 16).rounding < 1e-4
    assert 1e-4 < pack(outputs.base, "logits", 8).rounding < 2e-2


def test_rows_are_not_written_to():
    rows = np.array([[0.5, 0.5, 0.0]])
    rows.flags.writeable = False
    pack(rows, "probabilities", 8)
