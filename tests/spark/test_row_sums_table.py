"""What a probability row is in Spark: the rule of the core."""

import numpy as np
import pyarrow as pa
import pytest

import unlabel.spark as face
from row_sums import CLASSES, INVALID, ROWS, VALID, expected, filters
from unlabel import UnlabelError

# PySpark says so at every Arrow function, and works.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

FILTERS = filters()


def frame(spark, names):
    rows = np.array([ROWS[name][0] for name in names])
    columns = {"id": range(len(rows))} | dict(zip(CLASSES, rows.T, strict=True))
    return spark.createDataFrame(pa.table(columns))


@pytest.mark.parametrize("kind", FILTERS)
def test_valid_rows_are_filtered(spark, kind):
    fitted = FILTERS[kind]
    found = face.apply(frame(spark, VALID), fitted).toArrow().sort_by("id")
    numbers = np.column_stack([found[str(label)] for label in fitted.classes_out])
    wanted = [expected(fitted, ROWS[name][0], "float64") for name in VALID]
    np.testing.assert_allclose(numbers, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", INVALID)
def test_other_rows_are_refused(spark, name):
    df = frame(spark, ["1", "1", name])
    with pytest.raises(UnlabelError, match=ROWS[name][1]), face.row_errors():
        face.apply(df, FILTERS["osr"]).collect()
