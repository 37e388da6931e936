"""Long tables that cannot be filtered: one sentence each, which names the row, and nothing left."""

import io
import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import doors
from unlabel import UnlabelError
from unlabel._tables.files import formats
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table, fit_table

NAMES = ["cat", "dog", "fox"]
SHARES = ((b"cat", 5), (b"dog", 3), (b"fox", 2))
GOOD = "id,label,score\na,cat,.5\na,dog,.3\na,fox,.2\nb,cat,.2\nb,dog,.7\nb,fox,.1\n"


def no_progress(part):
    pass


def parquet(**columns):
    file = io.BytesIO()
    table = {"id": [*"aaabbb"], "label": NAMES * 2, "score": [0.5, 0.3, 0.2] * 2}
    pa.parquet.write_table(pa.table(table | columns), file)
    return file.getvalue()


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new).encode()


CASES = {
    "no_id.csv": (changed("b,dog", ",dog"), "row 4: it has no id in column 'id': give it one."),
    "null_id.parquet": (
        parquet(id=["a", "a", None, "b", "b", "b"]),
        "row 2: it has no id in column 'id': give it one.",
    ),
    "nan_id.parquet": (
        parquet(id=[1.0, 1.0, 1.0, np.nan, 2.0, 2.0]),
        "row 3: it has no id in column 'id': give it one.",
    ),
    "nested_id.parquet": (
        parquet(id=[[1]] * 6),
        "the column 'id' has the type list<element: int64> and ids are texts or numbers: choose "
        "another one (long=).",
    ),
    "comes_back.csv": (
        GOOD.encode() + b"a,cat,1\n",
        "the id 'a' comes back in row 6, after other ids: sort the table by 'id'.",
    ),
    "comes_back_far_below.csv": (
        GOOD.encode()
        + b"".join(b"c%02d,%s,.%d\n" % (i, *x) for i in range(30) for x in SHARES)
        + b"b,cat,1\n",
        "the id 'b' comes back in row 96, after other ids: sort the table by 'id'.",
    ),
    "number_comes_back.parquet": (
        parquet(id=np.repeat([2, 1, 2], 3), label=NAMES * 3, score=np.tile([0.5, 0.25, 0.25], 3)),
        "the id '2' comes back in row 6, after other ids: sort the table by 'id'.",
    ),
    "by_label.csv": (
        b"id,label,score\na,cat,.5\nb,cat,.5\nc,cat,.5\nd,cat,.5\ne,cat,.5\na,dog,.5\n",
        "row 0 (id 'a'): it does not name the label 'dog' among the 1 of its id: give all labels, "
        "in rows that stand together",
    ),
    "no_label.csv": (
        changed("a,fox", "a,"),
        "row 2 (id 'a'): it has no label in column 'label': give it one.",
    ),
    "null_label.parquet": (
        parquet(label=["cat", "dog", "fox", "cat", None, "fox"]),
        "row 4 (id 'b'): it has no label in column 'label': give it one.",
    ),
    "nested_label.parquet": (
        parquet(label=[["cat"]] * 6),
        "it has list<element: string> in column 'label' and labels are texts or numbers: choose "
        "another one (long=).",
    ),
    "no_score.csv": (
        changed("b,dog,.7", "b,dog,"),
        "row 4 (id 'b'): it has no score in column 'score': give it one.",
    ),
    "null_score.parquet": (
        parquet(score=[0.5, 0.3, None] * 2),
        "row 2 (id 'a'): it has no score in column 'score': give it one.",
    ),
    "nan_score.parquet": (
        parquet(score=[0.5, 0.5, 0.0, 0.5, float("nan"), 0.1]),
        "row 4 (id 'b'): it has no score in column 'score': give it one.",
    ),
    "text_score.csv": (
        changed("b,dog,.7", "b,dog,much"),
        "row 4 (id 'b'): it has 'much' in column 'score': give a number.",
    ),
    "nested_score.parquet": (
        parquet(score=[[0.5]] * 6),
        "row 0 (id 'a'): it has '[0.5]' in column 'score': give a number.",
    ),
    "twice.csv": (
        changed("b,fox", "b,dog"),
        "row 3 (id 'b'): it names the label 'dog' twice: give it one score.",
    ),
    "missing.csv": (
        changed("b,dog,.7\n", ""),
        "row 3 (id 'b'): it does not name the label 'dog' among the 2 of its id: give all labels, "
        "in rows that stand together, or say that rows are partial (partial=).",
    ),
    "other_label.csv": (
        changed("b,fox", "b,foxx"),
        "row 5 (id 'b'): the model has no label 'foxx': the nearest is 'fox'.",
    ),
    "sum.csv": (
        changed("b,dog,.7", "b,dog,.9"),
        "row 3 (id 'b'): it is not a probability vector: it sums to 1.2",
    ),
    "negative.csv": (
        changed("b,dog,.7", "b,dog,-.7"),
        "row 3 (id 'b'): it is not a probability vector: the label 'dog' is -0.7;",
    ),
    "infinite.csv": (
        changed("b,dog,.7", "b,dog,inf"),
        "row 3 (id 'b'): it is not a probability vector: the label 'dog' is infinite; "
        "give a number or drop the row.",
    ),
    "too_many.csv": (
        GOOD.encode() + b"b,cat,.1\n" * 20,
        "row 3 (id 'b'): it is the first of more than 3 rows of its id, and there are 3 labels: "
        "give each label once.",
    ),
    "decimal_id.parquet": (
        parquet(id=[Decimal(1)] * 3 + [None] + [Decimal(2)] * 2),
        "row 3: it has no id in column 'id': give it one.",
    ),
    "wide.csv": (b"cat,dog,fox\n.5,.3,.2\n", "it has no column 'id'; the nearest is"),
    "two_columns.csv": (
        b"id,label,score,score\na,cat,1,1\n",
        "it has 2 columns 'score': rename all but one.",
    ),
    "added.csv": (
        b"id,label,score,top_label\na,cat,1,x\n",
        "it has a column 'top_label' already: rename it first.",
    ),
}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 4)


def refusal(tmp_path, name, content, out="out.parquet", fitted=None, **options):
    (tmp_path / name).write_bytes(content)
    fitted = fitted or doors.mask(NAMES, {"dog": None})
    options = {"reading": Reading(long=("id", "label", "score")), "top_label": True} | options
    with pytest.raises(UnlabelError) as caught:
        apply_table(fitted, tmp_path / name, tmp_path / out, ApplyOptions(**options), no_progress)
    assert os.listdir(tmp_path) == [name]
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(tmp_path / name))
    return (
        message.removeprefix(str(tmp_path / name))
        .removeprefix(":")
        .removeprefix(",")
        .removeprefix(" ")
    )


@pytest.mark.parametrize("name", CASES)
def test_one_sentence_names_the_row(tmp_path, name):
    content, told = CASES[name]
    assert refusal(tmp_path, name, content).startswith(told)


def test_labels_that_the_column_cannot_hold(tmp_path):
    fitted = doors.mask([0, 1, 2], {1: "other"})
    content = parquet(label=[0, 1, 2] * 2)
    (tmp_path / "in.parquet").write_bytes(content)
    options = ApplyOptions(reading=Reading(long=("id", "label", "score")))
    with pytest.raises(UnlabelError) as caught:
        apply_table(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet", options, no_progress)
    assert str(caught.value) == (
        "The column 'label' has the type int64 and cannot hold the labels '0', 'other', '2': turn "
        "it into texts first."
    )
    assert os.listdir(tmp_path) == ["in.parquet"]


@pytest.mark.parametrize("cells", [["cat", "dog"], ["cat", None], [None, "cat"]])
def test_columns_that_options_name_have_one_value_per_id(tmp_path, cells):
    table = parquet(was=["cat"] * 3 + [*cells, "cat"], truth=["cat"] * 3 + [*cells, "cat"])
    (tmp_path / "in.parquet").write_bytes(table)
    long = Reading(long=("id", "label", "score"))
    says = (
        r"in.parquet, row 3 \(id 'b'\): it is the first of its id, whose rows have several values "
        "in column '{}': give all of them the same.$"
    )
    mask = doors.mask(NAMES, ["fox"])
    options = ApplyOptions(reading=long, update_column="was")
    with pytest.raises(UnlabelError, match=says.format("was")):
        apply_table(mask, tmp_path / "in.parquet", tmp_path / "out.parquet", options, no_progress)
    with pytest.raises(UnlabelError, match=says.format("truth")):
        fit_table(
            tmp_path / "in.parquet",
            plan=None,
            remove=["fox"],
            keep=None,
            method="osr",
            kind="probabilities",
            allow_chance=True,
            calibrate=False,
            classes=NAMES,
            reading=long,
            label_column="truth",
            progress=no_progress,
        )
    assert os.listdir(tmp_path) == ["in.parquet"]
    apply_table(
        mask, tmp_path / "in.parquet", tmp_path / "out.parquet", ApplyOptions(long), no_progress
    )
    kept = pa.parquet.read_table(tmp_path / "out.parquet")["was"].to_pylist()
    assert kept == ["cat", "cat", *cells]  # the rows of foxes are gone


@pytest.mark.parametrize("column", ["id", "label", "score"])
def test_the_three_columns_are_not_updated(tmp_path, column):
    assert refusal(tmp_path, "in.csv", GOOD.encode(), update_column=column) == (
        f"it has ids, labels or scores in column {column!r}: choose another column of labels "
        "(update_column=)."
    )


@pytest.mark.parametrize("out", ["out.npy", "out.npz"])
def test_long_tables_do_not_fit_into_arrays(tmp_path, out):
    (tmp_path / "in.csv").write_text(GOOD)
    options = ApplyOptions(reading=Reading(long=("id", "label", "score")))
    fitted = doors.mask(NAMES, {"dog": None})
    with pytest.raises(UnlabelError, match=r"A long table does not fit into .*: name it \.csv"):
        apply_table(fitted, tmp_path / "in.csv", tmp_path / out, options, no_progress)
    assert os.listdir(tmp_path) == ["in.csv"]


def test_a_column_named_twice(tmp_path):
    reading = Reading(long=("id", "label", "label"))
    (tmp_path / "in.csv").write_text(GOOD)
    options = ApplyOptions(reading=reading)
    with pytest.raises(UnlabelError, match=r"The column 'label' is named twice"):
        apply_table(
            doors.mask(NAMES, {"dog": None}),
            tmp_path / "in.csv",
            tmp_path / "out.csv",
            options,
            no_progress,
        )


FITS = {
    "empty": ("id,label,score\n", "there are no rows: give a table with at least one."),
    "no_label": (
        "id,label,score\na,,1\n",
        "row 0: it has no label in column 'label': give it one.",
    ),
    "twice": (
        "id,label,score\na,cat,1\na,cat,0\n",
        "the first id in column 'label': the label 'cat' appears twice: give each label once",
    ),
    "own_column": (
        GOOD,
        "it has ids, labels and scores in the columns 'id', 'label', 'score', none",
    ),
    "another_label": (
        GOOD.replace("b,fox", "b,owl"),
        "row 5 (id 'b'): the model has no label 'owl': it has 3 labels: 'cat', 'dog', 'fox'. The",
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_tables_without_labels_for_fitting(tmp_path, name):
    content, told = FITS[name]
    (tmp_path / "in.csv").write_text(content)
    with pytest.raises(UnlabelError) as caught:
        fit_table(
            tmp_path / "in.csv",
            plan=None,
            remove=["cat"],
            keep=None,
            method="mask" if name == "another_label" else "osr",
            kind="probabilities",
            allow_chance=True,
            calibrate=False,
            classes=None,
            reading=Reading(long=("id", "label", "score")),
            label_column="label",
            progress=no_progress,
        )
    message = (
        str(caught.value).removeprefix(str(tmp_path / "in.csv")).removeprefix(":").removeprefix(",")
    )
    assert message.removeprefix(" ").startswith(told)


def test_missing_true_labels_name_the_column_that_holds_them(tmp_path):
    lines = ["id,label,score,truth"]
    lines += [f"{line},{name}" for line, name in zip(GOOD.split()[1:], NAMES * 2, strict=True)]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    with pytest.raises(UnlabelError, match="; the one that holds labels is 'truth'"):
        fit_table(
            tmp_path / "in.csv",
            plan=None,
            remove=["cat"],
            keep=None,
            method="osr",
            kind="probabilities",
            allow_chance=True,
            calibrate=False,
            classes=None,
            reading=Reading(long=("id", "label", "score")),
            label_column="turth",
            progress=no_progress,
        )
