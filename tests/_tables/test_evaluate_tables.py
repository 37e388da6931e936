"""Changed labels judged on tables: the labels of retrained models' tables, and their truth."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import doors
from commands import unlabel

CLASSES = ["ant", "bee", "cat", "dog", "elk", "fox"]
PLAN = {"bee": None, "cat": "pet", "dog": "pet", "elk": {"moose": 0.5, "deer": 0.5}, "ant": "fox"}
PLAN["fox"] = "ant"
RESULT = ["fox", "pet", "moose", "deer", "ant"]
NEW = {"cat": "pet", "dog": "pet", "ant": "fox", "fox": "ant"}


def write(path, classes, rows, labels=None):
    columns = {label: rows[:, column] for column, label in enumerate(classes)}
    if labels is not None:
        columns["label"] = labels
    pa.parquet.write_table(pa.table(columns), path)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A filter and a base table; tables of retrained models are written by the tests."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(6, 0.3), size=300)
    labels = [CLASSES[rng.choice(6, p=row)] for row in rows]
    write("base.parquet", CLASSES, rows, labels)
    doors.fit(rows, labels, classes=CLASSES, plan=PLAN).save("f.safetensors")
    return labels, rng.dirichlet(np.ones(5), size=300)


def evaluate(*retrained):
    options = [argument for path in retrained for argument in ("--retrained", path)]
    return unlabel(
        *("evaluate", "base.parquet", "--filter", "f.safetensors", *options),
        *("--json", "summary.json", "--force"),
    )


def in_new_labels(labels):
    return [NEW.get(label, label) for label in labels]


def in_new_labels_and_parts(labels):
    parts = iter(["moose", "deer"] * len(labels))
    return [next(parts) if label == "elk" else NEW.get(label, label) for label in labels]


@pytest.mark.parametrize("truth", [None, list, in_new_labels, in_new_labels_and_parts])
def test_true_labels_of_a_retrained_model_may_be_old_or_new(tables, truth):
    labels, rows = tables
    # The columns may be in any order: they go by their names.
    order = [3, 1, 4, 0, 2]
    names = [RESULT[column] for column in order]
    write("retrained.parquet", names, rows[:, order], truth and truth(labels))
    code, out, error = evaluate("retrained.parquet")
    assert code == 0, error
    assert "Removed: 'bee'. Merged: 'cat', 'dog' into 'pet'." in " ".join(out.split())
    with open("summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    known = [(row, NEW[label]) for row, label in zip(rows, labels, strict=True) if label in NEW]
    loss = -np.mean([np.log(row[RESULT.index(label)]) for row, label in known])
    found = {entry["output"]: entry["log_loss"] for entry in summary["figures"]}
    assert found["retrained"] == pytest.approx(loss)
    assert summary["rows"]["of_split_labels"] == labels.count("elk") > 0
    assert summary["rows"]["judged"] == 300


def summary_of(*options):
    arguments = ("evaluate", "base.parquet", *options, "--json", "summary.json", "--force")
    code, _, error = unlabel(*arguments)
    assert code == 0, error
    with open("summary.json", encoding="utf-8") as file:
        return json.load(file)


def test_labels_to_keep_are_the_other_way_to_say_what_is_removed(tables):
    kept = summary_of(*(f"--keep={label}" for label in ("ant", "cat", "dog", "fox")))
    assert kept == summary_of("--remove", "bee", "--remove", "elk")


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--keep", "ant", "--remove", "bee"],
        ["--keep", "ant", "--filter", "f.safetensors"],
        ["--remove", "ant", "--filter", "f.safetensors"],
    ],
)
def test_one_change_is_judged(tables, options):
    code, _, error = unlabel("evaluate", "base.parquet", *options)
    assert (code, error.count("\n")) == (2, 1)
    assert "Give one of a plan, labels to remove, labels to keep and a filter" in error


def first(labels, *of):
    return next(row for row, label in enumerate(labels) if label in of)


@pytest.mark.parametrize(
    ("of", "wrong"),
    [
        ("bee", "pet"),  # a removed label has no new name
        ("elk", "pet"),  # a split label is none but its parts
        ("cat", "ant"),
        ("cat", "dog"),  # of the same new label, but another old one
    ],
)
def test_another_truth_is_refused_with_its_row(tables, of, wrong):
    labels, rows = tables
    row = first(labels, of)
    for truth in (list(labels), in_new_labels(labels)):
        truth[row] = wrong
        write("retrained.parquet", RESULT, rows, truth)
        code, _, error = evaluate("retrained.parquet")
        assert code == 2
        sentence = " ".join(error.split())
        assert f"row {row}: it has the true label {wrong!r}, and the base model's table" in sentence
        assert f"{of!r}: give the same rows in the same order." in sentence


def test_a_mixture_of_old_and_new_truth_is_refused(tables):
    labels, rows = tables
    old, new = first(labels, "cat"), first(labels, "dog", "ant", "fox")
    truth = in_new_labels(labels)
    truth[old] = "cat"
    write("retrained.parquet", RESULT, rows, truth)
    code, _, error = evaluate("retrained.parquet")
    assert code == 2
    assert (
        f"row {old}: it has the old true label 'cat', and row {new} the new one {truth[new]!r}"
    ) in " ".join(error.split())


def test_each_retrained_table_may_have_labels_of_its_own_kind(tables):
    labels, rows = tables
    write("old.parquet", RESULT, rows, labels)
    write("new.parquet", RESULT, rows, in_new_labels(labels))
    assert evaluate("old.parquet", "new.parquet")[0] == 0


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("bee", "a column 'bee', a removed label: give the outputs of a model retrained without"),
        ("dog", "'dog', a label that becomes 'pet': give the outputs of a model retrained on the"),
        ("elk", "'elk', a split label: give the outputs of a model retrained on the new labels"),
    ],
)
def test_columns_of_labels_that_are_gone_are_refused(tables, label, words):
    _, rows = tables
    with_old = np.hstack([rows / 2, np.full((300, 1), 0.5)])
    write("retrained.parquet", [*RESULT, label], with_old)
    code, _, error = evaluate("retrained.parquet")
    assert code == 2
    assert words in " ".join(error.split())


def test_a_table_without_a_new_label_is_refused(tables):
    _, rows = tables
    write("retrained.parquet", RESULT[:-2], rows[:, :-2])
    code, _, error = evaluate("retrained.parquet")
    assert code == 2
    assert "no column 'deer'" in error


def test_labels_may_be_numbers_and_their_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    rows, labels = rng.dirichlet(np.ones(3), size=60), np.arange(60) % 3
    np.savez("base.npz", p=rows, label=labels)
    doors.fit(rows, labels, plan={2: 1, 1: 2}).save("f.safetensors")
    for truth in (labels, np.array([0, 2, 1])[labels], np.array(["0", "2", "1"])[labels]):
        np.savez("retrained.npz", p=rows[:, [0, 2, 1]], classes=[0, 2, 1], label=truth)
        options = ("--filter", "f.safetensors", "--retrained", "retrained.npz", "--allow-chance")
        code, _, error = unlabel("evaluate", "base.npz", *options)
        assert code == 0, error


# Rows that are skipped


@pytest.fixture
def incomplete(tables):
    """Three rows that cannot be judged; a table of a retrained model on the same rows."""
    labels, rows = tables
    labels = [*labels]
    labels[5], labels[7], labels[20] = None, "yak", "yak"
    base = pa.parquet.read_table("base.parquet")
    column = base.schema.get_field_index("label")
    pa.parquet.write_table(base.set_column(column, "label", [labels]), "base.parquet")
    write("retrained.parquet", RESULT, rows, labels)
    write("unlabelled.parquet", RESULT, rows)
    return labels, rows


@pytest.mark.parametrize("name", ["retrained.parquet", "unlabelled.parquet"])
def test_rows_that_cannot_be_judged_are_skipped_in_every_table(incomplete, name):
    labels, rows = incomplete
    code, out, error = evaluate(name)
    assert code == 0, error
    assert "1 row without a true label and 2 rows of labels that the model" in " ".join(out.split())
    with open("summary.json", encoding="utf-8") as file:
        summary = json.load(file)
    assert summary["rows"]["judged"] == 297
    known = [(row, NEW[label]) for row, label in zip(rows, labels, strict=True) if label in NEW]
    loss = -np.mean([np.log(row[RESULT.index(label)]) for row, label in known])
    found = {entry["output"]: entry["log_loss"] for entry in summary["figures"]}
    assert found["retrained"] == pytest.approx(loss)
    for changed in (*summary["most_changed"]["retained"], *summary["most_changed"]["removed"]):
        assert changed["label"] == labels[changed["row"]]


def test_strict_refuses_rows_that_cannot_be_judged(incomplete):
    code, _, error = unlabel(*("evaluate", "base.parquet", "--filter", "f.safetensors", "--strict"))
    assert code == 2
    assert "row 7" in error or "row 5" in error


def test_rows_must_be_skipped_in_all_tables(incomplete):
    labels, rows = incomplete
    write(
        "retrained.parquet", RESULT, rows, ["bee" if label is None else label for label in labels]
    )
    code, _, error = evaluate("retrained.parquet")
    assert code == 2
    assert "retrained.parquet, row 5: it has a true label in only one of this table and" in error


@pytest.mark.parametrize("n_rows", [20, 299, 301])
@pytest.mark.parametrize("has_labels", [True, False])
def test_tables_of_another_length_are_refused_with_rows_skipped_too(incomplete, n_rows, has_labels):
    labels, rows = incomplete
    at = np.arange(n_rows) % len(rows)
    write("other.parquet", RESULT, rows[at], [labels[i] for i in at] if has_labels else None)
    code, _, error = evaluate("other.parquet")
    assert code == 2
    assert error == (
        f"Error: other.parquet: it has {n_rows} rows and base.parquet 300: give the same rows "
        "in the same order.\n"
    )
