"""The command `unlabel explore`: the page of a table in any layout, read in parts."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from commands import unlabel
from explore_data import data_of
from unlabel._tables.files import formats
from unlabel.explore import render
from unlabel.explore import table as module
from unlabel.explore.sample import strata_of

NAMES = ["cat", "dog", "fox"]
ROWS = np.random.default_rng(3).dirichlet(np.ones(3), size=200).astype(np.float32).astype(float)
ROWS[7] = [0, 1, 0]
TRUTH = [NAMES[(i * i + i // 3) % 3] for i in range(200)]
IDS = [f"doc {i:03}" for i in range(200)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)


def columns(truth=TRUTH, ids=IDS):
    found = {} if ids is None else {"id": ids}
    found |= {name: ROWS[:, at] for at, name in enumerate(NAMES)}
    return found if truth is None else found | {"label": pa.array(truth, pa.string())}


def write(path, **changes):
    table = pa.table(columns(**changes))
    (pa.csv.write_csv if path.suffix == ".csv" else pa.parquet.write_table)(table, path)
    return path


def explored(table, *options):
    """The page's data, and what the command said."""
    out = table.with_name("explore.html")
    code, output, said = unlabel("explore", table, "--out", out, "--force", *options)
    assert (code, output) == (0, "")
    return out.read_text(encoding="utf-8"), said


def refused(table, *options):
    """The sentence of an error that leaves no file."""
    before = sorted(os.listdir(table.parent)) if table.parent.is_dir() else None
    out = table.with_name("explore.html")
    code, said, error = unlabel("explore", table, "--out", out, *options)
    assert (code, said) == (2, "")
    assert before is None or sorted(os.listdir(table.parent)) == before
    return error


def labels(path, names=NAMES):
    """A file of the labels, beside another one."""
    file = path.with_name("labels.txt")
    file.write_text("\n".join(names))
    return file


def jsonl(path):
    lines = [
        json.dumps({"id": i, "label": t, "scores": dict(zip(NAMES, row, strict=True))})
        for i, t, row in zip(IDS, TRUTH, ROWS.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines))
    return path, ["--key", "scores"]


def long(path):
    flat = {
        "doc": np.repeat(IDS, 3),
        "name": NAMES * 200,
        "score": ROWS.ravel(),
        "label": np.repeat(TRUTH, 3),
        "id": np.arange(600).astype(str),  # of the rows, and not of the ids
    }
    pa.csv.write_csv(pa.table(flat), path)
    return path, ["--long", "doc,name,score"]


def lists(path):
    table = pa.table({"id": IDS, "scores": ROWS.tolist(), "label": TRUTH})
    pa.parquet.write_table(table, path)
    return path, ["--list-column", "scores", "--classes", labels(path)]


def logs(path):
    with np.errstate(divide="ignore"):
        found = columns() | {name: np.log(ROWS[:, at]) for at, name in enumerate(NAMES)}
    pa.parquet.write_table(pa.table(found), path)
    return path, ["--kind", "logits", "--classes", labels(path)]


def unnormed(path):
    found = columns() | {name: ROWS[:, at] / 2 for at, name in enumerate(NAMES)}
    pa.parquet.write_table(pa.table(found), path)
    return path, ["--normalize"]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda path: (write(path), []), "in.csv"),
        (lambda path: (write(path), []), "in.parquet"),
        (lambda path: (write(path).rename(path.with_name("x")), ["--format", "csv"]), "in.csv"),
        (jsonl, "in.jsonl"),
        (long, "in.csv"),
        (lists, "in.parquet"),
        (logs, "in.parquet"),
        (unnormed, "in.parquet"),
    ],
    ids=["csv", "parquet", "format", "json lines", "long", "lists", "logits", "normalize"],
)
def test_any_layout_gives_the_page_of_its_rows(tmp_path, make, name):
    table, options = make(tmp_path / name)
    html, said = explored(table, "--rows", "50", "--title", "A & B", *options)
    expected = data_of(render(ROWS, NAMES, TRUTH, IDS, title="A & B", rows=50))
    data = data_of(html)
    for key in ("step", "rounding"):
        assert data.pop(key) == pytest.approx(expected.pop(key), rel=1e-6)
    if "logits" not in options and "--normalize" not in options:
        assert html == render(ROWS, NAMES, TRUTH, IDS, title="A & B", rows=50)
        assert data.pop("codes") == expected.pop("codes")
    else:  # logarithms are rounded
        del data["codes"], expected["codes"]
    assert data == expected
    assert f"{table.with_name('explore.html')}: a sample of 50 of 200 rows, in 16 bits" in said


def test_the_closing_line_says_what_the_page_holds(tmp_path):
    table = write(tmp_path / "in.csv")
    html, said = explored(table, "--classes", labels(table))
    data = data_of(html)
    assert data["title"] == "in.csv"
    assert said == (
        f"{tmp_path / 'explore.html'}: all 200 rows, in 16 bits (the largest rounding of a "
        f"confidence is {data['rounding']:.2g}), in {len(html.encode()) / 1000:,.0f} kB.\n"
    )


def test_tables_without_true_labels_or_ids(tmp_path):
    for truth in (None, [None] * 200):
        html, _ = explored(write(tmp_path / "in.parquet", truth=truth, ids=None), "--rows", "20")
        assert html == render(ROWS, NAMES, title="in.parquet", rows=20)
    data = data_of(html)
    assert data["truth"] is data["ids"] is None
    assert len(data["numbers"]) == 20


def test_rows_of_other_labels_stay_and_are_counted(tmp_path):
    truth = ["cta", None, "", *TRUTH[3:]]
    html, said = explored(write(tmp_path / "in.parquet", truth=truth))
    data = data_of(html)
    assert (data["rows"], data["aside"]) == (200, 1)
    assert data["truth"] == [-1, -1, -1, *(NAMES.index(label) for label in TRUTH[3:])]
    assert (
        "3 rows are in the page without a true label, 1 of them of labels that the model does not "
        "have, such as 'cta'."
    ) in said


def test_the_column_of_ids(tmp_path):
    table = columns() | {"name": [i * 10 for i in range(200)]}
    pa.parquet.write_table(pa.table(table), path := tmp_path / "in.parquet")
    assert data_of(explored(path, "--classes", labels(path))[0])["ids"] == IDS
    data = data_of(explored(path, "--id-column", "name", "--classes", labels(path))[0])
    assert data["ids"] == [str(i * 10) for i in range(200)]
    os.remove(tmp_path / "explore.html")
    assert "in.parquet: it has no ids in 'nmae': choose" in refused(path, "--id-column", "nmae")
    assert "has no ids in 'dog'" in refused(path, "--id-column", "dog")


def test_lists_are_no_ids(tmp_path):
    path, options = lists(tmp_path / "in.parquet")
    tags = pa.array([["x"]] * 200)
    pa.parquet.write_table(pa.parquet.read_table(path).append_column("tags", tags), path)
    assert "'tags' has the type list" in refused(path, "--id-column", "tags", *options)


def test_a_label_called_id_is_no_column_of_ids(tmp_path):
    table = pa.table({"en": ROWS[:, 0], "id": ROWS[:, 1], "fr": ROWS[:, 2]})
    pa.parquet.write_table(table, path := tmp_path / "in.parquet")
    data = data_of(explored(path, "--classes", labels(path, ["en", "id", "fr"]))[0])
    assert data["classes"] == ["en", "id", "fr"]
    assert data["ids"] is None


def test_mistakes_leave_no_file(tmp_path):
    table = write(tmp_path / "in.csv")
    assert "0 rows are no sample: give at least 1 (--rows)." in refused(table, "--rows", "0")
    assert "no column 'truth'" in refused(table, "--label-column", "truth")
    assert "other.csv: No such file" in refused(tmp_path / "other.csv")
    named = refused(table, "--classes", labels(table), "--kind", "logits")
    assert "are probabilities, not logits" in named
    other = write(tmp_path / "other.csv", truth=["cow"] * 200)
    assert "no label 'cow'" in refused(other)
    bad = columns()
    bad["cat"] = bad["cat"].copy()
    bad["cat"][190] = 0.99
    pa.csv.write_csv(pa.table(bad), tmp_path / "bad.csv")
    assert "bad.csv, row 190: it is not a probability vector" in refused(tmp_path / "bad.csv")
    (tmp_path / "empty.csv").write_text("cat,dog,fox\n")
    assert "empty.csv" in refused(tmp_path / "empty.csv", "--classes", labels(table))
    code, _, error = unlabel("explore", "-", "--out", tmp_path / "explore.html")
    assert (code, error) == (
        2,
        "Error: Only apply reads standard input: give the table as a file.\n",
    )


def test_guessed_columns_of_logits_need_rows_of_each_label(tmp_path):
    found = columns() | {name: ROWS[:, at] * 9 - 4 for at, name in enumerate(NAMES)}
    pa.parquet.write_table(pa.table(found), path := tmp_path / "in.parquet")
    assert data_of(explored(path, "--kind", "logits")[0])["classes"] == NAMES
    os.remove(tmp_path / "explore.html")
    del found["label"]
    pa.parquet.write_table(pa.table(found), path)
    assert "name the labels (--classes)" in refused(path, "--kind", "logits")
    explored(path, "--kind", "logits", "--classes", labels(path))


def test_a_file_is_replaced_only_if_that_is_allowed(tmp_path):
    table = write(tmp_path / "in.csv")
    (tmp_path / "explore.html").write_text("mine")
    assert "explore.html: it exists already" in refused(table)
    assert (tmp_path / "explore.html").read_text() == "mine"
    assert data_of(explored(table)[0])["rows"] == 200


def test_the_table_is_read_in_parts(tmp_path, monkeypatch):
    lengths = []

    def watched(rows, truth):
        lengths.append(len(rows))
        return strata_of(rows, truth)

    monkeypatch.setattr(module, "strata_of", watched)
    html, _ = explored(write(tmp_path / "in.csv"), "--rows", "12")
    assert data_of(html)["rows"] == 12
    assert max(lengths) <= 7
    assert sum(lengths) == 2 * 200
