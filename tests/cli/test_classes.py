"""The labels of a model on the command line: from JSON, and a mask that needs nothing else."""

import json
import os

import pytest

from commands import unlabel
from unlabel import OutputFilter

NAMES = ["cat", "a, b", "owl", "3"]
ID2LABEL = {"2": "owl", "0": "cat", "3": "3", "1": "a, b"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, text):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def fit(*options):
    code, out, error = unlabel("fit", *options, "--out", "f.safetensors", "--force")
    assert (code, error) == (0, "")
    return OutputFilter.load("f.safetensors"), out


def refused(*options):
    before = os.listdir()
    code, out, error = unlabel("fit", *options, "--out", "f.safetensors")
    assert (code, out) == (2, "")
    assert error.count("\n") == 1
    assert os.listdir() == before
    return error


def test_mask_needs_no_table():
    write("labels.txt", "cat\na, b\nowl\n3\n")
    options = ["--method", "mask", "--classes", "@labels.txt", "--title", "Version 2"]
    fitted, out = fit(*options, "--remove", "cat", "--remove", "owl=bird")
    expected = OutputFilter.mask(NAMES, {"cat": None, "owl": "bird"})
    assert fitted.plan.title == "Version 2"
    assert (fitted.classes_in, fitted.method) == (expected.classes_in, "mask")
    assert fitted.plan == expected.plan.named("Version 2", None)
    assert out == "f.safetensors: 1 of 4 labels retired, 1 renamed.\n"
    kept, _ = fit(*options, "--keep", "a, b,3", "--input", "logits")
    assert (kept.removed, kept.input) == (("cat", "owl"), "logits")


def test_a_table_is_needed_for_reference_rows_alone():
    fitted, _ = fit("--classes", "cat,dog,owl", "--remove", "cat=dog")
    assert (fitted.method, fitted.classes) == ("osr", ("dog", "owl"))
    os.remove("f.safetensors")
    for method in ("osr", "literal"):
        options = ["--classes", "cat,dog,owl", "--remove", "cat", "--method", method]
        assert refused(*options) == (
            "Error: Retiring 'cat' needs reference rows: give a table of them, or --method mask, "
            "which needs none.\n"
        )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--remove", "cat"], "give a table of reference rows, or the model's labels with"),
        (["--remove", "cat", "--method", "mask"], "labels with --classes"),
        (["--classes", "cat,dog"], "Give either remove="),
        (["--classes", "cat,dog", "--remove", "cta"], "no label 'cta': the nearest is 'cat'"),
        (["--classes", "cat,cat", "--remove", "cat"], "'cat' appears twice in classes"),
        (
            ["--classes", "cat,dog", "--remove", "cat", "--method", "mask", "--calibrate"],
            "--calibrate needs reference rows: give a table",
        ),
    ],
)
def test_what_is_missing_without_a_table_is_named(options, says):
    assert says in refused(*options)


def test_a_file_of_labels_without_its_sign_is_not_taken_for_a_label():
    write("labels.txt", "cat\ndog\n")
    for name in ("labels.txt", os.path.abspath("labels.txt")):
        says = f"for those in the file {name}, write @{name}."
        assert says in " ".join(refused("--classes", name, "--remove", "cat").split())


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
    options = ["--method", "mask", "--classes", "@config.JSON"]
    fitted, _ = fit(*options, "--remove", "owl", "--remove", "3")
    assert fitted.classes_in == tuple(NAMES)
    assert fitted.classes == ("cat", "a, b")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "It is not JSON"),
        ("cat\nowl\n", "It is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no labels in it: write a list of them, or an id2label object"),
        ("{}", "no labels in it"),
        ('{"id2label": null}', "no labels in it"),
        ('"cat"', "no labels in it"),
        ('["cat", NaN]', "It is not JSON: NaN"),
        ('["cat", "cat"]', "'cat' appears twice in classes"),
        ('["cat", null]', "holds None"),
        ('["cat", ["owl"]]', "holds ['owl']"),
        ('["cat", true]', "The label True is not a text: write it in quotes"),
        ('["cat", 1.5]', "The label 1.5 is not a text"),
        ('["cat", "\\ud800"]', "holds "),
        ('{"0": "cat", "0": "owl"}', "The key '0' appears twice"),
        ('{"0": "cat", "2": "owl"}', "keys are not 0 to 1: give a list in the order"),
        ('{"cat": 0, "owl": 1}', "keys are not 0 to 1"),
        ('{"model_type": "bert"}', "or an id2label mapping"),
    ],
)
def test_json_that_holds_no_labels_gets_one_sentence(text, says):
    write("labels.json", text)
    message = refused("--method", "mask", "--classes", "@labels.json", "--remove", "cat")
    assert message.startswith("Error: labels.json: ")
    assert says in message


def test_an_empty_line_is_not_a_label():
    write("labels.txt", "cat\nowl\n\n")
    message = refused("--method", "mask", "--classes", "@labels.txt", "--remove", "cat")
    assert message == "Error: labels.txt: Line 3 is empty: write one label on each line.\n"


def test_an_empty_list_of_labels_is_named():
    write("labels.txt", "")
    message = refused("--method", "mask", "--classes", "@labels.txt", "--remove", "cat")
    assert message == "Error: labels.txt: It has no labels in it: write one on each line.\n"
