"""Suites run piece by piece, on real digits, with settings that take seconds."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import bench_results
import doors
from commands import research
from research import models
from research.registry import DATASETS
from research.results.files import stored_cells
from research.settings import Pretraining
from research.training import train
from tiny_study import STUDY
from unlabel import UnlabelError

pytestmark = pytest.mark.usefixtures("one_thread")

BASE, FIRST = STUDY.cells()[:2]
METHODS = doors.method_names()
NEED_THE_BASE = [name for name in METHODS if name != "retrain"]


@pytest.fixture(autouse=True)
def tiny_suite(monkeypatch):
    doors.as_suite(monkeypatch, STUDY)


@pytest.fixture
def ran(monkeypatch):
    """Record the methods that are run."""
    names = []
    for name in METHODS:
        before(monkeypatch, name, lambda name=name: names.append(name))
    return names


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run F1 from the command line."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        doors.as_suite(patch, STUDY)
        return out, research("run", "--suite", "quick", "--only", "F1", "--out", out)


def facts(out, cell=FIRST):
    return doors.stored(out, cell).facts


def before(patch, method, call):
    """Call something before a method runs."""
    doors.replace_method(patch, method, lambda run: lambda task: (call(), run(task))[1])


def fail(*_):
    raise RuntimeError("out of memory")


def interrupt():
    raise KeyboardInterrupt


def test_the_command_runs_the_base_model_and_every_method(finished):
    out, (code, _, errors) = finished
    assert code == 0, errors
    again = replace(FIRST, seed=1)
    assert stored_cells(out) == [BASE, FIRST, again]
    assert facts(out)["methods"] == METHODS
    assert facts(out, again)["methods"] == ["retrain"]
    assert "digits/small/s0/F1 osr: A_R 0." in errors
    assert "A_F 0.0000" in errors


def test_a_cell_records_how_it_was_made(finished):
    found = facts(finished[0])
    assert found["removed"] == [0]
    assert found["classes"] == 10
    assert found["config"]["training"]["epochs"] == 2
    assert found["config"]["unsir"]["noise_images"] == 8
    assert found["seconds"]["osr"].keys() == {"projection", "redistribution"}
    assert found["condition"] > 1
    assert found["failed"] == {}
    assert found["made"].keys() == set(METHODS)
    for made in found["made"].values():
        versions = made["versions"]
        assert versions.keys() == {"python", "torch", "torchvision", "numpy", "unlabel"}
        assert versions["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
        assert "CPU" in made["hardware"]
    for name in ("osr", "mask", "retrain", "unsir", "nhle_cwm", "linear_filtration_zeroing"):
        assert found["full_precision"][name].keys() == {"A_R", "A_F", "coverage_retained"}


def test_a_cell_holds_all_inputs_of_the_tables(finished):
    base, first = (doors.stored(finished[0], cell) for cell in (BASE, FIRST))
    rows, labels = base.facts["rows"]["judged"], base.arrays["labels"]
    assert base.arrays["base"].shape == (rows, 10)
    assert labels.dtype == np.uint8
    assert first.arrays["retrain"].shape == (rows, 9)
    assert first.arrays["unsir"].shape == first.arrays["nhle_cwm"].shape == (rows, 10)
    assert first.arrays["linear_filtration_naive"].shape == (9, 10)
    right = first.filter.apply(base.arrays["base"]).argmax(axis=1) + 1 == labels
    expected = first.facts["full_precision"]["osr"]["A_R"]
    found = np.mean([right[labels == label].mean() for label in range(1, 10)])
    assert found == pytest.approx(expected, abs=0.01)


def test_finished_work_is_not_repeated(finished, ran, capsys):
    assert doors.run_study(finished[0], "F1") == {}
    assert ran == []
    assert capsys.readouterr().err.startswith("Nothing is left to run: delete the files of a cell")


def test_each_method_records_the_machine_it_ran_on(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    stored = doors.stored(tmp_path, FIRST)
    elsewhere = {"hardware": "another machine", "versions": {}}
    done = [method for method in METHODS if method != "mask"]
    changed = stored.facts | {"methods": done, "made": dict.fromkeys(done, elsewhere)}
    doors.store(tmp_path, FIRST, changed, stored.arrays, stored.filter)
    assert doors.run_study(tmp_path, "s0/F1") == {}
    made = facts(tmp_path)["made"]
    assert "CPU" in made.pop("mask")["hardware"]
    assert made == dict.fromkeys(done, elsewhere)


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (replace(STUDY, recipe=replace(STUDY.recipe, rate=0.2)), "training: rate is 0.1, not 0.2"),
        (
            doors.with_settings(STUDY, "unsir", batch=8),
            r"s0/F1\.json .*unsir: batch is 64, not 8\): choose another folder",
        ),
    ],
)
def test_other_settings_are_not_mixed_in(finished, study, words):
    with pytest.raises(UnlabelError, match=words):
        doors.pieces_left(study, finished[0])


def test_results_without_a_setting_ran_with_its_default(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    file = FIRST.file(tmp_path, ".json")
    older = json.loads(file.read_text())
    del older["config"]["unsir"]["repair_epochs"], older["config"]["training"]["strong"]
    file.write_text(json.dumps(older))
    assert doors.pieces_left(STUDY, tmp_path, "s0/F1") == []
    with pytest.raises(UnlabelError, match="unsir: repair_epochs is 1, not 2"):
        doors.pieces_left(doors.with_settings(STUDY, "unsir", repair_epochs=2), tmp_path, "s0/F1")


def test_all_models_of_a_study_start_from_its_pretraining(tmp_path, monkeypatch):
    pretrained = replace(STUDY, pretraining=Pretraining("digits", replace(STUDY.recipe, epochs=1)))
    doors.as_suite(monkeypatch, pretrained)
    starts = []

    def watched(model, images, recipe, seed):
        layer = models.head(model)
        starts.append((layer.out_features, model[0].weight.detach().clone()))
        return train(model, images, recipe, seed)

    monkeypatch.setattr("research.resources.train", watched)
    monkeypatch.setattr("research.methods.retrain.train", watched)
    assert doors.run_study(tmp_path, "F1") == {}
    assert [labels for labels, _ in starts] == [10, 10, 9, 9]  # pretraining, base, two retrained
    scratch, *others = [weight for _, weight in starts]
    assert not torch.equal(scratch, others[0])
    assert all(torch.equal(weight, others[0]) for weight in others)
    found = facts(tmp_path, BASE)["config"]["training"]["pretraining"]
    assert found["recipe"]["epochs"] == 1
    assert found["accuracy"] > 0.3
    assert found["seconds"] > 0
    other = Pretraining("digits", replace(STUDY.recipe, rate=0.5))
    doors.as_suite(monkeypatch, replace(pretrained, pretraining=other))
    (why,) = doors.run_study(tmp_path, "s0/F2")
    assert "pretrained-digits-small.safetensors was pretrained with other settings" in why


def test_small_sets_get_one_thread_and_the_others_theirs_back(tmp_path, monkeypatch):
    seen = []
    before(monkeypatch, "mask", lambda: seen.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    doors.run_study(tmp_path, "s0/F1")
    assert (seen, torch.get_num_threads()) == ([1], 2)
    digits = DATASETS["digits"]
    in_files = replace(digits, in_files=True, load=lambda folder: digits.load())
    monkeypatch.setitem(DATASETS, "digits", in_files)
    doors.run_study(tmp_path, "s0/F2", data=tmp_path)
    torch.set_num_threads(1)
    assert seen == [1, 2]


def test_an_interrupted_run_resumes(tmp_path, ran, monkeypatch):
    with monkeypatch.context() as patch:
        before(patch, "unsir", interrupt)
        with pytest.raises(KeyboardInterrupt):
            doors.run_study(tmp_path, "s0/F1")
    assert ran == facts(tmp_path)["methods"] == ["osr", "mask", "linear_filtration"]
    assert doors.run_study(tmp_path, "s0/F1") == {}
    assert ran == facts(tmp_path)["methods"] == METHODS
    arrays = doors.stored(tmp_path, FIRST).arrays
    assert {"unsir", "retrain", "linear_filtration_naive"} <= arrays.keys()


def test_a_killed_run_leaves_whole_files(tmp_path):
    # The suite of these tests: results of other settings would not be continued.
    code = (
        "import sys; sys.path[:0] = ['..', '.']; from tiny_study import STUDY, SUITES; "
        "SUITES['quick'] = (STUDY,); from research.__main__ import main; main()"
    )
    command = [sys.executable, "-c", code, "run", "--suite", "quick", "--only", "s0/F4"]
    killed = subprocess.Popen(
        [*command, "--out", tmp_path],
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[1] / "helpers",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    base = BASE.file(tmp_path, ".json")
    while not base.exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert json.loads(base.read_text())["methods"] == ["base"]
    assert BASE.weights(tmp_path).exists()
    assert f"{BASE} base" not in doors.pieces_left(STUDY, tmp_path, "s0/F4")
    assert doors.run_study(tmp_path, "s0/F4") == {}
    assert facts(tmp_path, replace(BASE, forget="F4"))["methods"] == METHODS


def test_a_method_that_fails_does_not_stop_the_rest_and_is_tried_again(tmp_path, monkeypatch):
    arguments = ("run", "--suite", "quick", "--only", "s0/F1", "--out", tmp_path)
    with monkeypatch.context() as patch:
        before(patch, "mask", fail)
        code, _, errors = research(*arguments)
    assert code == 1
    assert "Failed: digits/small/s0/F1 mask: RuntimeError: out of memory" in errors
    found = facts(tmp_path)
    assert found["failed"] == {"mask": "RuntimeError: out of memory"}
    assert found["methods"] == [name for name in METHODS if name != "mask"]
    code, _, errors = research(*arguments)
    assert code == 0, errors
    assert facts(tmp_path)["failed"] == {}


def test_a_method_that_changes_the_base_model_changes_no_other_cell(
    finished, tmp_path, monkeypatch
):
    def spoil(run):
        def spoilt(task):
            for weights in task.base.model.state_dict().values():
                weights.zero_()
            assert not any(weight.any() for weight in task.base.model.parameters())
            return run(task)

        return spoilt

    doors.replace_method(monkeypatch, "osr", spoil)
    assert doors.run_study(tmp_path, "s0/F1") == {}
    expected, found = (doors.stored(out, FIRST) for out in (finished[0], tmp_path))
    np.testing.assert_array_equal(found.filter.means, expected.filter.means)
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)


def test_a_method_cannot_write_to_the_base_models_outputs(tmp_path, monkeypatch):
    def clear(run):
        def clearing(task):
            task.base.test_logits[:, task.removed] = 0
            return run(task)

        return clearing

    doors.replace_method(monkeypatch, "osr", clear)
    (why,) = doors.run_study(tmp_path, "s0/F1")
    assert "read-only" in why
    assert facts(tmp_path)["methods"] == [*NEED_THE_BASE[1:], "retrain"]


def test_failures_are_stored_even_if_the_run_is_interrupted(tmp_path, monkeypatch, capsys):
    before(monkeypatch, "osr", fail)
    before(monkeypatch, "unsir", interrupt)
    with pytest.raises(KeyboardInterrupt):
        doors.run_study(tmp_path, "s0/F1")
    assert "s0/F1 osr: failed: RuntimeError: out of memory" in capsys.readouterr().err
    assert facts(tmp_path)["failed"] == {"osr": "RuntimeError: out of memory"}


def test_logits_that_are_not_finite_are_a_failure(tmp_path, monkeypatch):
    def run_away(task, unsir):
        outcome = unsir(task)
        return replace(outcome, logits={"unsir": np.full_like(outcome.logits["unsir"], np.nan)})

    doors.replace_method(monkeypatch, "unsir", lambda run: lambda task: run_away(task, run))
    (why,) = doors.run_study(tmp_path, "s0/F1")
    assert why == "The logits of unsir are not finite: its training diverged."
    assert "unsir" not in doors.stored(tmp_path, FIRST).arrays


def test_methods_fail_without_their_base_model(tmp_path, monkeypatch):
    monkeypatch.setattr("research.resources.train", fail)
    failures = doors.run_study(tmp_path, "F1")
    assert failures["RuntimeError: out of memory"] == ["digits/small/s0/F0 base"]
    needing = [f"digits/small/s0/F1 {name}" for name in NEED_THE_BASE]
    assert failures["The base model could not be trained."] == needing
    assert facts(tmp_path)["methods"] == ["retrain"]
    assert [*facts(tmp_path)["failed"]] == sorted(NEED_THE_BASE)


def test_missing_weights_are_named(finished):
    weights = BASE.weights(finished[0])
    hidden = weights.rename(weights.with_suffix(".hidden"))
    try:
        (why,) = doors.run_study(finished[0], "s0/F2")
        assert re.search("s0.safetensors is missing or damaged.* delete", why)
    finally:
        hidden.rename(weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--suite", "all"], "'all'.*paper.*quick"),
        (["--only", "digits/large"], "No cell matches 'digits/large': choose from digits/small"),
        (["--data", "nowhere"], "nowhere is not a folder"),
        (
            ["--suite", "paper", "--only", "faces"],
            "need faces: name the folder of image sets with --data",
        ),
        (["--device", "cuda:99"], "device 'cuda:99' is not available"),
        (["--device", "meta"], "device 'meta' is not available: use cpu or cuda"),
        (["--out", __file__], r"test_runner\.py could not be written"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, arguments, message):
    code, _, errors = research("run", "--out", tmp_path / "out", *arguments)
    assert code == 2
    assert re.search(message, errors)
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_set_that_is_missing_is_a_failure_of_its_cells(tmp_path):
    only = {"suite": "paper", "data": tmp_path}
    failures = doors.run_study(tmp_path / "out", "cifar10/resnet18/s1", **only)
    (why,) = failures
    assert "cifar-10-batches-bin/data_batch_1.bin could not be read (No such file" in why
    assert len(failures[why]) > 20


def test_without_pytorch_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "research.runner")
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, errors = research("run", "--out", tmp_path)
    assert code == 2
    assert "torch is not installed: pip install -e '.[research]'." in errors


def test_a_base_model_is_not_trained_beside_results_of_another(tmp_path):
    doors.store(tmp_path, FIRST, bench_results.facts(["mask"]))
    with pytest.raises(UnlabelError, match=r"F1\.json was made from a base model that is missing"):
        doors.pieces_left(STUDY, tmp_path)
