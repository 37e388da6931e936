"""Labels of tables: found by their names, in whatever order and type, or refused."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import doors
from commands import names_file, unlabel
from unlabel import OutputFilter

NAMES = ["cat", "dog", "fox", "owl"]
OTHER_ORDER = [2, 0, 3, 1]


@pytest.fixture
def rows():
    return np.random.default_rng(1).dirichlet(np.ones(4), size=50)


@pytest.fixture
def truth(rows):
    return np.array(NAMES)[rows.argmax(axis=1)]


@pytest.fixture
def fitted(rows, truth, tmp_path):
    remover = doors.fit(rows, truth, classes=NAMES, remove=["dog"])
    remover.save(tmp_path / "f.safetensors")
    return remover


def save_in_other_order(path, rows, **others):
    np.savez(path, p=rows[:, OTHER_ORDER], classes=np.array(NAMES)[OTHER_ORDER], **others)


def read_csv(path):
    options = pa.csv.ConvertOptions(column_types={"top_label": pa.string()})
    return pa.csv.read_csv(path, convert_options=options)


def refused(*arguments):
    code, _, error = unlabel(*arguments)
    assert code == 2
    assert error.count("\n") == 1
    return error


def test_apply_goes_by_the_names_in_an_npz(rows, fitted, tmp_path):
    save_in_other_order(tmp_path / "in.npz", rows)
    for out in ("out.npz", "out.csv"):
        code, _, error = unlabel(
            "apply", tmp_path / "in.npz", tmp_path / "f.safetensors", "--out", tmp_path / out
        )
        assert code == 0, error
    with np.load(tmp_path / "out.npz") as result:
        assert result["classes"].tolist() == ["cat", "fox", "owl"]
        np.testing.assert_array_equal(result["p"], fitted.apply(rows))
    table = pa.csv.read_csv(tmp_path / "out.csv")
    assert table.column_names == ["cat", "fox", "owl"]
    np.testing.assert_array_equal(np.column_stack(table.columns), fitted.apply(rows))


def test_fit_goes_by_the_names_in_an_npz(rows, truth, fitted, tmp_path):
    save_in_other_order(tmp_path / "in.npz", rows, label=truth)
    out = tmp_path / "again.safetensors"
    options = ("--remove", "dog", "--classes", names_file(tmp_path, NAMES), "--out", out)
    assert unlabel("fit", tmp_path / "in.npz", *options)[0] == 0
    again = OutputFilter.load(out)
    assert again.classes_in == tuple(NAMES)
    np.testing.assert_array_equal(again.means, fitted.means)


def test_evaluate_goes_by_the_names_in_every_npz(tmp_path):
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.full(4, 0.3), size=400)
    truth = np.array(NAMES)[[rng.choice(4, p=row) for row in rows]]
    kept = rows[:, [0, 2, 3]] / rows[:, [0, 2, 3]].sum(axis=1, keepdims=True)
    remover = doors.fit(rows, truth, classes=NAMES, remove=["dog"])
    remover.save(tmp_path / "f.safetensors")
    np.savez(tmp_path / "base.npz", p=rows, classes=NAMES, label=truth)
    np.savez(tmp_path / "retrained.npz", p=kept, classes=["cat", "fox", "owl"])
    save_in_other_order(tmp_path / "base2.npz", rows, label=truth)
    np.savez(tmp_path / "retrained2.npz", p=kept[:, ::-1], classes=["owl", "fox", "cat"])

    def evaluated(base, retrained):
        code, out, error = unlabel(
            "evaluate",
            tmp_path / base,
            *("--filter", tmp_path / "f.safetensors", "--retrained", tmp_path / retrained),
        )
        assert code == 0, error
        return out

    assert evaluated("base2.npz", "retrained2.npz") == evaluated("base.npz", "retrained.npz")


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (["cat", "dog", "fox", "emu"], "'owl' is not among them"),
        (["cat", "dog", "fox", "owl", "emu"], "a label 'emu' in 'classes'"),
    ],
)
def test_an_npz_of_other_labels_is_refused(fitted, tmp_path, classes, words):
    np.savez(tmp_path / "in.npz", p=np.full((2, len(classes)), 1 / len(classes)), classes=classes)
    out = tmp_path / "out.npz"
    error = refused("apply", tmp_path / "in.npz", tmp_path / "f.safetensors", "--out", out)
    assert words in error
    assert not out.exists()


def test_a_retrained_npz_with_a_removed_label_is_refused(rows, truth, fitted, tmp_path):
    np.savez(tmp_path / "base.npz", p=rows, classes=NAMES, label=truth)
    np.savez(tmp_path / "retrained.npz", p=rows, classes=NAMES)
    options = ("--remove", "dog", "--retrained", tmp_path / "retrained.npz")
    error = refused("evaluate", tmp_path / "base.npz", *options)
    assert "a column 'dog', a removed label" in error


@pytest.mark.parametrize("classes", [np.array("abcd"), np.array([["cat"], ["dog"]]), NAMES[:3]])
def test_names_that_are_not_one_per_column_are_refused(fitted, tmp_path, classes):
    np.savez(tmp_path / "in.npz", p=np.full((2, 4), 0.25), classes=classes)
    arguments = ("fit", tmp_path / "in.npz", "--remove", "a", "--method", "mask")
    assert "one name per column" in refused(*arguments, "--out", tmp_path / "g.safetensors")


def test_the_one_column_of_labels_is_named_where_the_label_column_is_missing(rows, truth, tmp_path):
    table = pa.table(
        {name: rows[:, i] for i, name in enumerate(NAMES)}
        | {"labels_seen": pa.array(range(50)), "intent": truth}
    )
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    arguments = ("--remove", "dog", "--out", tmp_path / "f.safetensors")
    error = refused("fit", tmp_path / "in.parquet", *arguments)
    assert "; the one that holds labels is 'intent' (--label-column)" in error
    # With two of them nobody knows which one is meant.
    pa.parquet.write_table(table.append_column("said", pa.array(truth)), tmp_path / "two.parquet")
    assert "the nearest is 'labels_seen'" in refused("fit", tmp_path / "two.parquet", *arguments)


def test_a_column_does_not_hold_confidences_and_true_labels(tmp_path):
    (tmp_path / "in.csv").write_text("0,1,2\n1,0,0\n0,1,0\n")
    options = (
        "--classes",
        names_file(tmp_path, ["0", "1", "2"]),
        "--label-column",
        "0",
        "--remove",
        "1",
    )
    error = refused("fit", tmp_path / "in.csv", *options, "--out", tmp_path / "f.safetensors")
    assert "confidences in column '0', which cannot hold the true labels too" in error


def test_columns_of_some_labels_beside_a_list_are_asked_about(fitted, tmp_path):
    table = pa.table({"cat": [0.5], "dog": [0.5], "embedding": [[0.1, 0.2, 0.3, 0.4]]})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    apply = ("apply", tmp_path / "in.parquet", tmp_path / "f.safetensors", "--out")
    error = refused(*apply, tmp_path / "out.parquet")
    assert "no column for the label 'fox', and lists in column 'embedding'" in error
    assert unlabel(*apply, tmp_path / "out.parquet", "--list-column", "embedding")[0] == 0
    # A text of that name is not a confidence.
    text = table.set_column(0, "cat", [["Tom"]]).drop(["dog"])
    pa.parquet.write_table(text, tmp_path / "in.parquet")
    assert unlabel(*apply, tmp_path / "out2.parquet")[0] == 0


def test_two_list_columns_of_one_name_are_refused(fitted, tmp_path):
    lists = pa.array([[0.25] * 4])
    pa.parquet.write_table(pa.Table.from_arrays([lists] * 2, ["p", "p"]), tmp_path / "in.parquet")
    apply = ("apply", tmp_path / "in.parquet", tmp_path / "f.safetensors", "--list-column", "p")
    assert "2 columns 'p': rename all but one" in refused(*apply, "--out", tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (np.array([False, True]), pa.array([True, False, True])),
        (np.array(["False", "True"]), pa.array([True, False, True])),
        (np.array(["false", "true"]), pa.array([True, False, True])),
        (np.array([False, True]), pa.array(["true", "false", "true"])),
        (np.array([0, 1]), pa.array([1.0, 0.0, 1.0])),
        (np.array([0.0, 1.0]), pa.array([1.0, 0.0, 1.0])),
        (np.array([1, -1]), pa.array(["-1.0", "1.0", "-1"])),
        (np.array([0, 1]), pa.array(np.array([1, 0, 1], np.float16))),
        (np.array(["no", "yes"]), pa.array(["yes", "no", "yes"]).dictionary_encode()),
        (np.array(["no", "yes"]), pa.array(["yes", "no", "yes"], pa.large_string())),
        (np.array(["no", "yes"]), pa.array(["yes", "no", "yes"], pa.string_view())),
        (np.array(["no", "yes"]), pa.array([b"yes", b"no", b"yes"])),
    ],
)
def test_true_labels_of_many_types(tmp_path, classes, labels):
    names = [*map(str, classes.tolist())]
    rows = np.array([[0.1, 0.9], [0.6, 0.4], [0.3, 0.7]])
    columns = {name: rows[:, i] for i, name in enumerate(names)}
    pa.parquet.write_table(pa.table(columns | {"label": labels}), tmp_path / "in.parquet")
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", tmp_path / "in.parquet", "--remove", names[1], "--out", out)
    assert code == 0, error
    fitted = OutputFilter.load(out)
    assert fitted.counts == (2,)
    np.testing.assert_allclose(fitted.means[0], [0.2, 0.8])


def test_a_number_that_is_not_there_is_no_label(tmp_path):
    columns = {"nan": [0.5, 0.5], "1": [0.5, 0.5], "label": [float("nan"), 1.0]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
    classes = ("--classes", names_file(tmp_path, ["nan", "1"]))
    options = (*classes, "--remove", "nan", "--out", tmp_path / "f.safetensors")
    assert (
        "1 row without a true label was skipped"
        in unlabel("fit", tmp_path / "in.parquet", *options, "--force")[2]
    )
    error = refused("fit", tmp_path / "in.parquet", *options, "--strict", "--force")
    assert "row 0: it has no true label" in error


def test_a_list_is_not_a_true_label(rows, tmp_path):
    columns = {name: rows[:2, i] for i, name in enumerate(NAMES)} | {"label": [["cat"], ["dog"]]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
    options = (
        "--classes",
        names_file(tmp_path, NAMES),
        "--remove",
        "dog",
        "--out",
        tmp_path / "f.safetensors",
    )
    error = refused("fit", tmp_path / "in.parquet", *options)
    assert "'label' has the type list" in error


def test_a_byte_order_mark_is_not_part_of_a_label(rows, truth, tmp_path):
    np.savez(tmp_path / "in.npz", p=rows, label=truth)
    (tmp_path / "names.txt").write_text("\r\n".join(NAMES) + "\r\n", encoding="utf-8-sig")
    out = tmp_path / "f.safetensors"
    options = ("--remove", "cat", "--classes", tmp_path / "names.txt", "--out", out)
    code, _, error = unlabel("fit", tmp_path / "in.npz", *options)
    assert code == 0, error
    assert OutputFilter.load(out).classes_in == tuple(NAMES)


def test_a_list_of_labels_goes_by_lines_alone(rows, tmp_path):
    np.savez(tmp_path / "in.npz", p=rows)
    names = ["a\u2028b", "c\x0bd", "e\x85f", "g"]
    (tmp_path / "names.txt").write_text("\n".join(names), encoding="utf-8")
    out = tmp_path / "f.safetensors"
    options = ("--classes", tmp_path / "names.txt", "--remove", "g", "--method", "mask")
    assert unlabel("fit", tmp_path / "in.npz", *options, "--out", out)[0] == 0
    assert OutputFilter.load(out).classes_in == tuple(names)
    (tmp_path / "names.txt").write_text("")
    assert "no labels" in refused("fit", tmp_path / "in.npz", *options, "--out", tmp_path / "g")


@pytest.mark.parametrize("classes", [(1, 25, "x"), ("2.5", 5, 7), ("True", "a", 3)])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_top_labels_of_several_types_are_texts(tmp_path, classes, suffix):
    remover = doors.fit([[0.2, 0.3, 0.5]], classes=classes, remove=[classes[1]], method="mask")
    remover.save(tmp_path / "f.safetensors")
    np.savez(tmp_path / "in.npz", p=[[0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
    out = tmp_path / f"out.{suffix}"
    apply = ("apply", tmp_path / "in.npz", tmp_path / "f.safetensors", "--top-label", "--out", out)
    code, _, error = unlabel(*apply)
    assert code == 0, error
    if suffix == "npz":
        with np.load(out) as result:
            found = result["top_label"].tolist()
            assert result["classes"].tolist() == [str(classes[0]), str(classes[2])]
    else:
        read = pa.parquet.read_table(out) if suffix == "parquet" else read_csv(out)
        found = read["top_label"].to_pylist()
    assert found == [str(classes[0]), str(classes[2])]


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_lists_of_texts_beside_the_labels_are_not_confidences(kind, rows, truth, tmp_path):
    tags = pa.array([["new", "red"]] * len(rows), pa.list_(pa.string())).cast(pa.list_(kind))
    columns = dict(zip(NAMES, rows.T, strict=True)) | {"label": truth, "tags": tags}
    path, out = tmp_path / "in.feather", tmp_path / "f.safetensors"
    pa.feather.write_feather(pa.table(columns), path)
    code, _, error = unlabel("fit", path, "--remove", "dog", "--out", out)
    assert code == 0, error
    expected = doors.fit(rows, truth, classes=NAMES, remove=["dog"])
    assert OutputFilter.load(out) == expected


def test_lists_that_may_be_embeddings_must_be_named(rows, truth, tmp_path):
    columns = dict(zip(NAMES, rows.T, strict=True)) | {"label": truth}
    embedding = np.random.default_rng(0).normal(size=(len(rows), 8)).tolist()
    path = tmp_path / "in.parquet"
    pa.parquet.write_table(pa.table(columns | {"embedding": embedding}), path)
    out = ("--out", tmp_path / "f.safetensors")
    error = refused("fit", path, "--remove", "dog", *out)
    assert "has lists in column 'embedding', and decimal numbers in the columns 'cat'" in error
    assert (
        unlabel("fit", path, "--remove", "dog", "--classes", names_file(tmp_path, NAMES), *out)[0]
        == 0
    )


def test_lists_of_probabilities_are_found_beside_decimals(rows, truth, tmp_path):
    columns = {
        "p": rows.tolist(),
        "price": rows[:, 0],
        "height": rows[:, 1],
        "label": rows.argmax(1),
    }
    pa.parquet.write_table(pa.table(columns), tmp_path / "in.parquet")
    out = ("--out", tmp_path / "f.safetensors")
    assert unlabel("fit", tmp_path / "in.parquet", "--remove", "1", *out)[0] == 0
    percentages = columns | {"p": (100 * rows).tolist()}
    pa.parquet.write_table(pa.table(percentages), tmp_path / "percentages.parquet")
    assert "as percentages do" in refused(
        "fit", tmp_path / "percentages.parquet", "--remove", "1", *out, "--force"
    )
    logits = columns | {"p": (3 * rows - 1).tolist()}
    pa.parquet.write_table(pa.table(logits), tmp_path / "logits.parquet")
    options = ("--kind", "logits", "--remove", "1", *out, "--force")
    assert "--list-column" in refused("fit", tmp_path / "logits.parquet", *options)
    options = (*options, "--list-column", "p")
    assert unlabel("fit", tmp_path / "logits.parquet", *options)[0] == 0


def test_lists_of_numbers_that_are_texts_are_found_by_a_filter(rows, tmp_path):
    doors.mask(range(4), [1]).save(tmp_path / "f.safetensors")
    lists = [[str(number) for number in row] for row in rows.tolist()]
    pa.parquet.write_table(
        pa.table({"p": lists, "price": rows[:, 0], "height": rows[:, 1]}), tmp_path / "in.parquet"
    )
    arguments = ("apply", tmp_path / "in.parquet", tmp_path / "f.safetensors")
    code, _, error = unlabel(*arguments, "--out", tmp_path / "out.parquet")
    assert code == 0, error
