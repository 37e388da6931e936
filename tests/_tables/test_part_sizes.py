"""Tables of very many labels are read in parts of few rows, in every layout."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import doors
from unlabel._tables.files import formats
from unlabel._tables.opening import open_predictions
from unlabel._tables.predictions import Reading
from unlabel.tables import apply_table

NAMES = ["ant", "bee", "cat", "emu"]
ROWS = np.random.default_rng(3).dirichlet(np.ones(4), size=11)
ENTRIES = [
    [{"label": name, "score": score} for name, score in zip(NAMES, row, strict=True)]
    for row in ROWS.tolist()
]
KINDS = {
    "lists": ([*ROWS.tolist()], pa.list_(pa.float64())),
    "entries": (ENTRIES, pa.list_(pa.struct({"label": pa.string(), "score": pa.float64()}))),
    "maps": (
        [[(entry["label"], entry["score"]) for entry in row] for row in ENTRIES],
        pa.map_(pa.string(), pa.float64()),
    ),
}


def no_progress(part):
    pass


@pytest.fixture(autouse=True)
def two_rows_at_once(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ENTRIES", 9)


def write(path, kind):
    if kind == "json":
        path.write_text("".join(json.dumps({"p": entries}) + "\n" for entries in ENTRIES))
        return
    table = pa.table({"id": range(11), "p": pa.array(*KINDS[kind])})
    pa.parquet.write_table(table, path, row_group_size=6)
    pa.feather.write_feather(table, path.with_suffix(".feather"))


@pytest.mark.parametrize(
    ("kind", "ending"),
    [("json", ".jsonl"), *((kind, end) for kind in KINDS for end in (".parquet", ".feather"))],
)
def test_parts_have_few_rows(tmp_path, kind, ending):
    path = tmp_path / f"in{ending}"
    write(path if kind == "json" else tmp_path / "in.parquet", kind)
    parts = [*open_predictions(path, NAMES, Reading()).parts(no_progress)]
    assert {len(part) for part in parts} <= {1, 2}
    np.testing.assert_array_equal(np.concatenate([p.confidences() for p in parts]), ROWS)
    places = [part.place(row) for part in parts for row in range(len(part))]
    number = "line {}" if kind == "json" else "row {}"
    assert places == [number.format(i + (kind == "json")) for i in range(11)]
    out = tmp_path / f"out{ending}"
    applied = apply_table(doors.mask(NAMES, ["bee"]), path, out)
    assert (applied.rows, applied.written) == (11, 11)
    after = [*open_predictions(out, ["ant", "cat", "emu"], Reading()).parts(no_progress)]
    expected = [[v / (row[0] + row[2] + row[3]) for v in (row[0], row[2], row[3])] for row in ROWS]
    found = np.concatenate([part.confidences() for part in after])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_entries_of_lists_count_in_parquet_files(tmp_path, kind):
    write(tmp_path / "in.parquet", kind)
    batches = [batch for batch, _ in formats.open_table(tmp_path / "in.parquet").batches()]
    assert [*map(len, batches)] == [1] * 11
