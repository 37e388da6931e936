"""What is written: everything that came in, in little space, or nothing and a sentence."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import doors
from commands import unlabel
from unlabel import UnlabelError

NAMES = ["cat", "dog", "fox"]
ROWS = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]])


@pytest.fixture
def fitted(tmp_path):
    remover = doors.fit(ROWS, classes=NAMES, remove=["dog"], method="mask")
    remover.save(tmp_path / "f.safetensors")
    return remover


def apply(tmp_path, table, out):
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    arguments = (tmp_path / "in.parquet", tmp_path / "f.safetensors", "--out", tmp_path / out)
    return unlabel("apply", *arguments)


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float64())])
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_lists_of_variable_size_become_an_array(fitted, tmp_path, kind, suffix):
    table = pa.table({"p": pa.array(ROWS.tolist(), kind)})
    code, _, error = apply(tmp_path, table, f"out.{suffix}")
    assert code == 0, error
    stored = np.load(tmp_path / f"out.{suffix}")
    result = stored if suffix == "npy" else stored["p"]
    np.testing.assert_array_equal(result, fitted.apply(ROWS))


def test_columns_named_after_numpys_parameters_are_kept(fitted, tmp_path):
    others = {"file": ["a.png", "b.png"], "allow_pickle": [1, 2], "a/b": [True, False]}
    table = pa.table(dict(zip(NAMES, ROWS.T, strict=True)) | others)
    code, _, error = apply(tmp_path, table, "out.npz")
    assert code == 0, error
    with np.load(tmp_path / "out.npz") as stored:
        for name, values in others.items():
            assert stored[name].tolist() == values
        np.testing.assert_array_equal(stored["confidences"], fitted.apply(ROWS))
    # What was written can be filtered again.
    remover = doors.fit([[0.5, 0.5]], classes=["cat", "fox"], remove=["fox"], method="mask")
    remover.save(tmp_path / "again.safetensors")
    again = (tmp_path / "out.npz", tmp_path / "again.safetensors", "--out", tmp_path / "2.npz")
    assert unlabel("apply", *again)[0] == 0


@pytest.mark.parametrize(
    ("names", "columns", "words"),
    [
        (["classes"], [["a", "b"]], "'classes' has a name with another meaning"),
        (["x.npy"], [["a", "b"]], "'x.npy' has a name with another meaning"),
        (["a\0b"], [["a", "b"]], "has a name with another meaning"),
        (["note", "note"], [["a", "b"], ["c", "d"]], "2 columns 'note'"),
        (["words"], [[["a"], ["b", "c"]]], "'words' has the type list"),
        (["words"], [[{"a": 1}, {"a": 2}]], "'words' has the type struct"),
        (["bytes"], [[b"\xff", b"b"]], "'bytes' has the type binary"),
        (
            ["embedding"],
            [pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2))],
            "'confidences' and 'embedding' are list columns",
        ),
        (["at"], [pa.array([1, 2], pa.timestamp("s", "Asia/Tokyo"))], "type timestamp"),
        (["note"], [["a", None]], "'note' has empty cells"),
    ],
)
def test_what_npz_cannot_hold_is_refused(fitted, tmp_path, names, columns, words):
    table = pa.Table.from_arrays(
        [*map(pa.array, ROWS.T), *(pa.array(column) for column in columns)], [*NAMES, *names]
    )
    code, _, error = apply(tmp_path, table, "out.npz")
    assert code == 2
    assert error.count("\n") == 1
    assert words in error
    assert sorted(os.listdir(tmp_path)) == ["f.safetensors", "in.parquet"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "b"], pa.string_view()),
        pa.array([1, 2], pa.int8()),
        pa.array([True, False]),
        pa.array([1, 2], pa.timestamp("s")),
        pa.array([1, 2], pa.date32()),
        pa.array([1, 2], pa.duration("ms")),
        pa.array(np.array([0.5, 0.25], np.float16)),
    ],
)
def test_columns_that_an_array_can_hold_keep_their_values(fitted, tmp_path, column):
    table = pa.table(dict(zip(NAMES, ROWS.T, strict=True)) | {"x": column})
    code, _, error = apply(tmp_path, table, "out.npz")
    assert code == 0, error
    with np.load(tmp_path / "out.npz") as stored:
        assert pa.array(stored["x"]).to_pylist() == column.to_pylist()


def test_only_columns_that_repeat_have_a_dictionary_in_parquet(fitted, tmp_path):
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=100_000)
    table = pa.table(dict(zip(NAMES, rows.T, strict=True)) | {"day": ["Monday", "Friday"] * 50_000})
    assert apply(tmp_path, table, "out.parquet")[0] == 0
    written = pa.parquet.ParquetFile(tmp_path / "out.parquet").metadata
    groups = [written.row_group(group) for group in range(written.num_row_groups)]
    sizes = [sum(group.column(i).total_compressed_size for group in groups) for i in range(3)]
    assert max(sizes[:2]) < 1.05 * 8 * len(rows)
    assert sizes[2] < len(rows) / 4


def test_empty_cells_of_a_single_column_are_not_blank_lines(tmp_path):
    doors.mask(["cat", "dog"], ["dog"]).save(tmp_path / "f.safetensors")
    (tmp_path / "in.csv").write_text("cat,dog\n.5,.5\n,1.0\n.7,.3\n")
    arguments = (tmp_path / "in.csv", tmp_path / "f.safetensors", "--partial")
    assert unlabel("apply", *arguments, "--out", tmp_path / "out.csv")[0] == 0
    assert (tmp_path / "out.csv").read_text() == 'cat\n1\n""\n1\n'
    read = pa.csv.read_csv(tmp_path / "out.csv").column("cat")
    assert read.to_pylist() == [1, None, 1]


def test_standard_output_is_for_apply_alone(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnlabelError, match="'-' is standard output"):
        fitted.save("-")
    assert os.listdir() == ["f.safetensors"]
