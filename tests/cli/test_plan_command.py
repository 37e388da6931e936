import json
import os

import pytest

from commands import unlabel
from unlabel import LabelPlan


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "one.csv": "from,to\ncat,\nlynx,wild\npuma,wild\n",
        "two.toml": 'title = "Two"\n[changes]\nwild = { small = 0.25, big = 0.75 }\n',
        "old.csv": "old,new\nlynx,wild\nfox,Cat\n",
        "labels.txt": "cat\ndog\nlynx\npuma\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_check_shows_what_a_plan_does(folder):
    code, out, err = unlabel("plan", "check", "one.csv", "--classes", "@labels.txt")
    assert (code, err) == (0, "")
    assert out.split("\n") == [
        "unchanged   1  'dog'",
        "renamed     0",
        "merged      2  into 1: 'wild'",
        "split       0",
        "retired     1  'cat'",
        "left        2  'dog', 'wild'",
        "not listed  1  'dog'",
        "",
        "The plan can be fitted.",
        "",
    ]


def test_check_exits_with_1_if_the_plan_cannot_be_fitted(folder):
    code, out, err = unlabel("plan", "check", "one.csv", "--classes", "cat,dog,lynx")
    assert (code, err) == (1, "")
    assert "The plan cannot be fitted:\n- The model has no label 'puma': the nearest is" in out


def test_check_without_labels_says_so(folder):
    code, out, _ = unlabel("plan", "check", "two.toml")
    assert code == 0
    assert out.startswith("Two\nThe labels are those that the plan lists: give the model's with")
    assert "split      1  'wild'" in out


def test_check_takes_the_names_of_columns_and_gives_json(folder):
    arguments = ("--from", "old", "--to", "new", "--classes", "cat,lynx,fox", "--json")
    code, out, _ = unlabel("plan", "check", "old.csv", *arguments)
    assert code == 0
    found = json.loads(out)
    assert found["renamed"] == [["lynx", "wild"], ["fox", "Cat"]]
    assert found["misspelt"] == [["Cat", "cat"]]
    assert found["left"] == ["cat", "wild", "Cat"]


def test_compose_writes_a_plan(folder):
    arguments = ("plan", "compose", "one.csv", "two.toml", "--classes", "@labels.txt")
    code, out, _ = unlabel(*arguments, "--out", "both.toml")
    assert (code, out) == (0, "both.toml: 3 changes, 3 labels left.\n")
    both = LabelPlan.read("both.toml")
    split = {"small": 0.25, "big": 0.75}
    assert dict(both) == {"cat": None, "lynx": split, "puma": split}
    assert (both.title, both.unlisted) == ("Two", "keep")
    code, _, err = unlabel(*arguments, "--out", "both.toml")
    assert code == 2
    assert "both.toml exists already" in err
    assert unlabel(*arguments, "--out", "both.toml", "--force")[0] == 0


def test_compose_without_labels_makes_a_plan_for_the_labels_that_the_first_lists(folder):
    code, _, _ = unlabel("plan", "compose", "one.csv", "two.toml", "--out", "both.toml")
    assert code == 0
    assert LabelPlan.read("both.toml").unlisted == "error"


def test_compose_leaves_nothing_behind_when_it_fails(folder):
    before = sorted(os.listdir())
    code, _, err = unlabel("plan", "compose", "two.toml", "one.csv", "--out", "both.toml")
    assert code == 2
    assert err == (
        "Error: The second plan changes 'cat', which the first plan does not leave: the nearest "
        "is 'small'; or give all labels of the model (labels=[...], --classes).\n"
    )
    assert sorted(os.listdir()) == before


def test_diff_shows_the_labels_that_differ(folder):
    code, out, _ = unlabel("plan", "diff", "one.csv", "old.csv")
    assert code == 0
    assert out.split("\n") == [
        "label   first plan  second plan",
        "'cat'   retired     not listed",
        "'puma'  'wild'      not listed",
        "'fox'   not listed  'Cat'",
        "",
    ]
    assert unlabel("plan", "diff", "one.csv", "one.csv")[1] == "The plans make the same changes.\n"


def test_a_malformed_plan_gets_one_sentence(folder):
    for command in (("check", "none.csv"), ("diff", "one.csv", "labels.csv")):
        code, out, err = unlabel("plan", *command)
        assert (code, out) == (2, "")
        assert err.startswith("Error: ")
        assert err.count("\n") == 1


def test_labels_and_titles_cannot_forge_what_is_printed(folder):
    hostile = "x\x1b[2J\n\u202e"
    LabelPlan({hostile: "y", "z": hostile + "2"}, title=hostile).write("hostile.toml")
    for command in (("check", "hostile.toml"), ("diff", "hostile.toml", "one.csv")):
        out = unlabel("plan", *command)[1]
        assert r"x\x1b[2J\n\u202e" in out
        assert not {"\x1b", "\u202e"} & {*out}


def test_the_columns_of_both_plans_can_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, pair in {"one.csv": "cat,lynx", "two.csv": "lynx,puma"}.items():
        (tmp_path / name).write_text(f"note,old,new\n,{pair}\n", encoding="utf-8")
    columns = ("--from", "old", "--to", "new")
    code, _, error = unlabel("plan", "compose", "one.csv", "two.csv", "--out", "p.toml", *columns)
    assert (code, error) == (0, "")
    assert dict(LabelPlan.read("p.toml")) == {"cat": "puma"}
    code, out, error = unlabel("plan", "diff", "one.csv", "p.toml", *columns)
    assert (code, error) == (0, "")
    assert "'cat' 'lynx' 'puma'" in " ".join(out.split())
