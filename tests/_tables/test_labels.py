"""Which label a cell means, in tables and in Spark."""

from decimal import Decimal

import pyarrow as pa
import pytest

from unlabel import UnlabelError
from unlabel._tables.labels import label_positions, true_labels

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "classes", "positions"),
    [
        ([0.0, 1.0, 1.0, -0.0], [0, 1], [0, 1, 1, 0]),
        ([0.0, 1.0], ["0", "1"], [0, 1]),
        ([0.5, 0.25, 0.1], ["0.1", "0.25", "0.5"], [2, 1, 0]),
        ([1e10, 1e15, 123456789.0], [10**10, 10**15, "123456789"], [0, 1, 2]),
        # From here on a double may be a rounded integer, and so another label's.
        ([2.0**53, 2.0**60, 1e16], [2**53, 2**60, 10**16], [None, None, None]),
        (pa.array([2.0**24, 2.0**24 - 1], pa.float32()), [2**24, 2**24 - 1], [None, 1]),
        ([0, 1, 2**60 + 1, 2**60], [0, "1", 2**60 + 1, 2**60], [0, 1, 2, 3]),
        ([Decimal("1.00"), Decimal("2.50")], [1, "2.50"], [0, 1]),
        ([Decimal("1E+30"), Decimal("2E+30")], [10**30, 7], [0, None]),
        ([True, False], ["true", "False"], [0, 1]),
        ([True, False], [0, 1], [None, None]),
        (["2", "2.0", "2.00"], [2, 7], [0, 0, None]),
        (["2", "2.0"], ["2.0", "2"], [1, 0]),
        (["1.0E10", "1e3"], ["10000000000", 1000], [None, None]),
        ([None, ""], ["None", "nan"], [None, None]),
        ([NAN, 1.0], ["nan", "1"], [None, 1]),
        (["", "nan"], ["", "nan"], [0, 1]),
    ],
)
def test_what_is_which_label(values, classes, positions):
    assert label_positions(pa.array(values), classes) == positions


@pytest.mark.parametrize(
    ("values", "classes", "says"),
    [
        ([2.0], ["2", "2.0"], "The value 2 may mean any of the labels '2' and '2.0'"),
        ([True], ["true", "True"], "may mean any of the labels 'true' and 'True'"),
    ],
)
def test_what_may_be_two_labels_is_refused(values, classes, says):
    with pytest.raises(UnlabelError, match=says):
        label_positions(pa.array(values), classes)


def test_a_column_of_nothing_has_no_labels():
    batch = pa.record_batch({"label": pa.nulls(2)})
    with pytest.raises(UnlabelError, match="Row 0: it has no true label in column 'label'"):
        true_labels(batch.column("label"), "label", ["a", "b"])
