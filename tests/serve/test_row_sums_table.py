"""What a probability row is in a model server's answer: the rule of the core."""

import numpy as np
import pytest

import doors
from row_sums import ROWS, VALID, expected, filters
from unlabel import UnlabelError

FILTERS = filters()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", FILTERS)
def test_rows_are_filtered_or_refused_by_their_sums(kind, dtype, name):
    fitted, (row, words) = FILTERS[kind], ROWS[name]
    rows = np.array([ROWS["1"][0], row], dtype=dtype)
    output = {
        "name": "scores",
        "datatype": {"float32": "FP32", "float64": "FP64"}[dtype],
        "shape": [2, 4],
    }
    response = {"outputs": [output | {"data": rows.ravel().tolist()}]}
    if name in VALID:
        (scores,) = doors.serve_once(fitted, response)["outputs"]
        found = np.reshape(scores["data"], scores["shape"])[1]
        np.testing.assert_allclose(found, expected(fitted, row, dtype), rtol=0, atol=1e-6)
        return
    with pytest.raises(UnlabelError, match=rf"(?i)row 1: .*{words}"):
        doors.serve_once(fitted, response)
