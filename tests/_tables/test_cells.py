"""Cells of tables as numbers, and the rows and columns that a bad one is said to stand in."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import doors
from commands import unlabel
from unlabel import OutputFilter
from unlabel._tables.files import formats

NAMES = ["cat", "dog", "fox"]
ROWS = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0625, 0.0625, 0.875]])


@pytest.fixture
def fitted(tmp_path):
    remover = doors.fit(ROWS, classes=NAMES, remove=["dog"], method="mask")
    remover.save(tmp_path / "f.safetensors")
    return remover


def apply(tmp_path, source, out="out.parquet", *options):
    arguments = (tmp_path / source, tmp_path / "f.safetensors", "--out", tmp_path / out)
    return unlabel("apply", *arguments, *options)


def refused(*arguments):
    code, _, error = unlabel(*arguments)
    assert code == 2
    assert error.count("\n") == 1
    return error


def test_blanks_around_numbers_are_no_part_of_them(fitted, tmp_path):
    lines = ["cat,dog,fox", " 0.5, 0.25 ,0.25\t", "\t0.125,0.75,0.125", "0.0625,0.0625,0.875 "]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    code, _, error = apply(tmp_path, "in.csv")
    assert code == 0, error
    table = pa.parquet.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(np.column_stack(table.columns), fitted.apply(ROWS))
    (tmp_path / "in.csv").write_text(
        "\n".join([f"{lines[0]},label", *(f"{line},dog" for line in lines[1:])])
    )
    out = tmp_path / "g.safetensors"
    code, _, error = unlabel("fit", tmp_path / "in.csv", "--remove", "dog", "--out", out)
    assert code == 0, error
    np.testing.assert_allclose(OutputFilter.load(out).means[0], ROWS.mean(axis=0))


@pytest.mark.parametrize("text", ["0.34_8", "0x1p-2", "1 2", "\u0661", "much"])
def test_a_text_that_is_not_a_number_is_named(fitted, tmp_path, text):
    lines = ["cat,dog,fox", ".5,.25,.25", f".5,{text},.25"]
    (tmp_path / "in.csv").write_text("\n".join(lines), encoding="utf-8")
    arguments = ("apply", tmp_path / "in.csv", tmp_path / "f.safetensors")
    error = refused(*arguments, "--out", tmp_path / "out.csv")
    assert f"in.csv, row 1: it has {text!r} in column 'dog': give a number." in error
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.list_(pa.string(), 3)])
def test_a_bad_entry_of_a_list_names_its_row(fitted, tmp_path, kind):
    lists = [["0.5", "0.25", "0.25"]] * 30
    lists[20] = ["0.5", "0.25", "much"]
    pa.parquet.write_table(pa.table({"p": pa.array(lists, kind)}), tmp_path / "in.parquet")
    arguments = ("apply", tmp_path / "in.parquet", tmp_path / "f.safetensors")
    assert "row 20: it has 'much' in column 'p'" in refused(
        *arguments, "--out", tmp_path / "o.parquet"
    )
    lists[20] = ["0.5", "0.25", None]
    pa.parquet.write_table(pa.table({"p": pa.array(lists, kind)}), tmp_path / "in.parquet")
    error = refused(*arguments, "--out", tmp_path / "o.parquet")
    assert "row 20: it is not a probability vector: the label 'fox' is NaN" in error


@pytest.mark.parametrize("suffix", ["parquet", "npy"])
def test_a_bad_row_of_a_later_batch_has_its_number_in_the_table(
    fitted, tmp_path, suffix, monkeypatch
):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)
    rows = np.tile(ROWS, (10, 1))
    rows[23, 1] = 7
    np.save(tmp_path / "in.npy", rows)
    columns = {name: rows[:, i] for i, name in enumerate(NAMES)}
    labels = np.array(["dog"] * 30)
    pa.parquet.write_table(pa.table(columns | {"label": labels}), tmp_path / "in.parquet")
    arguments = ("apply", tmp_path / f"in.{suffix}", tmp_path / "f.safetensors")
    assert "row 23: it is not a probability vector: the label 'dog' is 7" in refused(
        *arguments, "--out", tmp_path / f"out.{suffix}"
    )
    rows[23, 1] = ROWS[23 % 3, 1]
    labels = labels.astype(object)
    labels[25] = "dgo"
    columns = {name: rows[:, i] for i, name in enumerate(NAMES)}
    pa.parquet.write_table(pa.table(columns | {"label": labels}), tmp_path / "in.parquet")
    arguments = ("fit", tmp_path / "in.parquet", "--remove", "dog", "--strict")
    assert "row 25: the model has no label 'dgo'" in refused(*arguments, "--out", tmp_path / "g")


STORED = {
    "decimal": [pa.array([Decimal(str(x)) for x in column]) for column in ROWS.T],
    "dictionary": [pa.array(column).dictionary_encode() for column in ROWS.T],
    "large text": [pa.array([f"{x} " for x in column], pa.large_string()) for column in ROWS.T],
    "view": [pa.array([f" {x}" for x in column], pa.string_view()) for column in ROWS.T],
    "dictionary of texts": [pa.array([str(x) for x in c]).dictionary_encode() for c in ROWS.T],
    "half": [pa.array(column.astype(np.float16)) for column in ROWS.T],
    "mixed": [
        pa.array(ROWS[:, 0].astype(np.float32)),
        pa.array(ROWS[:, 1]),
        pa.array([str(x) for x in ROWS[:, 2]]),
    ],
}


@pytest.mark.parametrize("kind", STORED)
def test_numbers_of_many_types(fitted, tmp_path, kind):
    table = pa.table(dict(zip(NAMES, STORED[kind], strict=True)) | {"label": NAMES})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    code, _, error = apply(tmp_path, "in.parquet")
    assert code == 0, error
    result = pa.parquet.read_table(tmp_path / "out.parquet").drop(["label"])
    np.testing.assert_allclose(np.column_stack(result.columns), fitted.apply(ROWS), rtol=1e-3)
    out = tmp_path / "g.safetensors"
    code, _, error = unlabel("fit", tmp_path / "in.parquet", "--remove", "dog", "--out", out)
    assert code == 0, error
    assert OutputFilter.load(out).classes_in == tuple(NAMES)


def test_whole_numbers_of_many_digits_are_numbers(tmp_path):
    remover = doors.fit(ROWS - 1, classes=NAMES, remove=["dog"], method="mask", kind="logits")
    remover.save(tmp_path / "f.safetensors")
    columns = {"cat": [2**60], "dog": [3], "fox": [2**60]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
    assert apply(tmp_path, "in.parquet")[0] == 0
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result.to_pylist() == [{"cat": 0.5, "fox": 0.5}]


def test_a_date_is_not_a_number(fitted, tmp_path):
    times = pa.array([0], pa.timestamp("s"))
    table = pa.table({"cat": times, "dog": [0.5], "fox": [0.5]})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    arguments = ("apply", tmp_path / "in.parquet", tmp_path / "f.safetensors")
    error = refused(*arguments, "--out", tmp_path / "out.parquet")
    assert "row 0: it has '1970-01-01 00:00:00' in column 'cat': give a number" in error
