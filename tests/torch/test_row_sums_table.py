"""What a probability row is in PyTorch: the rule of the core, and NaN in place of an error."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("unlabel.torch", exc_type=ImportError)

import numpy as np  # noqa: E402

import doors  # noqa: E402
from row_sums import DTYPES, ROWS, TOLERANCE, VALID, expected, filters  # noqa: E402

FILTERS = filters()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FILTERS)
def test_rows_are_filtered_or_become_nan_by_their_sums(kind, dtype, name):
    fitted, (row, _) = FILTERS[kind], ROWS[name]
    rows = torch.tensor(np.array([ROWS["1"][0], row]).astype(dtype))
    module = doors.to_torch(fitted)
    found, mass = module(rows).double().numpy(), module.removed_mass(rows).double().numpy()
    tolerance = max(TOLERANCE[dtype], 1e-6)
    usual = expected(fitted, ROWS["1"][0], dtype)
    np.testing.assert_allclose(found[0], usual, rtol=0, atol=tolerance)
    if name in VALID:
        np.testing.assert_allclose(found[1], expected(fitted, row, dtype), rtol=0, atol=tolerance)
        assert np.isfinite(mass).all()
    else:
        assert np.isnan(found[1]).all()
        assert np.isnan(mass[1])
