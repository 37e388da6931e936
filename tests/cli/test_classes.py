"""The labels of a model on the command line: from JSON, and a mask that needs nothing else."""

import json
import os

import pytest

from commands import unlabel
from unlabel import LabelPlan, OutputFilter

NAMES = ["cat", "a, b", "owl", "3"]
ID2LABEL = {"2": "owl", "0": "cat", "3": "3", "1": "a, b"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def fit(*options):
    code, out, said = unlabel("fit", *options, "--out", "f.safetensors", "--force")
    assert (code, out) == (0, "")
    return OutputFilter.load("f.safetensors"), said


def refused(*options):
    before = os.listdir()
    code, out, error = unlabel("fit", *options, "--out", "f.safetensors")
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    assert os.listdir() == before
    return error


def test_mask_needs_no_table():
    write("labels.txt", "cat\na, b\nowl\n3\n")
    write("plan.toml", 'title = "Version 2"\n[changes]\ncat = false\nowl = "bird"\n')
    options = ["--method", "mask", "--classes", "labels.txt"]
    fitted, said = fit(*options, "--plan", "plan.toml")
    plan = LabelPlan({"cat": None, "owl": "bird"}, title="Version 2")
    assert fitted == OutputFilter.from_plan(plan, classes=NAMES)
    assert said == "f.safetensors: 1 of 4 labels removed, 1 renamed.\n"
    kept, _ = fit(*options, "--keep", "a, b", "--keep", "3", "--kind", "logits")
    assert (kept.removed, kept.kind) == (("cat", "owl"), "logits")


def test_quiet_says_nothing():
    write("labels.txt", "cat\ndog\n")
    options = ("--classes", "labels.txt", "--remove", "cat", "--method", "mask", "-o", "f", "-q")
    assert unlabel("fit", *options) == (0, "", "")
    assert "exists already" in unlabel("fit", *options)[2]


def test_a_table_is_needed_for_reference_rows_alone():
    write("labels.txt", "cat\ndog\nowl\n")
    write("plan.toml", '[changes]\ncat = "dog"\n')
    fitted, _ = fit("--classes", "labels.txt", "--plan", "plan.toml")
    assert (fitted.method, fitted.classes_out) == ("osr", ("dog", "owl"))
    os.remove("f.safetensors")
    assert refused("--classes", "labels.txt", "--remove", "cat") == (
        "Error: Removing 'cat' by OSR needs a table of reference rows: give one, or choose mask "
        "(--method).\n"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--remove", "cat"], "give a table of reference rows, or the model's labels (--classes)"),
        (["--remove", "cat", "--method", "mask"], "model's labels (--classes)"),
        (["--classes", "two.txt"], "Give one of a plan, labels to remove and labels to keep"),
        (["--classes", "two.txt", "--remove", "cta"], "no label 'cta': the nearest is 'cat'"),
        (["--classes", "twice.txt", "--remove", "cat"], "'cat' appears twice"),
        (["--classes", "cat,dog", "--remove", "cat"], "cat,dog: No such file or directory."),
        (["--classes", "two.txt", "--plan", "none.toml"], "none.toml: No such file or directory."),
        (
            ["--classes", "two.txt", "--remove", "cat", "--method", "mask", "--calibrate"],
            "fitted on reference rows: give a table, or leave it out (--calibrate)",
        ),
    ],
)
def test_what_is_missing_without_a_table_is_named(options, says):
    write("two.txt", "cat\ndog\n")
    write("twice.txt", "cat\ncat\n")
    assert says in refused(*options)


@pytest.mark.parametrize(
    "content",
    [
        NAMES,
        ["cat", "a, b", "owl", 3],
        ID2LABEL,
        {"model_type": "bert", "id2label": ID2LABEL, "label2id": {"cat": 0}, "layers": [1, 2]},
    ],
)
def test_labels_come_from_json(content):
    write("config.JSON", "\ufeff" + json.dumps(content))
    options = ["--method", "mask", "--classes", "config.JSON"]
    fitted, _ = fit(*options, "--remove", "owl", "--remove", "3")
    assert fitted.classes_in == tuple(NAMES)
    assert fitted.classes_out == ("cat", "a, b")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is not JSON"),
        ("cat\nowl\n", "it is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no labels in it: write a list of them, or an id2label object"),
        ("{}", "no labels in it"),
        ('{"id2label": null}', "no labels in it"),
        ('"cat"', "no labels in it"),
        ('["cat", NaN]', "label nan is neither a string nor a whole number"),
        ('["cat", "cat"]', "'cat' appears twice"),
        ('["cat", null]', "label None is neither"),
        ('["cat", ["owl"]]', "label ['owl'] is neither"),
        ('["cat", true]', "label True is neither"),
        ('["cat", 1.5]', "label 1.5 is neither"),
        ('["cat", "\\ud800"]', "is neither"),
        (
            '{"0": "cat", "2": "owl"}',
            "not 0 to 1: give a list in the order",
        ),
        ('{"cat": 0, "owl": 1}', "keys of the mapping are not 0 to 1"),
        ('{"model_type": "bert"}', "or an id2label mapping"),
    ],
)
def test_json_that_holds_no_labels_gets_one_sentence(text, says):
    write("labels.json", text)
    message = refused("--method", "mask", "--classes", "labels.json", "--remove", "cat")
    assert message.startswith("Error: labels.json: ")
    assert says in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cat\nowl\n\n", "labels.txt, line 3: it is empty: write one label on each line."),
        ("", "labels.txt: it has no labels in it: write one on each line."),
    ],
)
def test_lines_without_a_label_are_named(text, says):
    write("labels.txt", text)
    message = refused("--method", "mask", "--classes", "labels.txt", "--remove", "cat")
    assert message == f"Error: {says}\n"
