"""Formats of tables: endings, separators, packed files and feather files."""

import csv
import gzip
import io
import re
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import doors
from unlabel import UnlabelError
from unlabel._tables.files import csv_input, formats
from unlabel._tables.files.csv_rows import CsvRows
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table

NAMES = ["cat", "dog", "fox"]
FILTER = doors.mask(NAMES, ["dog"])
ROWS = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.5, 0.5]]
# Without dog: divided by 0.75, 0.25 and 0.5.
RESULTS = [["0.6666666666666666", "0.3333333333333333"], ["0.5", "0.5"], ["0", "1"]]


def separated(separator, texts, end="\n"):
    """A csv table of ROWS beside texts, as Python writes it."""
    file = io.StringIO()
    # Python does not quote \r if lines end otherwise.
    quoting = csv.QUOTE_ALL if "\r" in "".join(texts) else csv.QUOTE_MINIMAL
    writer = csv.writer(file, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerow([*NAMES, "text"])
    writer.writerows([*row, text] for row, text in zip(ROWS, texts, strict=True))
    return file.getvalue()


def cells(path, separator):
    """The cells of a csv file, as Python reads them."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    file = io.StringIO(content.decode(), newline="")
    return [*csv.reader(file, delimiter=separator, strict=True)]


def expected(texts):
    rows = zip(RESULTS, texts, strict=True)
    return [["cat", "fox", "text"], *([*result, text] for result, text in rows)]


def apply(source, out, **reading):
    options = ApplyOptions(reading=Reading(**reading), overwrite=True)
    return apply_table(FILTER, source, out, options, lambda part: None)


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("t.csv", None, "csv"),
        ("t.csv.gz", None, "csv"),
        ("t.tsv", None, "tsv"),
        ("t.tsv.gz", None, "tsv"),
        ("t.jsonl", None, "jsonl"),
        ("t.jsonl.gz", None, "jsonl"),
        ("t.ndjson", None, "jsonl"),
        ("t.ndjson.gz", None, "jsonl"),
        ("t.parquet", None, "parquet"),
        ("t.feather", None, "feather"),
        ("t.arrow", None, "feather"),
        ("t.npy", None, "npy"),
        ("t.npz", None, "npz"),
        ("t.csv", "tsv", "tsv"),
        ("t", "parquet", "parquet"),
        ("-", "csv", "csv"),
    ],
)
def test_the_format_is_the_one_given_or_the_endings(name, given, found):
    assert formats.format_of(Path(name), given) == found


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("t.txt", None, r"t\.txt: it has no known ending: name it \.parquet, .* \.npy or \.npz\.$"),
        ("t.gz", None, "no known ending"),
        ("t.parquet.gz", None, "no known ending"),
        ("-", None, "Standard input has no ending: name its format \\(format=\\)"),
        ("-", "npz", "Tables in npz cannot be piped: .* csv, tsv or jsonl"),
    ],
)
def test_no_format(name, given, words):
    with pytest.raises(UnlabelError, match=words):
        formats.format_of(Path(name), given)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".tsv.gz"])
@pytest.mark.parametrize("out_ending", [".csv", ".csv.gz", ".tsv", ".tsv.gz"])
def test_packed_files_and_tabs(tmp_path, ending, out_ending):
    texts = ["a", "b, c", "d\te"]
    content = separated("\t" if ".tsv" in ending else ",", texts).encode()
    source, out = tmp_path / f"in{ending}", tmp_path / f"out{out_ending}"
    source.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    apply(source, out)
    assert cells(out, "\t" if ".tsv" in out_ending else ",") == expected(texts)
    before = out.read_bytes()
    apply(source, out)
    assert out.read_bytes() == before


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_the_separator_is_found_in_the_header_and_kept(tmp_path, separator):
    texts = ["a", f"b{separator}c", "d, e"]
    (tmp_path / "in.csv").write_text(separated(separator, texts))
    apply(tmp_path / "in.csv", tmp_path / "out.csv")
    assert cells(tmp_path / "out.csv", separator) == expected(texts)
    apply(tmp_path / "in.csv", tmp_path / "out.tsv")
    assert cells(tmp_path / "out.tsv", "\t") == expected(texts)
    apply(tmp_path / "in.csv", tmp_path / "out.parquet")
    assert pa.parquet.read_table(tmp_path / "out.parquet")["text"].to_pylist() == texts


@pytest.mark.parametrize(
    ("given", "separator"), [(":", ":"), (" ", " "), ("tab", "\t"), ("\\t", "\t"), ("\t", "\t")]
)
def test_the_separator_that_is_given_wins(tmp_path, given, separator):
    header = '"cat;a","dog;b","fox;c",text\n'  # with semicolons, which are not looked at
    names = ["cat;a", "dog;b", "fox;c"]
    text = separated(separator, ["a", "b;c", "d,e"])
    text = header.replace(",", separator) + text.partition("\n")[2]
    (tmp_path / "table").write_text(text)
    options = ApplyOptions(reading=Reading(format="csv", separator=given))
    fitted = doors.mask(names, ["dog;b"])
    apply_table(fitted, tmp_path / "table", tmp_path / "out.csv", options, lambda part: None)
    after = cells(tmp_path / "out.csv", separator)
    assert after == [["cat;a", "fox;c", "text"], *expected(["a", "b;c", "d,e"])[1:]]


@pytest.mark.parametrize("separator", ["", ";;", "é", "\n", "\0", "1", "e", ".", "-", "+", '"'])
def test_what_cannot_be_a_separator(tmp_path, separator):
    (tmp_path / "in.csv").write_text(separated(",", "abc"))
    with pytest.raises(UnlabelError, match=re.escape(f"The separator is {separator!r}")):
        apply(tmp_path / "in.csv", tmp_path / "out.csv", separator=separator)


def test_only_csv_has_separators(tmp_path):
    np.save(tmp_path / "in.npy", ROWS)
    with pytest.raises(UnlabelError, match=r"in\.npy: it is read as npy, which has no separators"):
        apply(tmp_path / "in.npy", tmp_path / "out.npy", separator=";")


SIGNS = st.text(st.sampled_from([*",;\t|\" \r\n'a\\é", "\ufeff"]), max_size=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("separated")


@given(st.lists(SIGNS, min_size=3, max_size=3), st.sampled_from(",;\t|:"), st.integers(1, 80))
def test_any_text_comes_through_beside_the_confidences(folder, texts, separator, block):
    source, out = folder / "in.csv", folder / "out.csv"
    source.write_text(separated(separator, texts), newline="")
    apply(source, out, separator=separator)
    whole = out.read_bytes()
    assert cells(out, separator) == expected(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_input, "LEAST_BLOCK", block)
        patch.setattr(csv_input, "ROWS_PER_BLOCK", 0)
        apply(source, out, separator=separator)
    assert out.read_bytes() == whole  # a row does not depend on its block


def plain_row_ends(text, separator):
    """The ends of the rows of a csv text, sign by sign."""
    ends, state = [], "start"
    for at, sign in enumerate(text):
        if state == "quoted":
            state = "second?" if sign == '"' else "quoted"
        elif state == "second?" and sign == '"':
            state = "quoted"
        elif sign == "\n":
            ends.append(at + 1)
            state = "start"
        elif sign == separator:
            state = "start"
        else:
            state = "quoted" if state == "start" and sign == '"' else "within"
    return ends


@settings(max_examples=500)
@given(st.text(st.sampled_from('a,;"\n'), max_size=30), st.sampled_from(",;"), st.booleans())
def test_the_ends_of_rows(text, separator, is_sparse):
    if is_sparse:  # quotes are counted if they are few, and otherwise read one by one
        text = "".join(f"{sign}        " if sign == "a" else sign for sign in text)
    ends, rows = plain_row_ends(text, separator), CsvRows(separator)
    assert rows.end_of_first(text.encode()) == (ends[0] if ends else 0)
    assert rows.end_of_last(text.encode()) == (ends[-1] if ends else 0)


@pytest.mark.parametrize("quoted", ["", 'a "b', '"', '"a, b"\n', "5,"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_in_any_way(tmp_path, monkeypatch, end, quoted):
    monkeypatch.setattr(csv_input, "LEAST_BLOCK", 16)
    monkeypatch.setattr(csv_input, "ROWS_PER_BLOCK", 0)
    texts = ["a", quoted, "c"]
    content = f"\ufeff{end}{end}{separated(',', texts, end)}{end}"
    (tmp_path / "in.csv").write_text(content, newline="")
    apply(tmp_path / "in.csv", tmp_path / "out.csv")
    assert cells(tmp_path / "out.csv", ",") == expected(texts)


def test_quotes_within_a_cell_are_letters(tmp_path):
    lines = ["cat,dog,fox,text", '.5,.25,.25,5" nails', '.125,.75,.125,a""b', "0,.5,.5,c", ""]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    apply(tmp_path / "in.csv", tmp_path / "out.csv")
    assert cells(tmp_path / "out.csv", ",") == expected(['5" nails', 'a""b', "c"])


def test_a_row_of_a_later_block_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_input, "LEAST_BLOCK", 64)
    monkeypatch.setattr(csv_input, "ROWS_PER_BLOCK", 0)
    lines = ["cat,dog,fox", *[".5,.25,.25"] * 99, "", ".5,.5", ".5,.25,.25", ""]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    with pytest.raises(
        UnlabelError, match="row 99: it does not have one cell per column, but 2 for 3"
    ):
        apply(tmp_path / "in.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("layout", ["wide", "list"])
def test_feather_gives_what_parquet_gives(tmp_path, monkeypatch, compression, layout):
    monkeypatch.setattr(formats, "BATCH_ROWS", 7)
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    columns = dict(zip(NAMES, rows.T, strict=True)) if layout == "wide" else {"p": rows.tolist()}
    others = {"id": range(50), "kind": pa.array(["a", "b"] * 25).dictionary_encode()}
    table = pa.table(columns | others)
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    pa.feather.write_feather(table, str(tmp_path / "in.arrow"), compression, chunksize=20)
    apply(tmp_path / "in.parquet", tmp_path / "out.parquet")
    apply(tmp_path / "in.arrow", tmp_path / "out.feather")
    after = pa.feather.read_table(tmp_path / "out.feather")
    assert after == pa.parquet.read_table(tmp_path / "out.parquet")
    assert after["kind"].type == table["kind"].type
    polars = pytest.importorskip("polars")
    assert polars.read_ipc(tmp_path / "out.feather")["id"].to_list() == [*range(50)]


def test_dictionaries_that_differ_from_batch_to_batch_grow(tmp_path):
    kinds = [["a", "b"], ["c", "a"], ["b", "d"]]
    columns = {name: [0.25, 0.25] if name != "fox" else [0.5, 0.5] for name in NAMES}
    parts = [pa.table(columns | {"kind": pa.array(kind).dictionary_encode()}) for kind in kinds]
    with pa.parquet.ParquetWriter(tmp_path / "in.parquet", parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BATCH_ROWS", 2)
        apply(tmp_path / "in.parquet", tmp_path / "out.feather")
    after = pa.feather.read_table(tmp_path / "out.feather")
    assert after["kind"].to_pylist() == [*chain(*kinds)]
    assert after["kind"].type == parts[0]["kind"].type


def test_a_feather_file_without_rows_stays_one(tmp_path):
    table = pa.table({name: pa.array([], pa.float32()) for name in NAMES})
    pa.feather.write_feather(table, str(tmp_path / "in.feather"))
    assert apply(tmp_path / "in.feather", tmp_path / "out.feather").written == 0
    assert pa.feather.read_table(tmp_path / "out.feather").schema == table.drop("dog").schema


def test_the_progress_of_a_packed_file_is_that_of_its_bytes(tmp_path):
    lines = ["cat,dog,fox", *["0.5,0.25,0.25"] * 300_000, ""]
    with gzip.open(tmp_path / "in.csv.gz", "wt", compresslevel=1) as file:
        file.write("\n".join(lines))
    seen = []
    options = ApplyOptions()
    apply_table(FILTER, tmp_path / "in.csv.gz", tmp_path / "out.tsv.gz", options, seen.append)
    assert seen == sorted(seen)
    assert seen[0] < 0.9
    assert seen[-1] == 1
    with gzip.open(tmp_path / "out.tsv.gz", "rt") as file:
        assert sum(1 for _ in file) == 300_001
