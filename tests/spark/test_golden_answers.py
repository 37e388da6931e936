"""Spark gives the answers of the golden file."""

import numpy as np
import pyarrow as pa
import pytest

import unlabel.spark as face
from golden_answers import GOLDEN, LABELS, LISTS, UNKNOWN_ABOVE, golden_filter
from unlabel import AnswerRule

# PySpark says so at every Arrow function, and works.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def test_allowed_labels_and_unknown_are_those_of_the_golden_file(spark):
    columns = {"id": range(len(GOLDEN["rows"])), "place": GOLDEN["lists"].tolist()}
    columns |= dict(zip(LABELS, GOLDEN["rows"].T, strict=True))
    changed = face.apply(
        spark.createDataFrame(pa.table(columns)),
        golden_filter(),
        allow=LISTS,
        allow_by="place",
        removed_mass=True,
        top_label=True,
        rule=AnswerRule(max_removed_mass=UNKNOWN_ABOVE, unknown="unknown"),
    )
    table = changed.toArrow().sort_by("id")
    result = np.column_stack([table[label] for label in GOLDEN["results"]])
    np.testing.assert_allclose(result, GOLDEN["renormalised"], rtol=0, atol=1e-12)
    for name in ("not_allowed", "removed_mass"):
        np.testing.assert_allclose(table[name], GOLDEN[name], rtol=0, atol=1e-12)
    assert table["top_label"].to_pylist() == GOLDEN["answers"].tolist()
