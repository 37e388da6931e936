import csv
import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import doors
from commands import names_file, unlabel
from unlabel import OutputFilter, UnlabelError
from unlabel._tables.ahead import made_ahead
from unlabel._tables.files import formats

NAMES = ["cat", "dog", "fox", "owl"]


@pytest.fixture
def rows():
    return np.random.default_rng(1).dirichlet(np.ones(4), size=50)


@pytest.fixture
def fitted(rows, tmp_path):
    truth = np.array(NAMES)[rows.argmax(axis=1)]
    remover = doors.fit(rows, truth, classes=NAMES, remove=["dog"])
    remover.save(tmp_path / "filter.safetensors")
    return remover


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


def wide(rows, **others):
    return pa.table(others | {name: rows[:, i] for i, name in enumerate(NAMES)})


def apply(tmp_path, source, out, *options):
    code, _, error = unlabel(
        "apply",
        tmp_path / source,
        tmp_path / "filter.safetensors",
        "--out",
        tmp_path / out,
        *options,
    )
    assert code == 0, error
    return error


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_parquet_keeps_types_and_other_columns(rows, fitted, tmp_path, dtype):
    rows = rows.astype(dtype)
    others = {
        "id": pa.array([f"{i:03}" for i in range(50)]).dictionary_encode(),
        "when": pa.array([datetime.datetime(2024, 1, 1, 0, i) for i in range(50)]),
        "note": pa.array([None, "x"] * 25),
    }
    pa.parquet.write_table(wide(rows, **others), tmp_path / "in.parquet")
    apply(tmp_path, "in.parquet", "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result.column_names == ["id", "when", "note", "cat", "fox", "owl"]
    for name, column in others.items():
        assert result[name].combine_chunks().equals(column)
    expected = fitted.apply(rows)
    for i, name in enumerate(fitted.classes_out):
        assert result[name].type == pa.from_numpy_dtype(np.dtype(dtype))
        np.testing.assert_array_equal(result[name].to_numpy(), expected[:, i])


def test_csv_leaves_texts_as_they_came(rows, fitted, tmp_path):
    ids = ["007", "a,b", 'say "x"', "two\nlines", "", " pad ", "é", "1e3", "NULL", "2024-01-01"]
    with open(tmp_path / "in.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *NAMES])
        for i, row in enumerate(rows):
            writer.writerow([ids[i % len(ids)], *map(repr, row.tolist())])
    apply(tmp_path, "in.csv", "out.csv")
    with open(tmp_path / "out.csv", newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["id", "cat", "fox", "owl"]
    assert [line[0] for line in lines] == [ids[i % len(ids)] for i in range(50)]
    result = np.array([line[1:] for line in lines], dtype=float)
    np.testing.assert_array_equal(result, fitted.apply(rows))


def test_plain_csv_is_written_without_quotes(rows, fitted, tmp_path):
    lines = ["id,cat,dog,fox,owl"] + [f"i{i},0.25,0.25,0.25,0.25" for i in range(20)]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    apply(tmp_path, "in.csv", "out.csv")
    assert '"' not in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(rows, fitted, tmp_path, order):
    np.save(tmp_path / "in.npy", np.asarray(rows, dtype="f4", order=order))
    apply(tmp_path, "in.npy", "out.npy")
    result = np.load(tmp_path / "out.npy")
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, fitted.apply(rows.astype("f4")))


def test_npz_keeps_other_arrays_and_names_the_labels(rows, fitted, tmp_path):
    np.savez(tmp_path / "in.npz", p=rows, classes=NAMES, id=np.arange(50))
    apply(tmp_path, "in.npz", "out.npz", "--top-label")
    with np.load(tmp_path / "out.npz") as result:
        assert result["classes"].tolist() == list(fitted.classes_out)
        assert result["id"].tolist() == list(range(50))
        expected = fitted.apply(rows)
        np.testing.assert_array_equal(result["p"], expected)
        top = np.array(fitted.classes_out)[expected.argmax(axis=1)]
        assert result["top_label"].tolist() == top.tolist()


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 4)])
def test_list_columns_keep_their_kind(rows, fitted, tmp_path, kind):
    column = pa.array(rows.astype("f4").tolist(), kind)
    pa.parquet.write_table(pa.table({"p": column, "id": range(50)}), tmp_path / "in.parquet")
    apply(tmp_path, "in.parquet", "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result.column_names == ["p", "id"]
    assert pa.types.is_fixed_size_list(result["p"].type) == pa.types.is_fixed_size_list(kind)
    np.testing.assert_array_equal(
        np.array(result["p"].to_pylist(), "f4"), fitted.apply(rows.astype("f4"))
    )


def test_one_format_into_another(rows, fitted, tmp_path):
    expected = fitted.apply(rows)
    np.save(tmp_path / "in.npy", rows)
    apply(tmp_path, "in.npy", "out.csv")
    table = pa.csv.read_csv(tmp_path / "out.csv")
    assert table.column_names == list(fitted.classes_out)
    np.testing.assert_array_equal(np.column_stack(table.columns), expected)
    pa.parquet.write_table(wide(rows), tmp_path / "in.parquet")
    apply(tmp_path, "in.parquet", "out.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)


def test_columns_are_found_by_name_in_any_order(rows, fitted, tmp_path):
    table = wide(rows, id=range(50)).select(["owl", "id", "dog", "cat", "fox"])
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    apply(tmp_path, "in.parquet", "out.parquet")
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result.column_names == ["owl", "id", "cat", "fox"]
    np.testing.assert_array_equal(
        np.column_stack([result[name] for name in fitted.classes_out]), fitted.apply(rows)
    )


def test_one_batch_is_made_while_another_is_written():
    made = []

    def batches():
        for number in range(3):
            made.append(number)
            yield number
        raise UnlabelError("row 3: it is not a number.")

    ahead = made_ahead(batches())
    for number in range(3):
        assert next(ahead) == number
        assert len(made) <= number + 2
    with pytest.raises(UnlabelError, match="Row 3"):
        next(ahead)


def test_only_changed_top_label_and_removed_mass(rows, fitted, tmp_path):
    pa.parquet.write_table(wide(rows, id=range(50)), tmp_path / "in.parquet")
    output = apply(
        tmp_path, "in.parquet", "out.parquet", "--only-changed", "--top-label", "--removed-mass"
    )
    after = fitted.apply(rows)
    top = np.array(fitted.classes_out)[after.argmax(axis=1)]
    changed = np.flatnonzero(np.array(NAMES)[rows.argmax(axis=1)] != top)
    assert 0 < len(changed) < 50
    result = pa.parquet.read_table(tmp_path / "out.parquet")
    assert result["id"].to_pylist() == changed.tolist()
    assert result["top_label"].to_pylist() == top[changed].tolist()
    np.testing.assert_allclose(result["removed_mass"], rows[changed, 1], rtol=1e-12)
    assert f"{len(changed)} of 50" in output


def test_pandas_reads_what_was_written_from_pandas(rows, fitted, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=NAMES, index=pandas.Index(range(100, 150), name="id"))
    frame.to_parquet(tmp_path / "in.parquet")
    apply(tmp_path, "in.parquet", "out.parquet")
    result = pandas.read_parquet(tmp_path / "out.parquet")
    assert result.index.tolist() == list(range(100, 150))
    assert result.columns.tolist() == list(fitted.classes_out)
    np.testing.assert_array_equal(result.to_numpy(), fitted.apply(rows))


def test_a_fit_from_a_table_equals_one_from_arrays(rows, fitted, tmp_path):
    truth = np.array(NAMES)[rows.argmax(axis=1)]
    pa.parquet.write_table(wide(rows, label=truth), tmp_path / "reference.parquet")
    pa.csv.write_csv(wide(rows, label=truth, id=range(50)), tmp_path / "reference.csv")
    np.savez(tmp_path / "reference.npz", p=rows, truth=truth, classes=NAMES)
    np.savez(tmp_path / "numbers.npz", p=rows, label=rows.argmax(axis=1))
    for source, remove, *options in (
        ("reference.parquet", "dog"),
        ("reference.csv", "dog"),
        ("reference.npz", "dog", "--label-column", "truth"),
        ("numbers.npz", "1"),
        ("numbers.npz", "dog", "--classes", names_file(tmp_path, NAMES)),
    ):
        if "--classes" in options:
            np.savez(tmp_path / "numbers.npz", p=rows, label=truth)
        out = tmp_path / f"{source}.safetensors"
        code, _, error = unlabel(
            "fit", tmp_path / source, "--remove", remove, "--out", out, "--force", *options
        )
        assert code == 0, error
        again = OutputFilter.load(out)
        assert again.counts == fitted.counts
        np.testing.assert_array_equal(again.apply(rows), fitted.apply(rows))


def test_ids_counts_and_notes_are_no_labels(tmp_path):
    lines = ["7,.5,.5,1.5,0,cat", "8,1,0,1.5 or so,1.0,cat", "9,1,0,,1.0,cat"]
    (tmp_path / "in.csv").write_text("\n".join(["id,cat,dog,note,fold,label", *lines, ""]))
    code, _, error = unlabel(
        "fit", tmp_path / "in.csv", "--remove", "cat", "--out", tmp_path / "f.safetensors"
    )
    assert code == 0, error
    assert OutputFilter.load(tmp_path / "f.safetensors").classes_in == ("cat", "dog")


def test_every_row_may_have_the_true_label_0(tmp_path):
    (tmp_path / "in.csv").write_text("0,1,label\n.5,.5,0\n.7,.3,0\n")
    code, _, error = unlabel(
        "fit", tmp_path / "in.csv", "--remove", "0", "--out", tmp_path / "f.safetensors"
    )
    assert code == 0, error


@pytest.mark.parametrize("suffix", ["parquet", "csv", "npy", "npz"])
def test_a_table_without_rows_stays_one(rows, fitted, tmp_path, suffix):
    none = rows[:0]
    pa.parquet.write_table(wide(none), tmp_path / "in.parquet")
    (tmp_path / "in.csv").write_text(",".join(NAMES) + "\n")
    np.save(tmp_path / "in.npy", none)
    np.savez(tmp_path / "in.npz", p=none)
    output = apply(tmp_path, f"in.{suffix}", f"out.{suffix}")
    assert "0 rows written; the top label changed in 0 of 0" in output
    table = formats.open_table(tmp_path / f"out.{suffix}")
    assert sum(len(batch) for batch, _ in table.batches()) == 0
    if suffix in ("parquet", "csv"):
        assert table.schema.names == ["cat", "fox", "owl"]


@pytest.mark.parametrize("dtype", [">f4", ">f8"])
def test_arrays_of_the_other_byte_order(rows, fitted, tmp_path, dtype):
    swapped = rows.astype(dtype)
    np.savez(tmp_path / "in.npz", p=swapped, id=np.arange(50, dtype=">i4"))
    apply(tmp_path, "in.npz", "out.npz")
    with np.load(tmp_path / "out.npz") as stored:
        np.testing.assert_array_equal(stored["p"], fitted.apply(swapped))
        assert stored["id"].tolist() == list(range(50))


def test_whole_numbers_that_pandas_wrote_as_decimals_are_labels(tmp_path):
    (tmp_path / "in.csv").write_text("0,1,1.5,label\n.5,.3,.2,0.0\n.2,.6,.2,1\n.1,.7,.2,1.0\n")
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", tmp_path / "in.csv", "--remove", "1", "--out", out)
    assert code == 0, error
    assert OutputFilter.load(out).counts == (2,)
    (tmp_path / "in.csv").write_text("v1,v2,label\n.5,.5,v1.0\n")
    code, _, error = unlabel("fit", tmp_path / "in.csv", "--remove", "v1", "--out", out, "--force")
    assert code == 2
    assert "no label 'v1.0'" in error


def test_names_may_hold_other_separators(tmp_path):
    (tmp_path / "in.csv").write_text('"a, b",c;\td;e;f,cat; x; y,label\n.5,.3,.2,cat; x; y\n')
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", tmp_path / "in.csv", "--remove", "cat; x; y", "--out", out)
    assert code == 0, error
    assert OutputFilter.load(out).classes_in == ("a, b", "c;\td;e;f", "cat; x; y")


def test_whole_numbers_in_parquet_are_ids(rows, tmp_path):
    table = wide(rows, label=np.array(NAMES)[rows.argmax(axis=1)], fold=np.zeros(50, int))
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "f.safetensors"
    assert unlabel("fit", tmp_path / "in.parquet", "--remove", "dog", "--out", out)[0] == 0
    assert OutputFilter.load(out).classes_in == tuple(NAMES)


def test_logits_among_other_numbers_are_not_guessed(rows, tmp_path):
    truth = np.array(NAMES)[rows.argmax(axis=1)]
    table = wide(np.log(rows), label=truth)
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    latency = table.append_column("latency", pa.array(np.linspace(40, 50, 50)))
    pa.parquet.write_table(latency, tmp_path / "more.parquet")
    out = ("--remove", "dog", "--kind", "logits", "--out", tmp_path / "f.safetensors", "--force")
    code, _, error = unlabel("fit", tmp_path / "more.parquet", *out)
    assert code == 2
    assert "no row of the true label 'latency', so that column may or may not hold a" in error
    named = ("--classes", names_file(tmp_path, NAMES))
    assert unlabel("fit", tmp_path / "more.parquet", *out, *named)[0] == 0
    assert unlabel("fit", tmp_path / "in.parquet", *out)[0] == 0
    # A label without rows is asked about as well, and is one where it is named.
    pa.parquet.write_table(table.filter(pa.array(truth != "owl")), tmp_path / "some.parquet")
    assert "true label 'owl'" in unlabel("fit", tmp_path / "some.parquet", *out)[2]
    named = ("--classes", names_file(tmp_path, NAMES))
    assert unlabel("fit", tmp_path / "some.parquet", *out, *named)[0] == 0
    # Rows of the removed label alone, and no true labels at all, say nothing of other columns.
    pa.parquet.write_table(table.filter(pa.array(truth == "dog")), tmp_path / "dogs.parquet")
    pa.parquet.write_table(table.drop("label"), tmp_path / "bare.parquet")
    for name, more in (("dogs.parquet", ()), ("bare.parquet", ("--method", "mask"))):
        assert "name the labels (--classes)" in unlabel("fit", tmp_path / name, *out, *more)[2]
        named = ("--classes", names_file(tmp_path, NAMES))
        assert unlabel("fit", tmp_path / name, *out, *more, *named)[0] == 0
    # A label whose logits happen to be whole would be passed over.
    rounded = table.drop("cat").append_column("cat", pa.array(np.arange(50)))
    pa.parquet.write_table(rounded.filter(pa.array(truth != "cat")), tmp_path / "whole.parquet")
    assert "whole numbers in column 'cat'" in unlabel("fit", tmp_path / "whole.parquet", *out)[2]


def test_guessed_labels_are_said(rows, tmp_path):
    table = wide(rows, label=np.array(NAMES)[rows.argmax(axis=1)])
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    out = ("--remove", "dog", "--out", tmp_path / "f.safetensors", "--force")
    guess = f"The labels were taken to be {', '.join(map(repr, NAMES))}: if not, name them"
    assert guess in unlabel("fit", tmp_path / "in.parquet", *out)[2]
    named = ("--classes", names_file(tmp_path, NAMES))
    assert "taken to be" not in unlabel("fit", tmp_path / "in.parquet", *out, *named)[2]


def test_a_guessed_column_that_behaves_like_no_label_is_named(rows, tmp_path):
    table = wide(rows, price=np.full(50, 1e-5), label=np.array(NAMES)[rows.argmax(axis=1)])
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    out = ("--remove", "dog", "--out", tmp_path / "f.safetensors", "--force")
    assert "no row's label: 'price'" in unlabel("fit", tmp_path / "in.parquet", *out)[2]
    pa.parquet.write_table(table.drop("price"), tmp_path / "in.parquet")
    assert "no row's label" not in unlabel("fit", tmp_path / "in.parquet", *out)[2]


@pytest.mark.parametrize("method", ["osr", "mask"])
def test_a_column_of_true_labels_is_never_taken_for_a_label(rows, tmp_path, method):
    table = pa.table({str(i): rows[:, i] for i in range(4)} | {"label": np.arange(50) % 4 * 1.0})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "f.safetensors"
    options = ("--remove", "1", "--method", method, "--out", out)
    assert unlabel("fit", tmp_path / "in.parquet", *options)[0] == 0
    assert OutputFilter.load(out).classes_in == ("0", "1", "2", "3")


def test_columns_of_labels_that_hold_no_confidences_beside_lists_are_asked_about(fitted, tmp_path):
    table = pa.table({"p": [[0.25] * 4], **{name: [1] for name in NAMES}})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    fitted.save(tmp_path / "f.safetensors")
    apply = ("apply", tmp_path / "in.parquet", tmp_path / "f.safetensors")
    out = ("--out", tmp_path / "out.parquet")
    assert "if those hold the confidences, say so (--list-column)" in unlabel(*apply, *out)[2]
    assert unlabel(*apply, *out, "--list-column", "p")[0] == 0


def test_a_column_of_zeros_is_asked_about_in_parquet_too(rows, tmp_path):
    table = wide(rows, label=np.array(NAMES)[rows.argmax(axis=1)], cost=np.zeros(50))
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    out = ("--remove", "dog", "--out", tmp_path / "f.safetensors")
    assert "0 in every row of column 'cost'" in unlabel("fit", tmp_path / "in.parquet", *out)[2]


def test_labels_from_a_file(rows, fitted, tmp_path):
    truth = np.array(NAMES)[rows.argmax(axis=1)]
    np.savez(tmp_path / "r.npz", p=rows, label=truth)
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    out = tmp_path / "f.safetensors"
    options = ["--classes", tmp_path / "names.txt", "--keep", "cat", "--keep", "owl"]
    assert unlabel("fit", tmp_path / "r.npz", *options, "--out", out)[0] == 0
    assert OutputFilter.load(out).removed == ("dog", "fox")
