"""Tables whose answers were wrong without a word."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import doors

NAMES = ["ant", "bee", "cat"]


def applied(tmp_path, table, filter, **options):
    pq.write_table(table, tmp_path / "in.parquet")
    doors.apply_table(tmp_path / "in.parquet", filter, tmp_path / "out.parquet", **options)
    return pq.read_table(tmp_path / "out.parquet")


def test_the_removed_mass_of_a_table_is_that_of_its_rows_to_the_last_bit(tmp_path):
    names = [f"label {number}" for number in range(100)]
    rows = np.random.default_rng(0).dirichlet(np.full(100, 0.3), 2_000)
    fitted = doors.mask(names, names[:40])
    table = pa.table(dict(zip(names, rows.T, strict=True)))
    found = applied(tmp_path, table, fitted, removed_mass=True)["removed_mass"].to_numpy()
    np.testing.assert_array_equal(found, doors.run(fitted, rows).removed_mass)


def test_what_a_partial_row_names_beside_a_removed_label_is_its_value(tmp_path):
    table = pa.table({"ant": [1 - 9.1e-9], "bee": [8e-9], "cat": pa.array([None], pa.float64())})
    found = applied(tmp_path, table, doors.mask(NAMES, ["ant"]), partial=True)
    assert found["bee"][0].as_py() == pytest.approx(0.88, abs=0.01)


def test_log_probabilities_in_float32_keep_the_labels_that_are_left_apart(tmp_path):
    logs = np.array([[0.0, -130.0, -120.0]], dtype=np.float32)
    table = pa.table(dict(zip(NAMES, logs.T, strict=True)))
    fitted = doors.with_kind(doors.mask(NAMES, ["ant"]), "logits")
    found = applied(tmp_path, table, fitted, kind="log-probabilities")
    assert found["cat"][0].as_py() > -0.001
