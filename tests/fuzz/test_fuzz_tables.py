"""Tables that were edited, in every format: read, fitted on and filtered."""

import csv
import gzip
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from hypothesis import given, settings
from hypothesis import strategies as st

import doors
import unlabel._tables.json_lines.opening  # noqa: F401  (imported on use, when it is not traced any more)
from fuzz_bounded import check_sentence, fuzzed_file
from fuzz_edits import NUMBERS, TEXTS, edited_bytes, edited_json
from unlabel import UnlabelError
from unlabel._tables.files.formats import open_table
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table, fit_table

CLASSES = ["cat", "dog", "fox"]
ROWS = np.array([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
LABELS = ["cat", "dog", "cat", "fox"]
FILTER = doors.fit(ROWS, LABELS, classes=CLASSES, remove=["cat"])
FILTER.apply(ROWS)  # compiled before the clock runs
CELLS = st.sampled_from([*TEXTS, *map(str, NUMBERS), ".5", " .5", "1,5", '"', "a\nb", "50%"])
OUTPUTS = st.sampled_from([".csv", ".tsv.gz", ".parquet", ".feather", ".npz", ".npy"])
KINDS = ["csv", "csv_gz", "feather", "jsonl", "npy", "npz", "parquet"]


def csv_of(cells):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cells)
    return text.getvalue().encode("utf-8", "surrogatepass")


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def npz_of(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def parquet_of(columns):
    file = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def feather_of(columns, compression):
    file, table = io.BytesIO(), pa.table(columns)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table)
    return file.getvalue()


@st.composite
def edited_csv(draw):
    numbered = zip(ROWS.tolist(), LABELS, strict=True)
    cells = [[*CLASSES, "label"], *([*map(str, row), label] for row, label in numbered)]
    for _ in range(draw(st.integers(0, 2))):
        row = draw(st.sampled_from(cells))
        row[draw(st.integers(0, len(row) - 1))] = draw(CELLS)
    content = csv_of(cells)
    return draw(st.just(content) | edited_bytes(content))


FORMS = [
    lambda row: dict(zip(CLASSES, row, strict=True)),
    lambda row: {"labels": CLASSES, "scores": row},
    lambda row: [{"label": name, "score": s} for name, s in zip(CLASSES, row, strict=True)],
]


@st.composite
def edited_jsonl(draw):
    form, key = draw(st.sampled_from(FORMS)), draw(st.sampled_from([None, "scores", "a:b"]))
    lines = []
    for row, label in zip(ROWS.tolist(), LABELS, strict=True):
        scores = form(row)
        lines.append(scores if key is None else {key: scores, "label": label})
    if draw(st.booleans()):
        lines = draw(edited_json(lines))
    ends = [draw(st.sampled_from(["\n", "\n", "\r\n", "\n\n", " "])) for _ in lines]
    text = "".join(json.dumps(line) + end for line, end in zip(lines, ends, strict=True))
    content = text.encode("utf-8", "surrogatepass")
    return draw(st.just(content) | edited_bytes(content))


ARRAYS = [
    ROWS,
    ROWS.astype(np.float16),
    ROWS.astype(">f4"),
    np.asfortranarray(ROWS),
    ROWS[:0],
    ROWS[:, :0],
    ROWS[0],
    np.array(LABELS),
    np.arange(4),
    np.array([True, False, True, True]),
    np.array("2026-01-01", "M8[s]").repeat(4),
    np.array(7),
    ROWS + 1j,
]
NPYS = st.sampled_from([npy_of(array) for array in ARRAYS])


@st.composite
def edited_npy(draw):
    return draw(NPYS.flatmap(lambda content: st.just(content) | edited_bytes(content)))


@st.composite
def edited_npz(draw):
    members = {"p.npy": npy_of(ROWS), "label.npy": npy_of(np.array(LABELS))}
    if draw(st.booleans()):
        members["classes.npy"] = npy_of(np.array(draw(st.permutations(CLASSES))))
    name = draw(st.sampled_from(["file.npy", "classes.npy", "allow_pickle.npy", "x", "../x.npy"]))
    if draw(st.booleans()):
        members[draw(st.sampled_from([*members, name]))] = draw(edited_npy())
    content = npz_of(members)
    return draw(st.just(content) | edited_bytes(content))


COLUMNS = [
    ROWS[:, 0],
    ROWS[:, 0].astype(np.float32),
    pa.array(LABELS),
    pa.array(LABELS).dictionary_encode(),
    pa.array([None, 0.5, float("nan"), 0.1]),
    pa.array([[0.5, 0.5]] * 4),
    pa.array([[0.5, None, 0.2], [], None, [1.0]]),
    pa.array([[[0.5]]] * 4),
    pa.array([{"x": 1}] * 4),
    pa.array([b"\xff"] * 4),
    pa.array(range(4), pa.decimal128(5, 2)),
    pa.array(range(4), pa.date32()),
    pa.nulls(4),
]


@st.composite
def edited_csv_gz(draw):
    content = gzip.compress(draw(edited_csv()), mtime=0)
    return draw(st.just(content) | edited_bytes(content))


@st.composite
def tables_of_columns(draw):
    if draw(st.booleans()):
        columns = dict(zip(CLASSES, ROWS.T, strict=True)) | {"label": pa.array(LABELS)}
    else:
        columns = {"confidences": pa.array(ROWS.tolist()), "label": pa.array(LABELS)}
    if draw(st.booleans()):
        name = draw(st.sampled_from([*columns, "note", "top_label"]))
        columns[name] = draw(st.sampled_from(COLUMNS))
    return columns


@st.composite
def edited_parquet(draw):
    content = parquet_of(draw(tables_of_columns()))
    return draw(st.just(content) | edited_bytes(content))


@st.composite
def edited_feather(draw):
    compression = draw(st.sampled_from([None, "lz4", "zstd"]))
    content = feather_of(draw(tables_of_columns()), compression)
    return draw(st.just(content) | edited_bytes(content))


EDITED = {
    "csv": edited_csv(),
    "csv_gz": edited_csv_gz(),
    "feather": edited_feather(),
    "jsonl": edited_jsonl(),
    "npy": edited_npy(),
    "npz": edited_npz(),
    "parquet": edited_parquet(),
}


def read_whole(path):
    if path.suffix == ".jsonl":
        return sum(map(bool, map(bytes.strip, path.read_bytes().split(b"\n"))))
    return sum(len(batch) for batch, _ in open_table(path).batches())


def check(kind, content, ending, method):
    with fuzzed_file(f"table.{kind.replace('_', '.')}", content) as path:
        for act in (read_whole, fit, lambda path: apply(path, ending)):
            try:
                act(path, *([method] if act is fit else []))
            except UnlabelError as error:
                check_sentence(error)


def fit(path, method):
    fit_table(
        path,
        plan=None,
        remove=["cat"],
        keep=None,
        method=method,
        kind="probabilities",
        allow_chance=True,
        calibrate=False,
        classes=None,
        reading=Reading(),
        label_column="label",
        progress=lambda part: None,
    )


def apply(path, ending):
    out = path.with_name(f"out{ending}")
    options = ApplyOptions(top_label=True, removed_mass=True)
    applied = apply_table(FILTER, path, out, options, lambda part: None)
    assert read_whole(out) == applied.written
    out.unlink()


def target(kind):
    @settings(max_examples=60)
    @given(EDITED[kind], OUTPUTS, st.sampled_from(["osr", "mask"]))
    def run(content, ending, method):
        check(kind, content, ".jsonl" if kind == "jsonl" else ending, method)

    return run


test_csv, test_csv_gz, test_feather, test_jsonl, test_npy, test_npz, test_parquet = map(
    target, KINDS
)
