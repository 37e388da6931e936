import json
import os

import pytest

from commands import unlabel
from unlabel import LabelPlan

ONE = "[changes]\ncat = false\nlynx = 'wild'\npuma = 'wild'\n"
TWO = 'title = "Two"\n[changes]\nwild = { small = 0.25, big = 0.75 }\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "one.toml": ONE,
        "two.toml": TWO,
        "three.toml": "[changes]\nsmall = false\n",
        "labels.txt": "cat\ndog\nlynx\npuma\n",
        "pairs.csv": "from,to\ncat,\nlynx,wild\npuma,wild\n",
        "old.csv": "old,new\nlynx,wild\nfox,Cat\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_check_shows_what_a_plan_does(folder):
    code, out, err = unlabel("plan", "check", "one.toml", "--classes", "labels.txt")
    assert (code, err) == (0, "")
    assert out.split("\n") == [
        "unchanged   1  'dog'",
        "renamed     0",
        "merged      2  into 1: 'wild'",
        "split       0",
        "removed     1  'cat'",
        "not listed  1  'dog'",
        "",
        "The plan can be fitted: 2 labels remain.",
        "",
    ]


def test_check_exits_with_1_if_the_plan_cannot_be_fitted(folder):
    (folder / "labels.txt").write_text("cat\ndog\nlynx\npumma\n")
    code, out, err = unlabel("plan", "check", "one.toml", "--classes", "labels.txt")
    assert (code, err) == (1, "")
    assert "The plan cannot be fitted:\n- The model has no label 'puma': the nearest is" in out


def test_check_exits_with_1_if_the_result_has_other_labels(folder):
    arguments = ("plan", "check", "one.toml", "--classes", "labels.txt", "--result", "result.txt")
    (folder / "result.txt").write_text("wild\ndog\n")
    assert unlabel(*arguments)[0] == 0
    (folder / "result.txt").write_text("dog\nfox\n")
    code, out, _ = unlabel(*arguments)
    assert code == 1
    assert out.endswith(
        "The result disagrees: missing, 'fox'.\nThe result disagrees: unexpected, 'wild'.\n"
    )
    found = json.loads(unlabel(*arguments, "--json")[1])
    assert (found["missing"], found["unexpected"]) == (["fox"], ["wild"])


def test_check_without_labels_says_so(folder):
    code, out, _ = unlabel("plan", "check", "two.toml")
    assert code == 0
    assert out.startswith("Two\nThe labels are those that the plan lists: give the model's with")
    assert "split          1  'wild'" in out


def test_draft_turns_pairs_into_a_plan_that_removes_nothing(folder):
    code, out, said = unlabel("plan", "draft", "pairs.csv")
    assert code == 0
    assert said.startswith("standard output: 2 changes.\n")
    assert "'cat'" in said
    (folder / "plan.toml").write_text(out)
    assert LabelPlan.load("plan.toml").changes == {"lynx": "wild", "puma": "wild"}
    assert unlabel("plan", "draft", "pairs.csv", "-o", "drafted.toml", "-q") == (0, "", "")
    assert (folder / "drafted.toml").read_text() == out
    assert unlabel("plan", "draft", "pairs.csv", "-o", "drafted.toml")[0] == 2


def test_draft_takes_the_names_of_columns_and_refuses_what_is_undecided(folder):
    assert unlabel("plan", "draft", "old.csv", "--from", "old", "--to", "new")[0] == 0
    code, out, error = unlabel("plan", "draft", "old.csv")
    assert (code, out) == (2, "")
    assert "old.csv: it has no column 'from'" in error
    (folder / "two.csv").write_text("from,to\ncat,lynx\ncat,puma\n")
    code, out, error = unlabel("plan", "draft", "two.csv", "-o", "two-drafted.toml")
    assert (code, out) == (2, "")
    assert "several destinations and no weights, 'cat'" in error
    assert not (folder / "two-drafted.toml").exists()


def test_compose_writes_a_plan(folder):
    arguments = ("plan", "compose", "one.toml", "two.toml", "--classes", "labels.txt")
    code, out, said = unlabel(*arguments, "--out", "both.toml")
    assert (code, out, said) == (0, "", "both.toml: 3 changes, 3 labels left.\n")
    both = LabelPlan.load("both.toml")
    split = {"small": 0.25, "big": 0.75}
    assert both.changes == {"cat": None, "lynx": split, "puma": split}
    assert (both.title, both.unlisted) == ("Two", "keep")
    code, _, err = unlabel(*arguments, "--out", "both.toml")
    assert code == 2
    assert "both.toml: it exists already" in err
    assert unlabel(*arguments, "--out", "both.toml", "--force")[0] == 0


def test_compose_takes_any_number_of_plans(folder):
    (folder / "third.toml").write_text("[changes]\nsmall = 'tiny'\n")
    plans = ("one.toml", "two.toml", "third.toml")
    code, _, _ = unlabel("plan", "compose", *plans, "--classes", "labels.txt", "-o", "all.toml")
    assert code == 0
    assert LabelPlan.load("all.toml").changes["puma"] == {"tiny": 0.25, "big": 0.75}


def test_compose_without_labels_makes_a_plan_for_the_labels_that_the_first_lists(folder):
    code, _, _ = unlabel("plan", "compose", "one.toml", "two.toml", "--out", "both.toml")
    assert code == 0
    assert LabelPlan.load("both.toml").unlisted == "error"


def test_compose_leaves_nothing_behind_when_it_fails(folder):
    before = sorted(os.listdir())
    code, _, err = unlabel("plan", "compose", "two.toml", "one.toml", "--out", "both.toml")
    assert code == 2
    assert "the first plan's result has no label 'cat'" in err
    assert err.endswith("(--classes).\n")
    assert sorted(os.listdir()) == before


def test_diff_shows_the_labels_that_differ(folder):
    (folder / "other.toml").write_text("[changes]\nlynx = 'wild'\nfox = 'Cat'\n")
    code, out, _ = unlabel("plan", "diff", "one.toml", "other.toml")
    assert code == 0
    assert out.split("\n") == [
        "- 'cat'   removed",
        "- 'puma'  'wild'",
        "+ 'fox'   'Cat'",
        "2 dropped, 0 changed, 1 added.",
        "",
    ]
    found = json.loads(unlabel("plan", "diff", "one.toml", "other.toml", "--json")[1])
    assert [label for label, _ in found["dropped"] + found["added"]] == ["cat", "puma", "fox"]
    same = unlabel("plan", "diff", "one.toml", "one.toml")
    assert same == (0, "The plans make the same changes.\n", "")


def test_a_malformed_plan_gets_one_sentence(folder):
    for command in (
        ("check", "none.toml"),
        ("diff", "one.toml", "labels.csv"),
        ("check", "old.csv"),
    ):
        code, out, err = unlabel("plan", *command)
        assert (code, out) == (2, "")
        assert err.startswith("Error: ")
        assert err.count("\n") == 1


def test_labels_and_titles_cannot_forge_what_is_printed(folder):
    hostile = "x\x1b[2J\n\u202e"
    LabelPlan({hostile: "y", "z": hostile + "2"}, title=hostile).save("hostile.toml")
    for command in (("check", "hostile.toml"), ("diff", "hostile.toml", "one.toml")):
        out = unlabel("plan", *command)[1]
        assert r"x\x1b[2J\n\u202e" in out
        assert not {"\x1b", "\u202e"} & {*out}
