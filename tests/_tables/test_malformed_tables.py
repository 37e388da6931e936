"""Tables that cannot be filtered: one sentence each, nothing written, little time and memory."""

import codecs
import gzip
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import unlabel

NAMES = ["cat", "dog", "fox"]
GOOD = "cat,dog,fox,label\n.5,.3,.2,cat\n.2,.7,.1,dog\n"


class Marker:
    """What a pickle could do: it would leave a file behind."""

    def __reduce__(self):
        return (open, ("ran.txt", "w"))


def csv(text):
    return text.encode() if isinstance(text, str) else text


def parquet(**columns):
    file = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), file, compression="none")
    return file.getvalue()


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def claims_shape(shape):
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + bytes(80)


def zipped(content, name="p.npy"):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def claims_to_unpack_to_4_gigabytes():
    content = bytearray(npz(p=np.eye(3)))
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = b"\xf0\xff\xff\xff"
    return bytes(content)


def npz_with(flags=0, method=0):
    """An npz file with other flags and another compression of its first array."""
    content = bytearray(npz(p=np.eye(3), label=np.arange(3)))
    for at in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[at : at + 2] = flags.to_bytes(2, "little")
        content[at + 2 : at + 4] = method.to_bytes(2, "little")
    return bytes(content)


def damaged_deflate():
    file = io.BytesIO()
    np.savez_compressed(file, p=np.random.default_rng(0).dirichlet(np.ones(3), size=50))
    content = bytearray(file.getvalue())
    content[150:400] = b"\xff" * 250
    return bytes(content)


def header_of(text):
    """An npy file with a header of our own."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(72)


def arrow(kind=pa.ipc.new_file, **columns):
    file = io.BytesIO()
    table = pa.table(columns)
    with kind(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def halves(content):
    return content[: len(content) // 2], content[len(content) // 2 :]


def packed_row_of_2_gigabytes():
    """A gzip file of many parts, each of 64 MiB."""
    return gzip.compress(b"cat,dog,fox\n") + gzip.compress(bytes(1 << 26)) * 32


def beyond_the_end():
    """A dictionary column with an index that its dictionary does not have."""
    return pa.DictionaryArray.from_arrays(pa.array([7], pa.int8()), pa.array(["a"]), safe=False)


def beyond_the_dictionary():
    """A parquet file with an index that its dictionary does not have."""
    names = pa.array(["a", "b", "c"] * 10).dictionary_encode()
    content = parquet(cat=[0.5] * 30, dog=[0.3] * 30, fox=[0.2] * 30, note=names)
    column = pa.parquet.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(3)
    end = column.dictionary_page_offset + column.total_compressed_size
    damaged = bytearray(content)
    damaged[end - 2 : end] = b"\xff\xff"  # the indices have two bits, and 3 is one too many
    return bytes(damaged)


THIRD = [1 / 3] * 3
TABS = GOOD.replace(",", "\t")
GOOD_FEATHER = arrow(**dict.fromkeys(NAMES, THIRD), label=NAMES)
GOOD_PARQUET = parquet(**dict.fromkeys(NAMES, THIRD), label=NAMES)

# name of the file: (its content, words of the sentence)
CORPUS = {
    "empty.csv": (b"", "could not be read"),
    "header-only.csv": (csv("cat,dog,fox,label\n"), "no rows"),
    "ragged.csv": (
        csv(GOOD + ".1,.9\n"),
        "row 2: it does not have one cell per column, but 2 for 4",
    ),
    "ragged.tsv": (csv((GOOD + ".1,.9\n").replace(",", "\t")), "row 2.*, but 2 for 4"),
    "commas.tsv": (csv(GOOD), "no column 'cat'; the nearest is 'cat,dog,fox,label'"),
    "text.csv": (csv(GOOD + ".1,much,.2,cat\n"), "row 2.*'much'.*'dog'"),
    "empty-cell.csv": (csv(GOOD + ".1,,.2,cat\n"), "row 2.*'dog' is NaN"),
    "nan.csv": (csv(GOOD + ".1,nan,.2,cat\n"), "row 2.*'dog' is NaN"),
    "infinite.csv": (csv(GOOD + ".1,inf,.2,cat\n"), "row 2.*'dog' is infinite"),
    "negative.csv": (csv(GOOD + ".5,-.1,.6,cat\n"), "row 2.*'dog' is -0.1;"),
    "unnormalised.csv": (csv(GOOD + ".5,.1,.1,cat\n"), "row 2.*sums to 0.7"),
    "logits.csv": (csv("cat,dog,fox,label\n7.5,-2.5,1.5,cat\n"), "row 0.*logits"),
    "zeros.csv": (csv(GOOD + "0,0,0,cat\n"), "row 2.*sums to 0"),
    "no-label-column.csv": (csv("cat,dog,fox,truth\n.5,.3,.2,cat\n"), "label.*--label-column"),
    "guessed-text.csv": (csv(GOOD + ".5,much,.5,cat\n"), "row 2.*'much'.*'dog'.*--classes"),
    "guessed-empty.csv": (csv(GOOD + ".5,,.5,cat\n"), "row 2.*'dog' is NaN.*--classes"),
    "zero-label.csv": (
        csv("cat,dog,emu,label\n.5,.5,0.0,cat\n.2,.8,0,dog\n"),
        "0 in every row of column 'emu'.*--classes",
    ),
    "unknown-label.csv": (
        csv(GOOD + ".5,.3,.2,cat\n.1,.7,.2,dgo\n"),
        "row 3.*'dgo'.*nearest is 'dog'",
    ),
    "missing-label.csv": (csv(GOOD + ".1,.7,.2,\n"), "row 2: it has no true label"),
    "missing-column.csv": (csv("cat,fox,label\n.5,.5,cat\n"), "'dog'"),
    "twice.csv": (csv("cat,dog,dog,fox,label\n.4,.1,.2,.3,cat\n"), "'dog'"),
    "latin-1.csv": (GOOD.replace("cat\n", "caf\xe9\n", 1).encode("latin-1"), "not UTF-8: save"),
    "utf-16.csv": (GOOD.encode("utf-16"), "not UTF-8: save"),
    "big-endian.csv": (codecs.BOM_UTF16_BE + GOOD.encode("utf-16-be"), "not UTF-8: save"),
    "semicolons-and-commas.csv": (
        csv("cat;dog, tame;fox;label\n.5;.3;.2;cat\n"),
        r"separated by semicolons: say so \(--separator\)",
    ),
    "decimal-commas-and-semicolons.csv": (
        csv("cat;dog;fox;label\n0,5;0,3;0,2;cat\n"),
        "row 0 has '0,5' in column 'cat'; write such numbers as 0.25",
    ),
    "percentages.csv": (csv(GOOD + "50,30,20,cat\n"), "row 2.*sums to 100.*; divide by 100"),
    "percent-signs.csv": (
        csv("cat,dog,fox,label\n50.5%,30%,19.5%,cat\n"),
        "row 0 has '50.5%' in column 'cat'; write such numbers as 0.25",
    ),
    "decimal-commas.csv": (
        csv('cat,dog,fox,label\n"0,5","0,3","0,2",cat\n'),
        "row 0 has '0,5' in column 'cat'; write such numbers as 0.25",
    ),
    "binary.csv": (bytes(range(256)) * 50, "could not be read|no columns|one cell per column"),
    "packed.csv": (gzip.compress(csv(GOOD)), "packed with gzip: give it a name that ends in .gz"),
    "cut-off.csv.gz": (gzip.compress(csv(GOOD * 99))[:-20], "could not be read as csv: .* ended"),
    "not-packed.csv.gz": (csv(GOOD), "could not be read as csv: Not a gzipped file"),
    "damaged.csv.gz": (b"\xff".join(halves(gzip.compress(csv(GOOD)))), "could not be read as csv"),
    "wrong-sum.csv.gz": (gzip.compress(csv(GOOD))[:-8] + bytes(8), "could not be read.*CRC"),
    "more-behind.tsv.gz": (gzip.compress(csv(TABS)) + b"more", "could not be read as tsv"),
    "empty.csv.gz": (b"", "could not be read as csv"),
    "bomb.csv.gz": (packed_row_of_2_gigabytes(), "a row has more than 64 MiB"),
    "garbage.feather": (b"ARROW1" + bytes(range(200)) + b"ARROW1", "could not be read as feather"),
    "not-feather.feather": (GOOD_PARQUET, "could not be read as feather: Not an Arrow file"),
    "empty.arrow": (b"", "could not be read as feather"),
    "truncated.feather": (GOOD_FEATHER[:-200], "could not be read as feather"),
    "beheaded.arrow": (GOOD_FEATHER[200:], "could not be read as feather"),
    "version-1.feather": (b"FEA1" + bytes(100) + b"FEA1", "a Feather file of version 1"),
    "stream.arrow": (arrow(pa.ipc.new_stream, cat=[0.5]), "is a stream and not an Arrow file"),
    "no-columns.feather": (arrow(), "no columns"),
    "no-rows.feather": (
        arrow(**{n: pa.array([], pa.float64()) for n in [*NAMES, "label"]}),
        "no rows",
    ),
    "null.feather": (arrow(cat=[0.5, None], dog=[0.5, 0.5], fox=[0.0, 0.5]), "row 1.*'cat' is NaN"),
    "dictionary.feather": (
        arrow(cat=[0.5], dog=[0.5], fox=[0.0], note=beyond_the_end()),
        "could not be read as feather: .*out of bounds",
    ),
    "unclosed-quote.csv": (csv('cat,dog,fox,label\n.5,.3,.2,"cat\n'), "no label 'cat"),
    "one-column.csv": (csv("label\ncat\n"), "no columns of decimal numbers|'cat'"),
    "one-number.csv": (csv("cat,label\n.5,cat\n"), "no columns of decimal numbers"),
    "a-parquet.csv": (GOOD_PARQUET, "could not be read|no columns|one cell per column|not UTF-8"),
    "truncated.parquet": (GOOD_PARQUET[:-200], "could not be read"),
    "beheaded.parquet": (GOOD_PARQUET[200:], "could not be read"),
    "garbage.parquet": (b"PAR1" + bytes(range(200)) + b"PAR1", "could not be read"),
    "empty.parquet": (b"", "could not be read"),
    "no-rows.parquet": (
        parquet(**{n: pa.array([], pa.float64()) for n in [*NAMES, "label"]}),
        "no rows",
    ),
    "no-columns.parquet": (parquet(), "no columns"),
    "texts.parquet": (parquet(cat=["a"], dog=["b"], fox=["c"], label=["cat"]), "Row 0|decimal"),
    "null.parquet": (
        parquet(cat=[0.5, None], dog=[0.3, 0.5], fox=[0.2, 0.5], label=["cat", "dog"]),
        "row 1.*'cat' is NaN",
    ),
    "null-list.parquet": (parquet(p=[THIRD, None], label=["0", "1"]), "row 1.*no list"),
    "short-list.parquet": (parquet(p=[THIRD, [0.5, 0.5]], label=["0", "1"]), "row 1.*2 entries"),
    "two-lists.parquet": (parquet(p=[THIRD], q=[THIRD], label=["0"]), "--list-column"),
    "structs.parquet": (parquet(p=[{"cat": 0.5}], label=["cat"]), "decimal|'cat'"),
    "null-label.parquet": (
        parquet(cat=[0.5, 0.5], dog=[0.3, 0.3], fox=[0.2, 0.2], label=["cat", None]),
        "row 1.*no true label",
    ),
    "truncated.npz": (npz(p=np.eye(3), label=np.arange(3))[:-60], "could not be read"),
    "not-a-zip.npz": (b"PK\x03\x04" + bytes(100), "could not be read"),
    "pickled.npz": (npz(p=np.array([[Marker()]], dtype=object)), "Python objects in 'p'"),
    "bomb.npz": (claims_to_unpack_to_4_gigabytes(), "read whole"),
    "huge-shape.npz": (zipped(claims_shape((10**12, 3))), "could not be read"),
    "no-matrix.npz": (npz(p=np.arange(3)), "0 arrays of two dimensions"),
    "two-matrices.npz": (npz(p=np.eye(3), q=np.eye(3)), "2 arrays of two dimensions"),
    "unequal.npz": (npz(p=np.eye(3), label=np.arange(4)), "'label' of shape"),
    "complex.npz": (
        npz(p=np.eye(3) * 1j, label=np.arange(3)),
        "type complex128: save them as float64",
    ),
    "labels-as-objects.npz": (
        npz(p=np.eye(3), label=np.array(["a", "b", None])),
        r"Python objects in 'label'.*\.astype\(str\)",
    ),
    "wide.npy": (npy(np.eye(3, dtype=np.longdouble)), "type float128: save them as float64"),
    "vector.npy": (npy(np.arange(3.0)), "0 arrays of two dimensions"),
    "cube.npy": (npy(np.ones((2, 2, 2))), "0 arrays of two dimensions"),
    "pickled.npy": (npy(np.array([[Marker()]], dtype=object)), "Python objects in the array"),
    "huge-shape.npy": (claims_shape((10**12, 3)), "could not be read"),
    "negative-shape.npy": (claims_shape((-5, 3)), "could not be read|shape"),
    "truncated.npy": (npy(np.eye(3))[:-40], "could not be read"),
    "no-magic.npy": (bytes(500), "it does not hold an npy array"),
    "latin-1-header.csv": ("caf\xe9,dog,fox\n.5,.3,.2\n".encode("latin-1"), "not UTF-8: save"),
    "not-utf-8.parquet": (
        GOOD_PARQUET.replace(b"fox", b"f\xffx"),
        "could not be read",
    ),
    "lists-of-lists.parquet": (
        parquet(p=[[[0.5], [0.5]], [[0.1], [0.9]]], label=["0", "1"]),
        "list<.*list<.*> in column 'p': give lists of numbers",
    ),
    "dictionary.parquet": (beyond_the_dictionary(), "could not be read"),
    "zlib.npz": (damaged_deflate(), "could not be read"),
    "encrypted.npz": (npz_with(flags=1), "could not be read"),
    "patched-data.npz": (npz_with(flags=0x20), "could not be read"),
    "unknown-compression.npz": (npz_with(method=97), "could not be read"),
    "lzma.npz": (npz_with(method=14), "could not be read"),
    "not-an-array.npz": (zipped(b"hello", "readme.txt"), "'readme.txt' that is not an array"),
    "classes-as-objects.npz": (
        npz(p=np.eye(3), classes=np.array(["a", None, "b"])),
        "Python objects in 'classes'",
    ),
    "classes-of-bytes.npz": (npz(p=np.eye(3), classes=np.array([b"a", b"b", b"c"])), "b'a'"),
    "complex-column.npz": (npz(p=np.eye(3), z=np.arange(3) * 1j), "could not be read"),
    "unclosed.npy": (header_of(b"{'descr': '<f8', 'fortran_order': ("), "could not be read"),
    "no-syntax.npy": (header_of(b"{'descr': 1x, 5 5}"), "could not be read"),
    "no-descr.npy": (
        header_of(b"{'descr': 'quite', 'fortran_order': False, 'shape': (3, 3)}\n"),
        "could not be read",
    ),
    "overflow.npy": (
        header_of(b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 3)}\n" % 10**30),
        "could not be read",
    ),
    "deep.npy": (header_of(b"(" * 4000), "could not be read"),
    "table.xlsx": (b"PK", "no known ending"),
    "table": (b"", "no known ending"),
}

# `fit` reads the true labels; the other files are as bad for both, and are given to `apply`.
FIT = {
    "header-only.csv",
    "no-rows.parquet",
    "no-rows.feather",
    "decimal-commas-and-semicolons.csv",
    "percent-signs.csv",
    "decimal-commas.csv",
    "no-label-column.csv",
    "guessed-text.csv",
    "guessed-empty.csv",
    "zero-label.csv",
    "unknown-label.csv",
    "missing-label.csv",
    "null-label.parquet",
    "unclosed-quote.csv",
    "one-column.csv",
    "one-number.csv",
    "texts.parquet",
    "structs.parquet",
}
NAMES_OF_FILES = [*CORPUS, "folder.csv", "absent.parquet"]

RUN_ALL = """
import json, sys, time
from commands import unlabel
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
unlabel("fit", "../good.csv", "--remove", "cat", "--out", "../filter.safetensors")
unlabel("apply", "../good.csv", "../filter.safetensors", "--out", "../out.csv")
base, results = peak(), {}
for name, command in json.load(sys.stdin):
    start = time.process_time()
    code, out, error = unlabel(*command)
    results[name] = [code, error, time.process_time() - start]
json.dump({"results": results, "grown": peak() - base}, sys.stdout)
"""


def command(name):
    if name in FIT:
        return ["fit", name, "--remove", "cat", "--strict", "--out", f"{name}.out.safetensors"]
    return ["apply", name, "../filter.safetensors", "--out", f"{name}.out.parquet"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("malformed") / "tables"
    folder.mkdir()
    (folder.parent / "good.csv").write_text(GOOD)
    for name, (content, _) in CORPUS.items():
        (folder / name).write_bytes(content)
    (folder / "folder.csv").mkdir()
    before = os.listdir(folder)
    paths = [Path(__file__).parents[1] / "helpers", Path(unlabel.__file__).parents[1]]
    run = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        input=json.dumps([[name, command(name)] for name in NAMES_OF_FILES]),
        capture_output=True,
        text=True,
        check=True,
    )
    left_behind = set(os.listdir(folder)) - set(before)
    return json.loads(run.stdout) | {"left behind": left_behind}


@pytest.mark.parametrize("name", NAMES_OF_FILES)
def test_one_sentence_names_the_file(outcome, name):
    code, error, seconds = outcome["results"][name]
    assert code == 2
    assert error.startswith("Error: ")
    assert error.count("\n") == 1
    assert name in error
    assert re.search(CORPUS[name][1] if name in CORPUS else "could not be read|No such file", error)
    assert seconds < 1


def test_nothing_is_left_behind(outcome):
    assert outcome["left behind"] == set()


def test_memory_is_bounded(outcome):
    assert outcome["grown"] < 200
