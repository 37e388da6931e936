import numpy as np
import pytest

from golden_faces import DTYPES, INPUTS, METHODS, TOLERANCE, golden_case, golden_filter

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("input", INPUTS)
@pytest.mark.parametrize("method", METHODS)
def test_numpy_reproduces_the_golden_file(method, input, dtype):
    rows, expected = golden_case(method, input, dtype)
    result = golden_filter(method, input).apply(rows)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=TOLERANCE[dtype])
