"""Tables with very many labels, and with very long rows."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import doors
from commands import unlabel
from unlabel._tables.files import csv_input


def save_filter(path, names):
    rows = np.full((1, len(names)), 1 / len(names))
    doors.fit(rows, classes=names, remove=names[:2], method="mask").save(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ten_thousand_labels_take_seconds(tmp_path, suffix):
    names = [f"label-{i}" for i in range(10_000)]
    save_filter(tmp_path / "f.safetensors", names)
    table = pa.table({name: [1e-4] * 4 for name in names} | {"label": ["label-7"] * 4})
    write = pa.csv.write_csv if suffix == "csv" else pa.parquet.write_table
    write(table, tmp_path / f"in.{suffix}")
    out = tmp_path / f"out.{suffix}"
    start = time.process_time()
    code, _, error = unlabel(
        "apply", tmp_path / f"in.{suffix}", tmp_path / "f.safetensors", "--out", out
    )
    assert code == 0, error
    fit = ("--remove", "label-7", "--remove", "label-8", "--method", "mask")
    code, _, error = unlabel("fit", tmp_path / f"in.{suffix}", *fit, "--out", tmp_path / "g")
    assert code == 0, error
    assert time.process_time() - start < 15  # a look through all columns for each takes a minute


def test_a_header_of_more_than_a_mebibyte(tmp_path):
    names = [f"{i:04}" + "x" * 600 for i in range(2000)]
    save_filter(tmp_path / "f.safetensors", names)
    lines = [",".join(names)] + [",".join(["0.0005"] * 2000)] * 3
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    assert len(lines[0]) > 1 << 20
    out = tmp_path / "out.csv"
    code, _, error = unlabel("apply", tmp_path / "in.csv", tmp_path / "f.safetensors", "--out", out)
    assert code == 0, error
    assert out.read_text().splitlines()[0] == ",".join(names[2:])


def test_rows_of_more_than_a_megabyte_are_read_once_and_in_order(tmp_path):
    save_filter(tmp_path / "f.safetensors", ["cat", "dog", "fox", "owl"])
    texts = [f"{i}," + "x" * (3_000_000 if i in (40_000, 40_002) else 60) for i in range(40_005)]
    lines = [f'"{text}",.25,.25,.25,.25' for text in texts]
    (tmp_path / "in.csv").write_text("\n".join(["text,cat,dog,fox,owl", *lines]) + "\n")
    out = tmp_path / "out.parquet"
    code, _, error = unlabel("apply", tmp_path / "in.csv", tmp_path / "f.safetensors", "--out", out)
    assert code == 0, error
    assert pa.parquet.read_table(out)["text"].to_pylist() == texts


def test_a_row_of_no_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_input, "LARGEST_BLOCK", 1 << 21)
    save_filter(tmp_path / "f.safetensors", ["cat", "dog", "fox"])
    text = '.5,.25,.25,"' + "x" * (1 << 22)
    (tmp_path / "in.csv").write_text(f"cat,dog,fox,text\n.5,.25,.25,a\n{text}\n")
    out = tmp_path / "out.csv"
    code, _, error = unlabel("apply", tmp_path / "in.csv", tmp_path / "f.safetensors", "--out", out)
    assert code == 2
    assert "in.csv: a row has more than 2 MiB, or a quote is not closed" in error
    assert not out.exists()
