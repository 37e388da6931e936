"""What a probability row is in a table: the rule of the core, with the row's number."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import doors
from row_sums import CLASSES, ROWS, TOLERANCE, VALID, expected, filters
from unlabel import UnlabelError

FILTERS = filters()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", FILTERS)
def test_rows_are_filtered_or_refused_by_their_sums(tmp_path, kind, dtype, name):
    fitted, (row, words) = FILTERS[kind], ROWS[name]
    rows = np.array([ROWS["1"][0]] * 3 + [row], dtype=dtype)
    pa.parquet.write_table(
        pa.table(dict(zip(CLASSES, rows.T, strict=True))), tmp_path / "in.parquet"
    )
    out = tmp_path / "out.parquet"
    if name in VALID:
        doors.apply_table(tmp_path / "in.parquet", fitted, out)
        table = pa.parquet.read_table(out)
        found = [table[str(label)][3].as_py() for label in fitted.classes_out]
        wanted = expected(fitted, row, dtype)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype])
        return
    with pytest.raises(UnlabelError, match=rf"row 3: .*{words}"):
        doors.apply_table(tmp_path / "in.parquet", fitted, out)
    assert not out.exists()
