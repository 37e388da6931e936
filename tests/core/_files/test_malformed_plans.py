"""Files that are not plans: one sentence each that names the file, and nothing written."""

import os
import re

import pytest

import doors
from unlabel import UnlabelError

DEEP = 100_000
TABLE = "[changes]\n"

# The name of the file, its content, and words of the sentence.
MALFORMED = {
    "toml-empty": ("p.toml", "", "It has no table [changes]"),
    "toml-without-changes": ("p.toml", 'title = "x"', "It has no table [changes]"),
    "toml-changes-not-a-table": ("p.toml", "changes = 1", "It has no table [changes]"),
    "toml-changes-many-tables": ("p.toml", "[[changes]]\na = 1", "It has no table [changes]"),
    "toml-syntax": ("p.toml", TABLE + "a b", "It is not TOML: "),
    "toml-key-twice": ("p.toml", TABLE + 'a = "b"\na = "c"', "It is not TOML: "),
    "toml-unknown-key": ("p.toml", 'titel = "x"\n' + TABLE, "the known ones are title, note, "),
    "toml-changes-outside": ("p.toml", 'cat = "x"\n' + TABLE, "labels are listed under 'changes'"),
    "toml-title": ("p.toml", "title = 3\n" + TABLE, "The title of the plan is 3: give a text."),
    "toml-unlisted": ("p.toml", 'unlisted = "drop"\n' + TABLE, "unlisted='drop' is not known"),
    "toml-empty-destination": ("p.toml", TABLE + 'a = ""', "'a' goes nowhere: write false"),
    "toml-true": ("p.toml", TABLE + "a = true", "'a' goes to true: write false to retire it"),
    "toml-float": ("p.toml", TABLE + "a = 1.5", "write the label in quotes"),
    "toml-date": ("p.toml", TABLE + "a = 2020-01-01", "write the label in quotes"),
    "toml-list-of-dates": ("p.toml", TABLE + "a = [2020-01-01]", "write the label in quotes"),
    "toml-huge-number": ("p.toml", TABLE + f"a = 0x{'f' * 9999}", "write the label in quotes"),
    "toml-huge-weight": (
        "p.toml",
        TABLE + f"a = {{ b = 0x{'f' * 9999}, c = 1 }}",
        "The weight of 'b' in 'a' is not a number",
    ),
    "toml-empty-list": ("p.toml", TABLE + "a = []", "'a' goes nowhere"),
    "toml-empty-table": ("p.toml", TABLE + "a = {}", "'a' goes nowhere"),
    "toml-list-in-list": ("p.toml", TABLE + "a = [['b']]", "write the label in quotes"),
    "toml-dots": ("p.toml", TABLE + 'v1.0 = "b"', "if the label is 'v1.0', write it in double qu"),
    "toml-dots-retired": ("p.toml", TABLE + "a.b.c = false", "if the label is 'a.b.c', write"),
    "toml-dots-number": ("p.toml", TABLE + "v1.0 = 1", "if the label is 'v1.0', write"),
    "toml-dots-beside-weights": (
        "p.toml",
        TABLE + 'a.x = 0.5\na.y = "z"',
        "if the label is 'a.y', write",
    ),
    "toml-many-dots": ("p.toml", TABLE + "a." * DEEP + "a = 1", "a key of 100001 parts: write"),
    "toml-many-quoted-parts": ("p.toml", TABLE + '"a".' * DEEP + "a = 1", "a key of 100001 parts"),
    "toml-deep": ("p.toml", TABLE + "a = " + "[" * DEEP, "It is nested too deeply"),
    "toml-weights": ("p.toml", TABLE + "a = { b = 0.5, c = 0.4 }", "The weights of 'a' sum to 0.9"),
    "toml-weight-nan": ("p.toml", TABLE + "a = { b = nan, c = 0.4 }", "with the weight nan"),
    "toml-weight-negative": ("p.toml", TABLE + "a = { b = -1, c = 2 }", "with the weight -1"),
    "toml-parts-twice": ("p.toml", TABLE + 'a = ["b", "b"]', "The label 'b' appears twice"),
    "toml-into-retired": ("p.toml", TABLE + 'a = "b"\nb = false', "sends 'a' to 'b', which it"),
    "toml-part-retired": (
        "p.toml",
        TABLE + "a = { b = 0.5, c = 0.5 }\nc = false",
        "sends 'a' to 'c', which it",
    ),
    "toml-zero-bytes": ("p.toml", b"\0" * 100, "It is not TOML: "),
    "toml-not-utf-8": ("p.toml", b"title = '\xff'", "is not text in UTF-8: save it"),
    "toml-utf-16": ("p.toml", TABLE.encode("utf-16"), "is not text in UTF-8: save it"),
    "json-empty": ("p.json", "", "It is not JSON: "),
    "json-list": ("p.json", '["a"]', "It is not an object"),
    "json-syntax": ("p.json", '{"a": b}', "It is not JSON: "),
    "json-key-twice": (
        "p.json",
        '{"a": "b", "a": "c"}',
        "The key 'a' appears twice",
    ),
    "json-part-twice": ("p.json", '{"a": {"b": 0.5, "b": 0.5}}', "The key 'b' appears twice"),
    "json-nan": ("p.json", '{"a": {"b": NaN}}', "It is not JSON: NaN is not JSON."),
    "json-infinity": ("p.json", '{"a": Infinity}', "It is not JSON: Infinity is not JSON."),
    "json-deep": ("p.json", '{"a":' * DEEP, "It is nested too deeply"),
    "json-deep-list": ("p.json", "[" * DEEP, "It is nested too deeply"),
    "json-many-digits": ("p.json", '{"a": ' + "9" * 5000 + "}", "It is not JSON: "),
    "json-true": ("p.json", '{"a": true}', "'a' goes to true"),
    "json-empty-destination": ("p.json", '{"a": ""}', "'a' goes nowhere"),
    "json-nested": ("p.json", '{"a": {"b": {"c": 1}}}', "The weight of 'b' in 'a' is not a number"),
    "json-text-weight": ("p.json", '{"a": {"b": "1"}}', "The weight of 'b' in 'a' is not a number"),
    "json-unknown-key": ("p.json", '{"changes": {}, "x": 1}', "It has the key 'x': the known ones"),
    "json-title-alone": ("p.json", '{"title": "x", "a": "b"}', "put the changes into one"),
    "json-surrogate": ("p.json", '{"a": "\\ud800"}', "labels are strings"),
    "csv-empty": ("p.csv", "", "It has no header: write from and to"),
    "csv-header-alone": ("p.csv", "from,to\n", "It has a header and no changes below it"),
    "csv-one-column": ("p.csv", "from\na\n", "It has no column 'to' among 'from'"),
    "csv-semicolons": ("p.csv", "from;to\na;b\n", "It has no column 'from' among 'from;to'"),
    "csv-wrong-columns": (
        "p.csv",
        "old,new,note\na,b,c\n",
        "no column 'from' among 'old', ",
    ),
    "csv-to-missing": ("p.csv", "from,new\na,b\n", "It has no column 'to' among 'from', 'new'"),
    "csv-weight-alone": ("p.csv", "old,weight\na,1\n", "It has no column 'from' among 'old'"),
    "csv-column-twice": ("p.csv", "from,to,to\na,b,c\n", "It has several columns 'to'"),
    "csv-short-row": (
        "p.csv",
        "from,to\na,b\nc\n",
        "Line 3 does not have as many cells as the",
    ),
    "csv-long-row": ("p.csv", "from,to\na,b,c\n", "as many cells as the header (3, not 2)"),
    "csv-no-label": ("p.csv", "from,to\na,b\n,c\n", "Line 3 has no label to change"),
    "csv-pair-twice": ("p.csv", "from,to\na,b\na,b\n", "Line 3 repeats the pair 'a', 'b'"),
    "csv-retired-twice": ("p.csv", "from,to\na,\na,\n", "Line 3 repeats the pair 'a', ''"),
    "csv-retired-and-sent": ("p.csv", "from,to\na,\na,b\n", "Line 3 both retires 'a' and sends it"),
    "csv-some-weights": (
        "p.csv",
        "from,to,weight\na,b,0.5\na,c,\n",
        "Line 3: Some weights of 'a' are missing: give all or none.",
    ),
    "csv-weight-word": ("p.csv", "from,to,weight\na,b,half\n", "Line 2 has the weight 'half'"),
    "csv-weight-percent": ("p.csv", "from,to,weight\na,b,50%\n", "Line 2 has the weight '50%'"),
    "csv-weight-nan": ("p.csv", "from,to,weight\na,b,nan\n", "Line 2 has the weight 'nan'"),
    "csv-weight-retired": ("p.csv", "from,to,weight\na,,1\n", "Line 2 gives a weight and no dest"),
    "csv-weight-sum": ("p.csv", "from,to,weight\na,b,0.5\n", "The weights of 'a' sum to 0.5"),
    "csv-open-quote": ("p.csv", 'from,to\na,"b\n', "cannot be read: unexpected end of data."),
    "csv-huge-cell": ("p.csv", f"from,to\na,{'b' * 200_000}\n", "field larger than field limit"),
    "csv-into-retired": ("p.csv", "from,to\na,b\nb,\n", "sends 'a' to 'b', which it"),
    "csv-utf-16": ("p.csv", "from,to\na,b\n".encode("utf-16"), "is not text in UTF-8"),
    "tsv-commas": ("p.tsv", "from,to\na,b\n", "It has no column 'from' among 'from,to'"),
    "txt-empty": ("p.txt", "", "It is empty: write one label to retire on each line."),
    "txt-blank-line": ("p.txt", "a\n\nb\n", "Line 2 is empty"),
    "txt-twice": ("p.txt", "a\nb\na\n", "The label 'a' appears twice in the plan: give it once."),
    "other-ending": ("p.yaml", "a: b", "give a file that ends in .toml, .json, .csv, .tsv, .txt."),
    "no-ending": ("plan", "a: b", "is not named as a plan"),
}


def one_sentence(error, path):
    text = str(error)
    assert text.startswith(str(path)), text
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_plan_gets_one_sentence(tmp_path, case):
    name, content, words = MALFORMED[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UnlabelError) as refusal:
        LabelPlan.load(path)
    assert words in one_sentence(refusal.value, path)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["p.toml", "p.json", "p.csv", "p.txt"])
def test_a_plan_of_100_mb_is_refused_by_its_size(tmp_path, name):
    with open(tmp_path / name, "wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(UnlabelError) as refusal:
        LabelPlan.load(tmp_path / name)
    assert "is larger than 16 MiB" in one_sentence(refusal.value, tmp_path / name)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "link.toml").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("folder.toml", "link.toml", "pipe.toml", "missing.toml"):
        with pytest.raises(UnlabelError) as refusal:
            LabelPlan.load(tmp_path / name)
        assert "could not be read: " in one_sentence(refusal.value, tmp_path / name)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"from_column": "x"}, "It has no column 'x' among 'from', 'to'"),
        ({"to_column": "x"}, "It has no column 'x' among 'from', 'to'"),
        ({"from_column": "to"}, "Old and new labels would both be in column 'to': name two."),
    ],
)
def test_columns_that_a_table_does_not_have(tmp_path, columns, words):
    (tmp_path / "p.csv").write_text("from,to\na,b\n")
    with pytest.raises(UnlabelError) as refusal:
        LabelPlan.load(tmp_path / "p.csv", **columns)
    assert words in one_sentence(refusal.value, tmp_path / "p.csv")


def test_columns_of_files_without_columns(tmp_path):
    (tmp_path / "p.toml").write_text(TABLE)
    with pytest.raises(UnlabelError, match=r"p.toml: It has no columns that could be named"):
        LabelPlan.load(tmp_path / "p.toml", from_column="a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('x = "a"', "The model has no label 'x': the nearest is "),
        ("a = false\nb = false\nc = false", "All 3 labels would be"),
        ('a = ["x", "y"]', "The plan splits 'a' among 'x', 'y' without weights"),
    ],
)
def test_plans_that_do_not_fit_the_model(tmp_path, text, words):
    (tmp_path / "p.toml").write_text(TABLE + text)
    plan = LabelPlan.load(tmp_path / "p.toml")
    with pytest.raises(UnlabelError, match=re.escape(words)):
        doors.mask(["a", "b", "c"], plan).save(tmp_path / "filter.safetensors")
    assert os.listdir(tmp_path) == ["p.toml"]


def test_cycles_of_renames_are_fine(tmp_path):
    (tmp_path / "p.toml").write_text(TABLE + 'a = "b"\nb = "c"\nc = "a"')
    plan = LabelPlan.load(tmp_path / "p.toml")
    assert doors.mask(["a", "b", "c"], plan).classes == ("b", "c", "a")
