"""Predictions in the layouts that other systems leave, through the command line and back."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from commands import unlabel
from unlabel import OutputFilter

NAMES = ["joy", "love", "anger", "fear"]
ROWS = [[0.5, 0.3, 0.05, 0.15], [0.05, 0.6, 0.2, 0.15]]
KEPT = ["joy", "anger", "fear"]


def without_love(row):
    kept = [x for name, x in zip(NAMES, row, strict=True) if name != "love"]
    return dict(zip(KEPT, (x / sum(kept) for x in kept), strict=True))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    OutputFilter.from_plan({"love": None}, classes=NAMES).save("mask.safetensors")
    return tmp_path


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def apply(*arguments):
    source, *options = arguments
    code, out, said = unlabel("apply", source, "mask.safetensors", *options)
    assert (code, out) == (0, "")
    return said


def test_a_language_models_top_log_probabilities(folder):
    def answer(tokens):
        top = [
            {"token": token, "logprob": math.log(x), "bytes": [*token.encode()]}
            for token, x in tokens.items()
        ]
        content = [{"token": top[0]["token"], "logprob": top[0]["logprob"], "top_logprobs": top}]
        message = {"role": "assistant", "content": top[0]["token"]}
        choice = {"index": 0, "message": message, "logprobs": {"content": content}}
        return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]}

    answers = [{"love": 0.5, "joy": 0.3, " joy": 0.1, "The": 0.05}, {"love": 0.9, "I": 0.05}]
    write_lines(folder / "chat.jsonl", map(answer, answers))
    key = "choices.0.logprobs.content.0.top_logprobs"
    options = ("--key", key, "--partial", "--top-label")
    code, _, error = unlabel(
        "apply", "chat.jsonl", "mask.safetensors", "--out", "x.jsonl", *options
    )
    assert code == 2
    assert error.startswith("Error: chat.jsonl, line 1: the model has no label 'The'")
    said = apply("chat.jsonl", "--out", "new.jsonl", *options, "--other-labels", "removed")
    assert "1 row names removed labels only, and has no answer." in said
    first, second = read_lines(folder / "new.jsonl")
    [entry] = first["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert entry.keys() == {"token", "logprob"}
    # .05 are hidden: they are taken for joy's rivals.
    assert entry["token"] == "joy"
    assert entry["logprob"] == pytest.approx(math.log(0.4 / 0.45), abs=1e-6)
    assert (first["top_label"], first["certain"]) == ("joy", True)
    assert first["choices"][0]["message"] == {"role": "assistant", "content": "love"}
    assert second["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
    assert (second["top_label"], second["only_removed"]) == (None, True)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_long_table_of_duckdb(folder, format):
    duckdb = pytest.importorskip("duckdb")
    values = [
        (f"a{at}", name, x)
        for at, row in enumerate(ROWS)
        for name, x in zip(NAMES, row, strict=True)
    ]
    with duckdb.connect() as database:
        database.execute("create table scores (id varchar, emotion varchar, p double)")
        database.executemany("insert into scores values (?, ?, ?)", values)
        database.execute(f"copy (from scores order by id) to 'old.{format}'")
        apply(f"old.{format}", "--long", "id,emotion,p", "--out", f"new.{format}", "--top-label")
        found = database.execute(f"select * from 'new.{format}'").fetchall()
    expected = [
        (f"a{at}", name, x, max(new, key=new.get))
        for at, new in enumerate(map(without_love, ROWS))
        for name, x in new.items()
    ]
    assert [(*row[:2], row[3]) for row in found] == [(*row[:2], row[3]) for row in expected]
    np.testing.assert_allclose([row[2] for row in found], [row[2] for row in expected])


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_long_table_of_polars(folder, format):
    pl = pytest.importorskip("polars")
    long = [
        {"id": at, "label": name, "score": x}
        for at, row in enumerate(ROWS)
        for name, x in zip(NAMES, row, strict=True)
    ]
    getattr(pl.DataFrame(long), f"write_{format}")(f"old.{format}")
    apply(f"old.{format}", "--long", "id,label,score", "--out", f"new.{format}")
    found = getattr(pl, f"read_{format}")(f"new.{format}").rows()
    expected = [(at, *item) for at, row in enumerate(ROWS) for item in without_love(row).items()]
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    np.testing.assert_allclose([row[2] for row in found], [row[2] for row in expected])


@pytest.mark.parametrize("is_closed", [False, True])
def test_json_lines_through_a_pipe(folder, is_closed):
    lines = [
        {"id": at, "scores": dict(zip(NAMES, row, strict=True))} for at, row in enumerate(ROWS)
    ]
    write_lines(folder / "in.jsonl", lines * (50_000 if is_closed else 1))
    command = [sys.executable, "-m", "unlabel", "apply", "-", "mask.safetensors"]
    with (
        open("in.jsonl") as given,
        subprocess.Popen(
            [*command, "--format", "jsonl"],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as run,
    ):
        first = json.loads(run.stdout.readline())
        if is_closed:
            run.stdout.close()
            assert run.stderr.read() == ""
        else:
            assert json.loads(run.stdout.read())["id"] == 1
            assert run.stderr.read().startswith("standard output: 2 rows written; ")
    assert run.returncode == (141 if is_closed else 0)
    assert first == {"id": 0, "scores": pytest.approx(without_love(ROWS[0]))}


def test_options_for_other_layouts_are_refused(folder):
    write_lines(folder / "in.jsonl", [dict(zip(NAMES, ROWS[0], strict=True))])
    (folder / "in.csv").write_text("joy,love,anger,fear\n.5,.3,.05,.15\n")
    for source, options, says in (
        ("in.csv", ("--key", "x"), "(--key)"),
        ("in.csv", ("--partial", "--other-labels", "removed"), "(--other-labels)"),
        ("in.jsonl", ("--long", "a,b,c"), "(--long)"),
        ("in.jsonl", ("--list-column", "a"), "(--list-column)"),
        ("in.jsonl", ("--separator", ";"), "(--separator)"),
        ("in.csv", ("--long", "a,b"), "'a,b' does not name three columns"),
        ("in.csv", ("--long", "a,b,a"), "'a,b,a' does not name three columns"),
        ("in.jsonl", ("--other-labels", "removed"), "(--other-labels)"),
    ):
        out = f"out.{source.split('.')[1]}"
        code, _, error = unlabel("apply", source, "mask.safetensors", "--out", out, *options)
        assert (code, error.count("\n")) == (2, 1), error
        assert says in error
    assert sorted(path.name for path in folder.iterdir()) == [
        "in.csv",
        "in.jsonl",
        "mask.safetensors",
    ]


INSPECTED = {
    "in.jsonl": "JSON lines with lists of labels with scores",
    "in.csv": "one column per label",
    "long.csv": "one row per id and label, in the columns 'emotion' and 'p'",
}


@pytest.mark.parametrize("name", INSPECTED)
def test_inspect_shows_how_a_table_is_read(folder, name):
    pairs = [[*zip(NAMES, row, strict=True)] for row in ROWS]
    write_lines(folder / "in.jsonl", [[{"label": n, "score": x} for n, x in row] for row in pairs])
    wide = "\n".join(",".join(map(str, ("a", *row))) for row in ROWS)
    (folder / "in.csv").write_text(f"who,{','.join(NAMES)}\n{wide}\n")
    long = [f"{at},{n},{x}" for at, row in enumerate(pairs) for n, x in row]
    (folder / "long.csv").write_text("\n".join(["id,emotion,p", *long]) + "\n")
    options = ("--long", "id,emotion,p") if name == "long.csv" else ()
    code, text, error = unlabel("inspect", name, *options)
    assert (code, error) == (0, "")
    said = " ".join(text.split())
    for part in (
        "rows 2 layout",
        f"layout {INSPECTED[name]} labels 4: 'joy', 'love', 'anger', 'fear'",
        "values probabilities; rows sum to 1 top labels 'joy' 1, 'love' 1",
    ):
        assert part in said
    assert ("beside 'who'" in said) == (name == "in.csv")
    found = json.loads(unlabel("inspect", name, *options, "--json")[1])
    assert (found["rows"], found["classes"]) == (2, NAMES)
    assert found["top_labels"] == [["joy", 1], ["love", 1]]


def test_inspect_refuses_bad_rows(folder):
    (folder / "in.csv").write_text("joy,love\n.5,.5\n.5,.9\n")
    code, _, error = unlabel("inspect", "in.csv")
    assert code == 2
    assert "in.csv, row 1: it is not a probability vector: it sums to 1.4" in error


SPARK = ["--format csv", "--separator ;", "--key p", "--long a,b,c", "--partial"]


@pytest.mark.parametrize("option", [*SPARK, "--kind log-probabilities"])
def test_spark_refuses_options_that_it_does_not_have(folder, option):
    (folder / "in.csv").write_text("joy,love,anger,fear\n.5,.3,.05,.15\n")
    arguments = (*option.split(), "--engine", "spark", "--out", "out.csv")
    code, out, error = unlabel("apply", "in.csv", "mask.safetensors", *arguments)
    assert (code, out) == (2, "")
    assert error == f"Error: Spark does not have this: leave it out ({option.split()[0]}).\n"
    assert not (folder / "out.csv").exists()


def test_inspect_names_every_field_beside_the_scores(folder):
    scores = dict(zip(NAMES, ROWS[0], strict=True))
    line = {"id": 7, "text": "a", "ok": True, "none": None, "meta": {"x": 1}, "scores": scores}
    write_lines(folder / "in.jsonl", [line] * 3)
    found = json.loads(unlabel("inspect", "in.jsonl", "--json")[1])
    assert found["beside"] == ["id", "text", "ok", "none"]
    assert found["layout"] == "JSON lines with objects with a score per label, at scores"
