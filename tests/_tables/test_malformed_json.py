"""JSON lines that cannot be filtered: one sentence with the line, nothing written."""

import codecs
import gzip
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import doors
import unlabel as package
from commands import unlabel
from unlabel import UnlabelError
from unlabel._tables.json_lines import lines as json_lines
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table

NAMES = ["cat", "dog", "fox"]
MASK = doors.mask(NAMES, {"cat": None})
ENTRY = b'{"label":"%s","score":%s}'
ENTRIES = b'{"id":1,"s":[%s]}\n' % b",".join(
    ENTRY % pair for pair in ((b"cat", b"0.5"), (b"dog", b"0.25"), (b"fox", b"0.25"))
)
OBJECT = b'{"id":1,"s":{"cat":0.5,"dog":0.25,"fox":0.25}}\n'
FIELDS = b'{"id":1,"cat":0.5,"dog":0.25,"fox":0.25}\n'
LISTS = b'{"id":1,"labels":["cat","dog","fox"],"scores":[0.5,0.25,0.25]}\n'
TOP = ENTRIES.strip()[12:-1] + b"\n"
DEEP = b"[" * 100_000


def entries(*changed):
    """A second line with one entry changed, and a third without mistakes."""
    return ENTRIES + ENTRIES.replace(*changed) + ENTRIES


def scores(text):
    return OBJECT + b'\n{"s":' + text + b"}\n"


# name: (content, words of the sentence)
CORPUS = {
    "half a line at the end": (ENTRIES + ENTRIES[:40], "line 2: it ends within a value.*cut off"),
    "half a text at the end": (ENTRIES + b'{"id": "12', "line 2: it ends within a value"),
    "half a number": (OBJECT + b'{"id":1,"s":{"cat":0.', "line 2: it ends within a value"),
    "half of a pair at the end": (
        OBJECT + b'{"x":"\\ud83d\\ude00',
        "line 2: it ends within a value",
    ),
    "indented": (
        json.dumps(json.loads(OBJECT), indent=1).encode(),
        "line 1: it ends within a value",
    ),
    "one list of all": (
        b"[\n" + OBJECT.strip() + b",\n" + OBJECT + b"]\n",
        "line 1: it ends within",
    ),
    "commas": (OBJECT.strip() + b",\n" + OBJECT, "line 1: it has something behind its value"),
    "two values in a line": (
        OBJECT + OBJECT.strip() + b" " + OBJECT,
        "line 2: it has something beh",
    ),
    "blank, then two values": (
        b"\n" + OBJECT.strip() + b" " + OBJECT.strip(),
        "line 2: it has something behind its value",
    ),
    "two in one, one in two": (
        OBJECT.strip() + b" " + OBJECT + OBJECT.replace(b',"s', b',\n"s'),
        "line 1: it has something behind its value",
    ),
    "value over two lines": (OBJECT + OBJECT.replace(b',"s', b',\n"s'), "line 2: it ends within"),
    "single quotes": (OBJECT + b"{'s': 1}\n", "line 2: it is not JSON.*byte 1"),
    "comment": (OBJECT + b"# nothing\n", "line 2: it is not JSON"),
    "a csv": (b"cat,dog,fox\n.5,.3,.2\n", "line 1: it is not JSON"),
    "nan": (scores(b'{"cat":NaN,"dog":0.5,"fox":0.5}'), "line 3: it has NaN, which is not JSON"),
    "minus infinity": (
        scores(b'{"cat":-Infinity,"dog":1}'),
        "line 3: it has -Infinity, which is not",
    ),
    "nan in another field": (
        OBJECT + b'{"x":[NaN],"s":{}}\n',
        "line 2: it has NaN, which is not JSON",
    ),
    "too large": (scores(b'{"cat":1e999,"dog":0.5,"fox":0.5}'), r"line 3.*too large \(s\.cat\)"),
    "leading zero": (scores(b'{"cat":01,"dog":0.5,"fox":0.5}'), "line 3: it is not JSON"),
    "null": (
        scores(b'{"cat":null,"dog":0.5,"fox":0.5}'),
        r"line 3: it has null where a number .*s\.cat",
    ),
    "text": (
        scores(b'{"cat":"0.5","dog":0.5,"fox":0}'),
        r"line 3: it has a text where a number.*s\.cat",
    ),
    "nested": (
        scores(b'{"cat":[0.5],"dog":0.5,"fox":0}'),
        r"line 3: it has a list where a number.*s\.cat",
    ),
    "truth": (
        scores(b'{"cat":true,"dog":0,"fox":0}'),
        r"line 3: it has true or false where a number",
    ),
    "negative": (
        scores(b'{"cat":-0.1,"dog":0.6,"fox":0.5}'),
        "line 3: it is not a prob.*'cat' is -0.1",
    ),
    "sum": (scores(b'{"cat":0.9,"dog":0.6,"fox":0.5}'), "line 3: it is not a prob.*sums to 2"),
    "missing label": (
        scores(b'{"cat":0.5,"dog":0.5}'),
        "line 3: it does not name the label 'fox'.*partial",
    ),
    "other label": (
        scores(b'{"cat":0.5,"dog":0.5,"foxes":0}'),
        "line 3: the model has no label 'foxes': the nearest is 'fox'",
    ),
    "label twice in an object": (
        scores(b'{"cat":0.5,"dog":0.25,"cat":0.5,"fox":0.25}'),
        "line 3: it has the name 'cat' twice in 's'",
    ),
    "label twice, escaped": (
        scores(b'{"cat":0.5,"dog":0.25,"c\\u0061t":0.5,"fox":0.25}'),
        "line 3: it has the name 'cat' twice in 's'",
    ),
    "label twice in entries": (
        entries(b'"fox"', b'"dog"'),
        "line 2: it names the label 'dog' twice",
    ),
    "label twice in lists": (
        LISTS + LISTS.replace(b'"fox"', b'"dog"'),
        "line 2: it names .*'dog' twice",
    ),
    "field twice": (OBJECT + OBJECT.replace(b'"id"', b'"s"'), "line 2: it has two fields 's'"),
    "other field twice": (
        OBJECT + OBJECT.replace(b'"id":1', b'"a:b":"c:d","a\\u003ab":2'),
        "line 2: it has two fields 'a:b'",
    ),
    "label field twice": (
        FIELDS + FIELDS.replace(b'"id"', b'"fox"'),
        "line 2: it has two fields 'fox'",
    ),
    "name twice in an entry": (
        entries(b'"score":0.5', b'"score":0.5,"score":0.5'),
        "line 2: it has the name 'score' twice in 's'",
    ),
    "entry without a score": (
        entries(b',"score":0.5', b""),
        r"line 2.*without 'score' \(s\[0\]\)",
    ),
    "entry without a label": (
        entries(b'"label":"cat",', b""),
        "line 2: it has an entry without 'label'",
    ),
    "entry of another name": (entries(b'"score":0.5', b'"scor":0.5'), "line 2.*without 'score'"),
    "entry that is a number": (
        entries(b'"s":[', b'"s":[3,'),
        r"line 2: it has a number where an obj.*s\[0\]",
    ),
    "label that is null": (
        entries(b'"cat"', b"null"),
        r"line 2: it has null where .*s\[0\]\.label",
    ),
    "score that is a text": (
        entries(b"0.5", b'"0.5"'),
        r"line 2: it has a text where.*s\[0\]\.score",
    ),
    "no scores": (entries(b'"s"', b'"t"'), "line 2: it has no field 's'"),
    "scores are null": (OBJECT + b'{"s":null}\n', "line 2: it has null where an object belongs"),
    "other form": (ENTRIES + OBJECT, r"line 2: it has an object where a list belongs \(s\)"),
    "object among lists": (TOP + TOP + ENTRIES, "line 3: it has an object where a list belongs"),
    "list among objects": (OBJECT + TOP, "line 2: it has a list where an object belongs"),
    "text among lists": (TOP + b'"x"\n', "line 2: it has a text where a list belongs"),
    "lists of lists": (b"[[0.5,0.5,0]]\n", "line 1: it is a list without scores"),
    "list of numbers, short": (
        b"[0.5,0.25,0.25]\n[0.5,0.5]\n",
        "line 2: it has 2 scores.* 3 labels",
    ),
    "lists of two lengths": (
        LISTS + LISTS.replace(b"[0.5,", b"["),
        "line 2: it has 3 entries in 'labels' and 2 in 'scores'",
    ),
    "no list of labels": (
        LISTS + LISTS.replace(b'"labels"', b'"l"'),
        "line 2: it has no field 'labels'",
    ),
    "missing field of a label": (
        FIELDS + FIELDS.replace(b'"fox"', b'"f"'),
        "line 2: it does not name",
    ),
    "latin-1": (OBJECT + '{"text":"é"}\n'.encode("latin-1"), "line 2: it is not UTF-8"),
    "cut within a letter": (OBJECT + '{"text":"é'.encode()[:-1], "line 2: it is not UTF-8"),
    "utf-16": (codecs.BOM_UTF16_LE + OBJECT.decode().encode("utf-16-le"), "is UTF-16: save it as"),
    "nul": (OBJECT + b"\0" * 100 + b"\n", "line 2: it is not JSON"),
    "line break in a text": (OBJECT + b'{"x":"a\nb"}\n', "line 2: it ends within a value"),
    "half of a surrogate pair": (OBJECT + b'{"x":"\\ud800"}\n', "line 2.*surrogate"),
    "too deep": (OBJECT + b'{"x":' + DEEP + b"\n", "line 2: it is nested too deeply"),
    "too deep at first": (DEEP + b"\n", "line 1: it is nested too deeply"),
    "deep scores": (scores(DEEP), "line 3: it is nested too deeply"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("filter") / "f.safetensors"
    MASK.save(path)
    return path


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("block", [100, 1 << 17])
def test_malformed_lines(tmp_path, saved, monkeypatch, name, block):
    monkeypatch.setattr(json_lines, "BLOCK", block)
    content, words = CORPUS[name]
    path = tmp_path / "in.jsonl"
    path.write_bytes(content)
    code, out, error = unlabel("apply", path, saved, "--out", tmp_path / "out.jsonl")
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    assert error.startswith(f"Error: {path}")
    assert re.search(words, error), error
    assert os.listdir(tmp_path) == ["in.jsonl"]


@pytest.mark.parametrize("name", CORPUS)
def test_malformed_lines_behind_many_others(tmp_path, name):
    """The line's number is right in a part of many lines, blank ones among them."""
    content, words = CORPUS[name]
    first = content.partition(b"\n")[0] + b"\n"
    if not words.startswith("line 1") and name not in ("empty", "blank", "utf-16"):
        before = (first + b"\n") * 1000
        (tmp_path / "in.jsonl").write_bytes(before + content)
        words = re.sub(r"(?<=ine )\d", lambda found: str(2000 + int(found[0])), words)
    else:
        (tmp_path / "in.jsonl").write_bytes(content)
    with pytest.raises(UnlabelError, match=words):
        apply_table(MASK, tmp_path / "in.jsonl", tmp_path / "out.jsonl", ApplyOptions(), print)
    assert os.listdir(tmp_path) == ["in.jsonl"]


@pytest.mark.parametrize(
    ("options", "content", "words"),
    [
        (["--top-label"], TOP, r"line 1: it is a list, which has no place for 'top_label'"),
        (
            ["--top-label"],
            OBJECT.replace(b'"id"', b'"top_label"'),
            "line 1: it has a field 'top_label' al",
        ),
        (
            ["--top-label"],
            FIELDS + FIELDS.replace(b'"id"', b'"top_label"'),
            "line 2: it has a field",
        ),
        (["--update-column", "answer"], OBJECT, "no field 'answer'; the nearest is 's'"),
        (["--update-column", "answer"], TOP, "no field 'answer', and its lines are lists"),
        (["--update-column", "fox"], FIELDS, "scores in field 'fox'"),
        (
            ["--update-column", "id"],
            OBJECT.replace(b":1", b":{}"),
            "line 1: it has an object where",
        ),
        (["--key", "t"], OBJECT, "line 1: it has no field 't'; its fields are 'id', 's'"),
        (["--out", "out.parquet"], OBJECT, r"out.parquet: it is not named as JSON lines.*\.jsonl"),
    ],
)
def test_options_that_do_not_fit(tmp_path, saved, monkeypatch, options, content, words):
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_bytes(content)
    code, out, error = unlabel("apply", "in.jsonl", saved, "--out", "out.jsonl", *options)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert re.search(words, error), error
    assert os.listdir(tmp_path) == ["in.jsonl"]


def test_a_new_label_with_the_name_of_another_field(tmp_path):
    fitted = doors.mask(NAMES, {"cat": "id"})
    (tmp_path / "in.jsonl").write_bytes(FIELDS)
    with pytest.raises(UnlabelError, match="line 1: it has a field 'id' already: rename it first"):
        apply_table(fitted, tmp_path / "in.jsonl", tmp_path / "out.jsonl", ApplyOptions(), print)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("label", r"no field 'label'.*\(--label-column\)"),
        ("s", "has labels or scores of the model in field 's'"),
        ("id", "line 1: the model has no label '1'"),
    ],
)
def test_fit_without_true_labels(tmp_path, column, words):
    (tmp_path / "in.jsonl").write_bytes(OBJECT)
    options = ("--remove", "cat", "--strict", "--label-column", column)
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", tmp_path / "in.jsonl", "--out", out, *options)
    assert (code, error.count("\n")) == (2, 1)
    assert re.search(words, error), error


def test_fit_on_labels_that_are_none(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(LISTS.replace(b'"fox"', b"{}"))
    out = tmp_path / "f.safetensors"
    code, _, error = unlabel("fit", tmp_path / "in.jsonl", "--remove", "cat", "--out", out)
    assert (code, error.count("\n")) == (2, 1)
    assert "line 1: it names a label with an object: give a text." in error


@pytest.mark.parametrize(
    "content",
    [b"\x1f\x8b", gzip.compress(OBJECT * 99)[:-20], OBJECT],
    ids=["two bytes", "cut off", "not packed"],
)
def test_damaged_gzip(tmp_path, saved, content):
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(content)
    code, _, error = unlabel("apply", path, saved, "--out", tmp_path / "out.jsonl")
    assert (code, error.count("\n")) == (2, 1)
    assert "could not be read as JSON lines" in error
    assert os.listdir(tmp_path) == ["in.jsonl.gz"]


def test_lines_that_are_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "BLOCK", 64)
    monkeypatch.setattr(json_lines, "LARGEST_LINE", 1000)
    (tmp_path / "in.jsonl").write_bytes(OBJECT + b"\n" + OBJECT[:-2] + b" " * 2000 + b"}\n")
    with pytest.raises(UnlabelError, match="line 3: it has more than 0 MiB: shorten it"):
        apply_table(MASK, tmp_path / "in.jsonl", tmp_path / "out.jsonl", ApplyOptions(), print)
    assert os.listdir(tmp_path) == ["in.jsonl"]


FROM_A_PIPE = """
from unlabel import OutputFilter, UnlabelError
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
fitted = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
options, base = ApplyOptions(reading=Reading(format="jsonl")), peak()
try:
    apply_table(fitted, "-", "out.jsonl", options, lambda part: None)
except UnlabelError as error:
    print(error)
print(peak() - base)
"""


def test_a_line_of_200_megabytes_takes_little_memory(tmp_path):
    run = subprocess.Popen(
        [sys.executable, "-c", FROM_A_PIPE],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with suppress(BrokenPipeError):  # it is refused before the end
        run.stdin.write(OBJECT + b'{"text":"')
        for _ in range(200):
            run.stdin.write(b"x" * (1 << 20))
    error, grown = run.stdout.read().decode().splitlines()
    with suppress(BrokenPipeError):
        run.stdin.close()
    run.stdout.close()
    assert run.wait() == 0
    assert error == "standard input, line 2: it has more than 64 MiB: shorten it."
    assert float(grown) < 160
    assert os.listdir(tmp_path) == []
