"""Methods, sets, models and labels to remove come from outside, without a change to research."""

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest

import doors
from commands import research
from page_blocks import ROOT, blocks
from research import registry
from research.results.files import stored_cells
from research.suites import chosen
from tiny_study import STUDY

pytestmark = pytest.mark.usefixtures("one_thread")

REGISTERED = (registry.METHODS, registry.DATASETS, registry.MODELS)
PLUGIN = """
import numpy as np
import torch
from torch import nn

from research import register_dataset, register_method, register_model
from research.datasets import ImageSet
from research.settings import Recipe
from research.task import Outcome

def stripes():
    labels = torch.arange(80) % 4
    images = torch.zeros(80, 3, 8, 8, dtype=torch.uint8)
    images[torch.arange(80), :, labels] = 255
    return ImageSet(images[:60], labels[:60], images[60:], labels[60:])

def first(task):
    return Outcome({"first": np.eye(len(task.retained))[np.zeros(len(task.test_images), int)]})

def truth(task):
    return Outcome({"truth": np.eye(task.classes)[task.test_images.labels.numpy()]})

def flat(labels):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, labels))

register_method("first", first, title="always the first")
register_method("truth", truth)
register_dataset("stripes", stripes, labels=4, forget=[[2, 0]], title="Stripes")
register_model("flat", flat, recipe=Recipe(epochs=5, batch=20, rate=0.01, padding=0, flip=False))
"""
METHOD = "from research import register_method\nregister_method('mine', lambda task: {})\n"
CELL = "stripes/flat/s0/F1"


@pytest.fixture(autouse=True)
def registries():
    """Forget what plugins register."""
    before = [dict(names) for names in REGISTERED]

    def forget():
        for names, own in zip(REGISTERED, before, strict=True):
            names.clear()
            names.update(own)

    yield forget
    forget()


@pytest.fixture
def plugin(tmp_path):
    file = tmp_path / "my.py"
    file.write_text(PLUGIN)
    return file


def run(out, plugin, *options):
    """Run what a file registers, with one seed."""
    return research("run", "--plugin", plugin, "--seeds", "0", "--out", out, *options)


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    (lines,) = [text for kind, _, text in blocks("docs/research/extend.md") if kind == "text"]
    monkeypatch.chdir(ROOT)
    for command in lines.splitlines():
        python, _, module, *arguments = shlex.split(command)
        assert (python, module) == ("python", "research")
        out = [str(tmp_path) if argument == "results" else argument for argument in arguments]
        code, tables, errors = research(*out)
        assert code == 0, errors
    facts = {cell: doors.stored(tmp_path, cell).facts for cell in stored_cells(tmp_path)}
    assert {str(cell) for cell in facts} == {
        f"turned/tiny/s{seed}/F{number}" for seed in (0, 1) for number in range(3)
    }
    for cell, found in facts.items():
        if cell.removed:
            assert {"even", *registry.METHODS} == {*found["methods"]}
            assert found["full_precision"]["even"]["A_R"] > 0.7
    assert "| spread evenly |" in tables


def test_a_method_a_set_and_a_model_come_from_outside(tmp_path, plugin):
    code, _, errors = run(tmp_path, plugin, "--study", "stripes/flat")
    assert code == 0, errors
    base, cell = stored_cells(tmp_path)
    assert (str(cell), cell.removed) == (CELL, (0, 2))
    stored, truth = doors.stored(tmp_path, cell), doors.stored(tmp_path, base).arrays["labels"]
    assert stored.arrays["first"].shape == (20, 2)
    assert stored.arrays["truth"].shape == (20, 4)
    np.testing.assert_array_equal(stored.arrays["truth"].argmax(axis=1), truth)
    values = stored.facts["full_precision"]
    assert (values["first"]["A_R"], values["truth"]["A_F"]) == (0.5, 1.0)
    assert stored.facts["seconds"]["first"].keys() == {"total"}


def test_tables_of_outside_results_need_no_plugin(tmp_path, plugin, registries):
    run(tmp_path, plugin, "--study", "stripes/flat")
    titled = research("tables", tmp_path)
    registries()
    code, untitled, errors = research("tables", tmp_path)
    assert code == 0, errors
    assert "Stripes, flat" in titled[1]
    assert "| always the first | .5000 |" in titled[1]
    assert "stripes, flat" in untitled
    assert "| first | .5000 |" in untitled
    again = research("tables", tmp_path, "--plugin", plugin)
    assert again == titled


def test_labels_and_seeds_of_ones_own(tmp_path, plugin, registries):
    labels = ("--forget", "3", "--forget", "2,1", "--study", "stripes/flat", "--seeds", "4,2")
    code, _, errors = run(tmp_path, plugin, *labels, "--only", "F1", "--only", "s4")
    assert code == 0, errors
    removed = {str(cell): cell.removed for cell in stored_cells(tmp_path)}
    assert removed == {
        "stripes/flat/s2/F0": (),
        "stripes/flat/s2/F1": (3,),
        "stripes/flat/s4/F0": (),
        "stripes/flat/s4/F1": (3,),
        "stripes/flat/s4/F2": (1, 2),
    }
    registries()
    code, _, errors = run(tmp_path, plugin, "--study", "stripes/flat", "--seeds", "7")
    assert code == 2
    assert re.search(r"s2/F1\.json .*\(removed labels are \[3\], not \[0, 2\]\)", errors)


def test_seeds_of_ones_own_leave_none_that_only_retrains():
    studies = chosen("paper", seeds="3,5")
    assert {(study.seeds, study.retrained_only) for study in studies} == {((3, 5), ())}
    assert chosen("paper")[-1].retrained_only == (1,)


def test_a_study_runs_the_methods_that_it_names(tmp_path, monkeypatch):
    doors.as_suite(monkeypatch, replace(STUDY, methods=("mask", "sort")))
    (why,) = doors.run_study(tmp_path, "s0/F1")
    assert why.startswith("There is no method 'sort': choose from osr, mask")
    assert doors.stored(tmp_path, STUDY.cells()[1]).facts["methods"] == ["mask"]


def test_methods_from_outside_run_on_the_cells_of_a_suite(tmp_path, plugin, monkeypatch):
    doors.as_suite(monkeypatch, STUDY)
    code, _, errors = run(tmp_path / "out", plugin, "--only", "F1")
    assert code == 0, errors
    facts = doors.stored(tmp_path / "out", STUDY.cells()[1]).facts
    assert facts["methods"] == doors.method_names()
    assert facts["methods"][-2:] == ["first", "truth"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--study", "stripes/vgg"], "no model 'vgg': choose from resnet18.*flat"),
        (["--study", "birds/flat"], "no set 'birds': choose from cifar10.*stripes"),
        (["--study", "stripes"], "no model ''"),
        (["--forget", "0,7"], "stripes has no label 7 to remove, but 0 to 3"),
        (["--forget", "1", "--forget", "0,0"], "0,0 has a label of stripes twice"),
        (["--forget", "0,1,2,3"], "0,1,2,3 are all labels of stripes"),
        (["--forget", "0;1"], "--forget 0;1 has to be numbers with commas"),
        (["--forget", ""], "--forget .*has to be numbers"),
        (["--forget", "0,1", "--forget", "1,0"], r"--forget repeats \(0, 1\): name each once"),
        (["--seeds", "3,0,3"], "--seeds repeats 3"),
        (["--suite", "paper"], "not allowed with argument"),
        (["--seeds", "one"], "--seeds one has to be numbers"),
        (["--only", "F7"], "No cell matches 'F7'"),
    ],
)
def test_a_mistake_gets_one_sentence(tmp_path, plugin, options, words):
    assert_one_sentence(run(tmp_path / "out", plugin, "--study", "stripes/flat", *options), words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, r"my\.py could not be read: No such file"),
        ("x = 1\n", r"my\.py registers nothing: call register_method, "),
        ("x = 1\n\nx.y\n", r"my\.py, line 3: AttributeError"),
        ("def f():\n    1 / 0\n\nf()\n", r"my\.py, line 2: ZeroDivisionError"),
        ("x = (\n", r"my\.py, line 1: SyntaxError"),
        ("import unheard_of\n", r"line 1: ModuleNotFoundError: No module named 'unheard_of'"),
        (METHOD.replace("mine", "osr"), r"line 2: There is a method 'osr' already"),
        (METHOD.replace("mine", "base"), "There is a method 'base' already"),
        (METHOD.replace("mine", "training"), "There is a method 'training' already"),
        (METHOD.replace("mine", "retrain_again"), "There is a method 'retrain_again' already"),
        (
            METHOD.replace("mine", "linear_filtration_zeroing"),
            "There is a method 'linear_f.* already",
        ),
        ("raise SystemExit(0)\n", "line 1: SystemExit: 0"),
        (PLUGIN.replace("[[2, 0]]", "[2, 0]"), r"stripes forgets 2: name sets of labels"),
        (METHOD + METHOD, r"line 4: There is a method 'mine' already"),
        (METHOD.replace("mine", "my/own"), "'my/own' needs a name of letters, digits, _ and -"),
        (METHOD.replace("{})", "{}, cost=1)"), r"line 2: TypeError.*'cost'"),
        (METHOD.replace("{})", "{}, outputs={'mined': ''})"), "has an output mined: name it mine_"),
    ],
)
def test_a_plugin_that_does_not_load_gets_one_sentence(tmp_path, text, words):
    file = tmp_path / "my.py"
    if text is not None:
        file.write_text(text)
    assert_one_sentence(run(tmp_path / "out", file), words)


@pytest.mark.parametrize(("name", "why"), [("no.py", "No such file"), ("folder", "Is a dir")])
def test_a_plugin_of_a_relative_path_that_is_no_file_is_named(tmp_path, monkeypatch, name, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert_one_sentence(run(tmp_path / "out", name), f"^Error: {name} could not be read: {why}")


def assert_one_sentence(ran, words):
    code, _, errors = ran
    assert code == 2
    assert re.search(words, errors)
    assert len(errors.partition("usage:")[0].splitlines()) <= 1


def test_float16_confidences_are_stored_with_their_zeros(tmp_path, plugin):
    plugin.write_text(PLUGIN.replace("numpy()]})", "numpy()].astype(np.float16)})"))
    code, _, errors = run(tmp_path, plugin, "--study", "stripes/flat")
    assert code == 0, errors
    stored = doors.stored(tmp_path, stored_cells(tmp_path)[1]).arrays["truth"]
    assert {*stored.max(axis=1), *stored.min(axis=1)} == {0, np.float16(-27.625)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("images[:60]", "images[:60] / 255"), r"train images of stripes are torch\.float32 of"),
        (("images[60:]", "images[60:, :1]"), r"test images .* shape \(20, 1, 8, 8\): return"),
        (("labels[:60]", "labels[:59]"), "has 60 train images, but 59 labels"),
        (("labels[60:]", "labels[60:] + 1"), "test images of stripes have a label 4: it was"),
        (("labels[60:]", "labels[60:] + 0.5"), r"have a label 0\.5: it was"),
    ],
)
def test_a_set_that_is_not_what_it_says_fails_in_one_sentence(tmp_path, plugin, change, words):
    plugin.write_text(PLUGIN.replace(*change))
    code, _, errors = run(tmp_path, plugin, "--study", "stripes/flat")
    assert code == 1
    assert re.search(f"^Failed: stripes/flat/s0/F0 base, .*{words}", errors, re.MULTILINE)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("[0.5]", r"The method truth returned \[0\.5\] and no Outcome"),
        ("Outcome({})", "returned Outcome.* and no Outcome with confidences"),
        ("__import__('sys').exit(3)", "SystemExit: 3"),
        ('Outcome({"truth": np.eye(4)[[0] * 20]}, seconds=0.5)', "seconds of truth are 0.5"),
        ('Outcome({"truth": np.eye(4)[[0] * 20]}, {"fit": -1.0})', "seconds .* finite numbers"),
        ('Outcome({"true": np.eye(4)})', "returned an output true: name it truth"),
        ('Outcome({"truth": np.eye(4)})', r"shape \(4, 4\): return one row for each of the 20"),
        ('Outcome({"truth": np.ones((20, 3))})', r"shape \(20, 3\).* with 4 or 2 columns"),
        ('Outcome({"truth": np.full((20, 4), np.nan)})', r"confidences of truth are not finite\.$"),
        ('Outcome({"truth": np.ones((20, 4))})', "of truth are no probabilities"),
        (
            'Outcome({"truth": np.eye(4)[[0] * 20]}, logits={"truth": np.full((20, 4), -7e4)})',
            "logits of truth reach 70000, which float16 lacks: return none beyond 65,504",
        ),
        (
            'Outcome({"truth": np.eye(4)[[0] * 20]}, matrices={"first": np.ones((2, 4))})',
            "returned an output first: name it truth",
        ),
        (
            'Outcome({"truth": np.eye(4)[[0] * 20]}, matrices={"truth_b": np.ones((4, 4))})',
            r"matrix of truth_b needs the shape \(2, 4\)",
        ),
        (
            'Outcome({"truth": np.eye(4)[[0] * 20]}, matrices={"truth": np.full((2, 4), np.inf)})',
            "matrix of truth needs .*finite numbers",
        ),
        (
            'Outcome({"truth": np.eye(4)[[0] * 20]}, filter=METHODS["osr"].run(task).filter)',
            "returned a filter, which osr alone stores: return confidences",
        ),
    ],
)
def test_what_is_no_outcome_fails_in_one_sentence(tmp_path, plugin, returned, words):
    own = 'Outcome({"truth": np.eye(task.classes)[task.test_images.labels.numpy()]})'
    plugin.write_text("from research.registry import METHODS\n" + PLUGIN.replace(own, returned))
    code, _, errors = run(tmp_path, plugin, "--study", "stripes/flat")
    assert code == 1
    (failed,) = re.findall(f"^Failed: {CELL} truth: (.*)$", errors, re.MULTILINE)
    assert re.search(words, failed)
    assert "truth" not in doors.stored(tmp_path, stored_cells(tmp_path)[1]).facts["methods"]
