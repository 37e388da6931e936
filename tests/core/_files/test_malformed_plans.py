"""Files that are not plans: one sentence each that names the file and the place."""

import os

import pytest

import doors
from unlabel import LabelPlan, UnlabelError

DEEP = 100_000
TABLE, WEIGHTS = "[changes]\n", '{"changes": {"a": {"b": %s, "c": 1}}}'
NO_TABLE, NO_TEXT = ": it has no table 'changes'", ": it is not text in UTF-8"
OF_A = ", the destination of 'a': "
NO_LABEL, DOTTED = "is neither a string nor a whole number", "write labels with dots in quotes"

# Contents that do not begin with a bracket are those of a table of changes in TOML.
TOML = {
    "empty": ("[x]", NO_TABLE),
    "changes-not-a-table": ("[[changes]]\na = 1", NO_TABLE),
    "syntax": ("a b", ": it is not TOML: "),
    "key-twice": ('a = "b"\na = "c"', "label or key appears twice"),
    "empty-destination": ('a = ""', OF_A + "it is empty: write false"),
    "true": ("a = true", OF_A + "the label True " + NO_LABEL),
    "float": ("a = 1.5", OF_A + "the label 1.5 " + NO_LABEL),
    "date": ("a = 2020-01-01", NO_LABEL),
    "list-of-dates": ("a = [2020-01-01]", NO_LABEL),
    "huge-number": (f"a = 0x{'f' * 9999}", "the label beyond 64 bits"),
    "huge-weight": (f"a = {{ b = 0x{'f' * 9999}, c = 1 }}", "the weight of 'b' is beyond 64 bits"),
    "empty-list": ("a = []", OF_A + "it is empty"),
    "empty-table": ("a = {}", OF_A + "it is a table that is not weights"),
    "list-in-list": ("a = [['b']]", NO_LABEL),
    "dots": (
        'v1.0 = "b"',
        ", the destination of 'v1': it is a table that is not weights: " + DOTTED,
    ),
    "dots-removed": ("a.b.c = false", DOTTED),
    "dots-beside-weights": ('a.x = 0.5\na.y = "z"', DOTTED),
    "many-dots": ("a." * DEEP + "a = 1", ", line 2: it has too many dots: " + DOTTED),
    "many-quoted-parts": ('"a".' * DEEP + "a = 1", "too many dots"),
    "deep": ("a = " + "[" * DEEP, ": it is nested too deeply"),
    "weights": ("a = { b = 0.5, c = 0.4 }", OF_A + "the weights sum to 0.9"),
    "weight-nan": ("a = { b = nan, c = 0.4 }", "the weight of 'b' is nan"),
    "weight-negative": ("a = { b = -1, c = 2 }", "the weight of 'b' is -1"),
    "parts-twice": ('a = ["b", "b"]', "the label 'b' appears twice"),
    "into-removed": ('a = "b"\nb = false', "sends 'a' to 'b' and removes 'b'"),
    "part-removed": ("a = { b = 0.5, c = 0.5 }\nc = false", "sends 'a' to 'c' and removes 'c'"),
}
# The name of the file, its content, and words of the sentence.
MALFORMED = {
    **{
        name: ("p.toml", TABLE * (text[0] != "[") + text, words)
        for name, (text, words) in TOML.items()
    },
    "unknown-key": (
        "p.toml",
        'titel = "x"\n' + TABLE,
        "the key 'titel' is not known: use changes, ",
    ),
    "title": ("p.toml", "title = 3\n" + TABLE, ", the key 'title': the value 3 is not text"),
    "unlisted": ("p.toml", 'unlisted = "drop"\n' + TABLE, ", the key 'unlisted': "),
    "zero-bytes": ("p.toml", b"\0" * 100, ": it is not TOML: "),
    "not-utf-8": ("p.toml", b"title = '\xff'", NO_TEXT),
    "utf-16": ("p.toml", TABLE.encode("utf-16"), NO_TEXT),
    "json-empty": ("p.json", "", ": it is not JSON: "),
    "json-list": ("p.json", '["a"]', NO_TABLE),
    "json-flat": ("p.json", '{"a": "b"}', NO_TABLE),
    "json-syntax": ("p.json", '{"changes": b}', ": it is not JSON: "),
    "json-nan": ("p.json", WEIGHTS % "NaN", "the weight of 'b' is nan"),
    "json-deep": ("p.json", '{"changes":' * DEEP, ": it is nested too deeply"),
    "json-many-digits": ("p.json", WEIGHTS % ("9" * 5000), ": it is not JSON: "),
    "json-true": ("p.json", '{"changes": {"a": true}}', "the label True"),
    "json-nested": ("p.json", WEIGHTS % '{"c": 1}', "it is a table that is not weights"),
    "json-text-weight": ("p.json", WEIGHTS % '"1"', "it is a table that is not weights"),
    "json-unknown-key": ("p.json", '{"changes": {}, "x": 1}', "the key 'x' is not known"),
    "json-surrogate": ("p.json", '{"changes": {"a": "\\ud800"}}', NO_LABEL),
    "csv": ("p.csv", "from,to\na,b\n", ": its name does not end in .toml or .json"),
    "no-ending": ("plan", "a: b", ": its name does not end in .toml or .json"),
}


def refusal(path):
    with pytest.raises(UnlabelError) as caught:
        LabelPlan.load(path)
    text = str(caught.value)
    assert text.startswith(str(path)), text
    assert text.isprintable()
    assert text.endswith(".")
    return text


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_plan_gets_one_sentence(tmp_path, case):
    name, content, words = MALFORMED[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in refusal(path)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["p.toml", "p.json"])
def test_a_plan_of_100_mb_is_refused_by_its_size(tmp_path, name):
    with open(tmp_path / name, "wb") as file:
        file.truncate(100_000_000)
    assert "is larger than 64 MiB" in refusal(tmp_path / name)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    for name in ("folder.toml", "pipe.toml", "loop.toml"):
        assert "could not be read: " in refusal(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"missing\.toml"):
        LabelPlan.load(tmp_path / "missing.toml")


def test_cycles_of_renames_are_fine(tmp_path):
    (tmp_path / "p.toml").write_text(TABLE + 'a = "b"\nb = "c"\nc = "a"')
    plan = LabelPlan.load(tmp_path / "p.toml")
    assert doors.mask(["a", "b", "c"], plan).classes_out == ("b", "c", "a")
