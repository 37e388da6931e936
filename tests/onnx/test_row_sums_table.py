"""What a probability row is in a graph: rows that are valid give what they do in the core."""

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("unlabel.onnx", exc_type=ImportError)

import numpy as np

import doors
from onnx_models import identity_model, run
from row_sums import DTYPES, ROWS, TOLERANCE, VALID, expected, filters

FILTERS = filters()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FILTERS)
def test_rows_are_filtered_whatever_stands_beside_them(kind, dtype):
    rows = np.array([row for row, _ in ROWS.values()]).astype(dtype)
    model = doors.to_onnx(identity_model(4, dtype), FILTERS[kind])
    found = run(model, x=rows)["scores"]
    for at, (name, (row, _)) in enumerate(ROWS.items()):
        if name in VALID:
            np.testing.assert_allclose(
                found[at],
                expected(FILTERS[kind], row, dtype),
                rtol=0,
                atol=TOLERANCE[dtype],
                err_msg=name,
            )
        elif name in ("NaN", "infinite"):
            assert np.isnan(found[at]).any(), name
        elif name != "minus infinite":  # nobody says that it is wrong
            assert abs(found[at].sum(dtype=float) - 1) <= 2 * TOLERANCE[dtype], name


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_logits_that_are_no_numbers_become_nan(kind, wrong):
    fitted = doors.with_kind(FILTERS[kind], "logits")
    rows = np.zeros((5, 4))
    rows[range(4), range(4)] = wrong
    found = run(doors.to_onnx(identity_model(4, "float64"), fitted), x=rows)["scores"]
    # A mask does not see the labels that it removes.
    is_seen = [kind != "mask", True, True, True, False]
    assert np.isnan(found).any(axis=1).tolist() == is_seen
