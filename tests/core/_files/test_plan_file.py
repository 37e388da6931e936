"""Plans read from files and written."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel import LabelPlan, UnlabelError

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def read(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return LabelPlan.load(path)


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


def test_whole_numbers_are_written_as_texts(tmp_path):
    plan = LabelPlan({1: 25, 2: {3: 0.5, "x": 0.5}})
    plan.save(tmp_path / "plan.toml")
    again = LabelPlan.load(tmp_path / "plan.toml")
    assert again.changes == {"1": "25", "2": {"3": 0.5, "x": 0.5}}
    assert not plan.diff(again)


def test_plans_are_written_as_toml_and_replace_a_file_of_the_same_name(tmp_path):
    with pytest.raises(UnlabelError, match=r"plan.csv: it does not end in .toml"):
        LabelPlan({}).save(tmp_path / "plan.csv")
    (tmp_path / "plan.toml").write_text("mine")
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


@pytest.mark.parametrize("removed", [None, False])
def test_json(tmp_path, removed):
    whole = {"title": "Version 2", "note": "two\nlines", "unlisted": "remove"}
    whole["changes"] = CHANGES | {"cat": removed, "B.LOC": 7}
    plan = read(tmp_path, "whole.json", json.dumps(whole))
    assert plan == read(tmp_path, "plan.toml", TOML)


def test_numbers_in_a_file_are_texts_until_they_meet_a_model(tmp_path):
    plan = read(
        tmp_path, "p.toml", "[changes]\n1 = 2\n3 = [4, 'x']\n5 = { 6 = 0.5, x = 0.5 }\n7 = 0"
    )
    assert plan.changes == {"1": "2", "3": ("4", "x"), "5": {"6": 0.5, "x": 0.5}, "7": "0"}
