"""Plans read from files and written."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import doors
from unlabel import LabelPlan, UnlabelError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def read(folder, name, text, **columns):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return LabelPlan.load(path, **columns)


@st.composite
def plans(draw):
    """Draw plans with any texts as labels."""
    names = draw(st.lists(TEXTS, unique=True, max_size=6))
    new = [name for name in draw(st.lists(TEXTS, min_size=3, unique=True)) if name not in names]
    changes = {}
    for name in names:
        parts = draw(st.lists(st.sampled_from(new), unique=True)) if new else []
        weights = draw(st.sampled_from([None, 1 / len(parts)])) if parts else None
        changes[name] = None if not parts else dict.fromkeys(parts, weights) if weights else parts
    unlisted = draw(st.sampled_from(["keep", "error", "remove"]))
    return LabelPlan(changes, title=draw(TEXTS), note=draw(TEXTS), unlisted=unlisted)


@given(plans())
def test_any_plan_is_the_same_after_it_was_written_and_read(tmp_path_factory, plan):
    path = tmp_path_factory.mktemp("plans") / "plan.toml"
    plan.save(path)
    again = LabelPlan.load(path)
    assert again == plan
    assert again.digest == plan.digest


def test_a_written_plan_is_toml_for_people(tmp_path):
    plan = LabelPlan(
        {"cat": None, "B-LOC": "O", 'a "b" \x7f\n': {"x.y": 0.25, "z": 0.75}, "dog": ["p", "q"]},
        title="Version 2",
        note="café",
        unlisted="error",
    )
    plan.save(tmp_path / "plan.toml")
    assert (tmp_path / "plan.toml").read_text(encoding="utf-8").split("\n") == [
        'title = "Version 2"',
        'note = "café"',
        'unlisted = "error"',
        "",
        "[changes]",
        '"cat" = false',
        '"B-LOC" = "O"',
        r'"a \"b\" \u007f\n" = { "x.y" = 0.25, "z" = 0.75 }',
        '"dog" = ["p", "q"]',
        "",
    ]


def test_labels_that_are_not_texts_are_written_as_their_texts(tmp_path):
    plan = LabelPlan({1: 2.5, 2: {True: 0.5, "x": 0.5}})
    plan.save(tmp_path / "plan.toml")
    again = LabelPlan.load(tmp_path / "plan.toml")
    assert again.changes == {"1": "2.5", "2": {"True": 0.5, "x": 0.5}}
    assert again.digest == plan.digest


@pytest.mark.parametrize(
    "changes", [{1: "a", "1": "b"}, {"a": {1: 0.5, "1": 0.5}}, {"a": 1, "1": "b"}]
)
def test_labels_that_a_file_cannot_tell_apart_are_not_written(tmp_path, changes):
    with pytest.raises(UnlabelError, match="different labels with the text '1': a file cannot"):
        LabelPlan(changes).save(tmp_path / "plan.toml")
    assert [*tmp_path.iterdir()] == []


def test_plans_are_written_as_toml_and_do_not_overwrite(tmp_path):
    with pytest.raises(UnlabelError, match=r"plan.csv does not end in .toml"):
        LabelPlan({}).save(tmp_path / "plan.csv")
    (tmp_path / "plan.toml").write_text("mine")
    with pytest.raises(UnlabelError, match="exists already"):
        LabelPlan({}).write(tmp_path / "plan.toml")
    LabelPlan({"a": "b"}).save(tmp_path / "plan.toml")
    assert LabelPlan.load(tmp_path / "plan.toml").changes == {"a": "b"}
    assert os.listdir(tmp_path) == ["plan.toml"]


TOML = """
title = "Version 2"
note = '''
two
lines'''
unlisted = "remove"

[changes]
cat = false
lynx = "other"  # a comment with 'one' quote: don't
"B.LOC" = 7
'wild "cat"' = { small = 0.25, big = 0.75 }
dog = ["hound", "puppy"]
"""
CHANGES = {
    "cat": None,
    "lynx": "other",
    "B.LOC": "7",
    'wild "cat"': {"small": 0.25, "big": 0.75},
    "dog": ("hound", "puppy"),
}


def test_toml(tmp_path):
    plan = read(tmp_path, "plan.TOML", TOML)
    assert plan.changes == CHANGES
    assert [*plan.changes] == [*CHANGES]
    assert (plan.title, plan.note, plan.unlisted) == ("Version 2", "two\nlines", "remove")
    assert read(tmp_path, "bom.toml", b"\xef\xbb\xbf" + TOML.encode()) == plan


@pytest.mark.parametrize("retired", [None, False])
def test_json(tmp_path, retired):
    changes = CHANGES | {"cat": retired, "B.LOC": 7}
    whole = {"title": "Version 2", "note": "two\nlines", "unlisted": "remove", "changes": changes}
    plan = read(tmp_path, "whole.json", json.dumps(whole))
    assert plan == read(tmp_path, "plan.toml", TOML)
    assert read(tmp_path, "changes.json", json.dumps(changes)).changes == CHANGES


def test_a_label_of_a_json_plan_may_be_named_changes(tmp_path):
    assert read(tmp_path, "plan.json", '{"changes": "new"}').changes == {"changes": "new"}


@pytest.mark.parametrize(("name", "separator"), [("plan.csv", ","), ("plan.tsv", "\t")])
def test_tables_of_pairs(tmp_path, name, separator):
    lines = [
        "note,to,from,weight",
        ",,cat,",
        "a remark,other,lynx,",
        ",7,B.LOC,1",
        "",
        '"x, y",small,"wild ""cat""",0.25',
        ",hound,dog,",
        ',big,"wild ""cat""",.75',
        ",puppy,dog,",
        "",
    ]
    text = "\r\n".join(lines).replace(",", separator)
    assert read(tmp_path, name, "\ufeff" + text).changes == CHANGES


def test_a_table_of_two_columns_is_taken_as_it_stands(tmp_path):
    plan = read(tmp_path, "plan.csv", "2007,2012\na,b\nc,\nd,e\nd,f\n")
    assert plan.changes == {"a": "b", "c": None, "d": ("e", "f")}


def test_columns_can_be_named(tmp_path):
    text = "code,title,new\na,Apples,b\n"
    assert read(tmp_path, "p.csv", text, from_column="code", to_column="new").changes == {
        "a": "b"
    }
    text = "to,new,from\na,b,c\n"
    assert read(tmp_path, "p.csv", text, to_column="new").changes == {"c": "b"}
    assert read(tmp_path, "p.csv", text, from_column="to", to_column="from").changes == {
        "a": "c"
    }


def test_a_text_file_lists_labels_to_retire(tmp_path):
    assert read(tmp_path, "plan.txt", "\ufeffcat\r\n a, b \r\n").changes == {
        "cat": None,
        " a, b ": None,
    }


def test_a_table_whose_header_is_a_label_of_the_model_is_refused_where_they_meet(tmp_path):
    plan = read(tmp_path, "plan.csv", "1,2\n3,4\n")
    assert doors.mask(["3", "5"], plan).classes == ("4", "5")
    for labels in (["1", "3"], [1, 3]):
        for each in (plan, plan.named(title="t"), plan.matched(labels)):
            with pytest.raises(UnlabelError) as refusal:
                doors.mask(labels, each)
            assert str(refusal.value) == (
                f"{tmp_path / 'plan.csv'}: Its first line, '1', '2', would be its header, but "
                "starts with a label of the model: write from,to above it."
            )
    assert plan.check(["1", "3"]).problems[0] == str(refusal.value)
    same = LabelPlan({"3": "4"})
    assert (plan == same, plan.digest) == (True, same.digest)


def test_a_header_that_was_named_may_be_a_label_of_the_model(tmp_path):
    for text, columns in (
        ("from,to\nfrom,b\n", {}),
        ("a,b\na,c\n", {"from_column": "a", "to_column": "b"}),
    ):
        plan = read(tmp_path, "plan.csv", text, **columns)
        assert doors.mask([*plan.changes, "z"], plan).classes[-1] == "z"
