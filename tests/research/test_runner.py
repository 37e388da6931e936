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
from urllib.error import URLError

import numpy as np
import pytest
import torch

import bench_results
from commands import research
from research import models
from research.methods import RUN
from research.results.collect import judged_rows
from research.results.files import Result, read_facts, read_result, stored_cells, write_result
from research.runner import pieces_left, run_suite
from research.settings import Pretraining
from research.suites import METHODS, SUITES
from research.training import train
from tiny_study import STUDY
from unlabel import UnlabelError

pytestmark = pytest.mark.usefixtures("one_thread")

MAIN = "from research.__main__ import main; main()"
BASE, FIRST = STUDY.cells()[:2]


@pytest.fixture(autouse=True)
def tiny_suite(monkeypatch):
    monkeypatch.setitem(SUITES, "quick", (STUDY,))


@pytest.fixture
def methods(monkeypatch):
    """Record the methods that are run."""
    ran = []

    def noting(name, run):
        def noted(task):
            ran.append(name)
            return run(task)

        return noted

    for name, run in RUN.items():
        monkeypatch.setitem(RUN, name, noting(name, run))
    return ran


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run F1 from the command line."""
    out = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SUITES, "quick", (STUDY,))
        return out, research("run", "--suite", "quick", "--only", "F1", "--out", out)


def test_the_command_runs_the_base_model_and_every_method(finished):
    out, (code, _, errors) = finished
    assert code == 0, errors
    assert [str(cell) for cell in stored_cells(out)] == [
        "digits/small/s0/F0",
        "digits/small/s0/F1",
        "digits/small/s1/F1",
    ]
    assert read_facts(out, FIRST)["methods"] == list(METHODS)
    assert read_facts(out, replace(FIRST, seed=1))["methods"] == ["retrain"]
    assert "digits/small/s0/F1 osr: A_R 0." in errors
    assert "A_F 0.0000" in errors


def test_a_cell_records_how_it_was_made(finished):
    out, _ = finished
    facts = read_facts(out, FIRST)
    assert facts["removed"] == [0]
    assert facts["classes"] == 10
    assert facts["config"]["training"]["epochs"] == 2
    assert facts["config"]["unsir"]["noise_images"] == 8
    assert facts["seconds"]["osr"].keys() == {"projection", "redistribution"}
    assert facts["condition"] > 1
    assert facts["made"].keys() == set(METHODS)
    for made in facts["made"].values():
        versions = made["versions"]
        assert versions.keys() == {"python", "torch", "torchvision", "numpy", "unlabel"}
        assert versions["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
        assert "CPU" in made["hardware"]
    assert facts["failed"] == {}
    for name in ("osr", "mask", "retrain", "unsir", "nhle_cwm", "linear_filtration_zeroing"):
        assert facts["full_precision"][name].keys() == {"A_R", "A_F", "coverage_retained"}


def test_a_cell_holds_all_inputs_of_the_tables(finished):
    out, _ = finished
    base, first = read_result(out, BASE), read_result(out, FIRST)
    rows = base.facts["rows"]["judged"]
    assert base.arrays["base"].shape == (rows, 10)
    assert base.arrays["labels"].dtype == np.uint8
    assert first.arrays["retrain"].shape == (rows, 9)
    assert first.arrays["unsir"].shape == first.arrays["nhle_cwm"].shape == (rows, 10)
    assert first.arrays["linear_filtration_naive"].shape == (9, 10)
    stored = first.filter.apply(base.arrays["base"])
    labels = base.arrays["labels"]
    accuracies = [
        (stored.argmax(axis=1) + 1 == labels)[labels == label].mean() for label in range(1, 10)
    ]
    expected = first.facts["full_precision"]["osr"]["A_R"]
    assert np.mean(accuracies) == pytest.approx(expected, abs=0.01)


def test_finished_work_is_not_repeated(finished, methods):
    out, _ = finished
    assert run_suite("quick", out=out, only=["F1"]) == {}
    assert methods == []


def test_each_method_records_the_machine_it_ran_on(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    stored = read_result(tmp_path, FIRST)
    elsewhere = {"hardware": "another machine", "versions": {}}
    done = [method for method in METHODS if method != "mask"]
    facts = stored.facts | {"methods": done, "made": dict.fromkeys(done, elsewhere)}
    write_result(tmp_path, Result(FIRST, facts, stored.arrays, stored.filter))
    assert run_suite("quick", out=tmp_path, only=["s0/F1"]) == {}
    made = read_facts(tmp_path, FIRST)["made"]
    assert "CPU" in made.pop("mask")["hardware"]
    assert made == dict.fromkeys(done, elsewhere)


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (replace(STUDY, recipe=replace(STUDY.recipe, rate=0.2)), "training: rate is 0.1, not 0.2"),
        (
            replace(STUDY, unsir=replace(STUDY.unsir, batch=8)),
            r"s0/F1\.json .*unsir: batch is 64, not 8\): choose another folder",
        ),
    ],
)
def test_other_settings_are_not_mixed_in(finished, study, words):
    with pytest.raises(UnlabelError, match=words):
        pieces_left((study,), finished[0])


def test_results_without_a_setting_ran_with_its_default(finished, tmp_path):
    shutil.copytree(finished[0], tmp_path, dirs_exist_ok=True)
    file = FIRST.file(tmp_path, ".json")
    facts = json.loads(file.read_text())
    del facts["config"]["unsir"]["repair_epochs"], facts["config"]["training"]["strong"]
    file.write_text(json.dumps(facts))
    assert pieces_left((STUDY,), tmp_path, ["s0/F1"]) == []
    changed = replace(STUDY, unsir=replace(STUDY.unsir, repair_epochs=2))
    with pytest.raises(UnlabelError, match="unsir: repair_epochs is 1, not 2"):
        pieces_left((changed,), tmp_path, ["s0/F1"])


@pytest.fixture
def pretrained(monkeypatch):
    """The tiny study, with models that start from digits that they were pretrained on."""
    pretraining = Pretraining("digits", replace(STUDY.recipe, epochs=1))
    study = replace(STUDY, pretraining=pretraining)
    monkeypatch.setitem(SUITES, "quick", (study,))
    return study


def test_all_models_of_a_study_start_from_its_pretraining(pretrained, tmp_path, monkeypatch):
    starts = []

    def watched(model, images, recipe, seed, progress):
        layer = models.head(model)
        starts.append((layer.out_features, model.features[0].weight.detach().clone()))
        return train(model, images, recipe, seed, progress)

    monkeypatch.setattr("research.resources.train", watched)
    monkeypatch.setattr("research.methods.retrain.train", watched)
    assert run_suite("quick", out=tmp_path, only=["F1"]) == {}
    assert [labels for labels, _ in starts] == [10, 10, 9, 9]  # pretraining, base, two retrained
    scratch, *others = [weight for _, weight in starts]
    assert not torch.equal(scratch, others[0])
    assert all(torch.equal(weight, others[0]) for weight in others)
    facts = read_facts(tmp_path, BASE)["config"]["training"]["pretraining"]
    assert facts["recipe"]["epochs"] == 1
    assert facts["accuracy"] > 0.3
    assert facts["seconds"] > 0


def test_pretrained_weights_of_other_settings_are_refused(pretrained, tmp_path, monkeypatch):
    assert run_suite("quick", out=tmp_path, only=["F0"]) == {}
    other = replace(pretrained.pretraining, recipe=replace(pretrained.recipe, rate=0.5))
    monkeypatch.setitem(SUITES, "quick", (replace(pretrained, pretraining=other),))
    (why,) = run_suite("quick", out=tmp_path, only=["s0/F1"])
    assert "pretrained-digits-small.safetensors was pretrained with other settings" in why


def test_small_networks_get_one_thread_and_the_others_theirs_back(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setitem(RUN, "mask", lambda task: seen.append(torch.get_num_threads()))
    torch.set_num_threads(2)
    run_suite("quick", out=tmp_path, only=["s0/F1"])
    assert (seen, torch.get_num_threads()) == ([1], 2)
    monkeypatch.setitem(SUITES, "paper", (STUDY,))
    run_suite("paper", out=tmp_path, only=["s0/F1"], data=tmp_path)
    assert seen == [1, 2]
    torch.set_num_threads(1)


def test_an_interrupted_run_resumes(tmp_path, methods, monkeypatch):
    def interrupt(task):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(RUN, "unsir", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_suite("quick", out=tmp_path, only=["s0/F1"])
    assert methods == ["osr", "mask", "linear_filtration"]
    assert read_facts(tmp_path, FIRST)["methods"] == methods
    methods.clear()
    assert run_suite("quick", out=tmp_path, only=["s0/F1"]) == {}
    assert methods == ["unsir", "nhle_cwm", "retrain"]
    assert read_facts(tmp_path, FIRST)["methods"] == list(METHODS)
    assert {"unsir", "retrain", "linear_filtration_naive"} <= read_result(
        tmp_path, FIRST
    ).arrays.keys()


def test_a_killed_run_leaves_whole_files(tmp_path):
    # The suite of these tests: results of other settings would not be continued.
    code = f"from tiny_study import STUDY, SUITES; SUITES['quick'] = (STUDY,); {MAIN}"
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
    assert "base" not in [piece.method for piece in pieces_left((STUDY,), tmp_path, ["s0/F4"])]
    assert run_suite("quick", out=tmp_path, only=["s0/F4"]) == {}
    assert read_facts(tmp_path, replace(BASE, forget="F4"))["methods"] == list(METHODS)


def test_a_method_that_fails_does_not_stop_the_rest_and_is_tried_again(tmp_path, monkeypatch):
    def fail(task):
        raise RuntimeError("out of memory")

    arguments = ("run", "--suite", "quick", "--only", "s0/F1", "--out", tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(RUN, "mask", fail)
        code, _, errors = research(*arguments)
    assert code == 1
    assert "Failed: digits/small/s0/F1 mask: RuntimeError: out of memory" in errors
    facts = read_facts(tmp_path, FIRST)
    assert facts["failed"] == {"mask": "RuntimeError: out of memory"}
    assert facts["methods"] == [name for name in METHODS if name != "mask"]
    code, _, errors = research(*arguments)
    assert code == 0, errors
    assert read_facts(tmp_path, FIRST)["failed"] == {}


def test_failures_are_stored_even_if_the_run_is_interrupted(tmp_path, monkeypatch, capsys):
    def fail(task):
        raise RuntimeError("out of memory")

    def interrupt(task):
        raise KeyboardInterrupt

    monkeypatch.setitem(RUN, "osr", fail)
    monkeypatch.setitem(RUN, "unsir", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_suite("quick", out=tmp_path, only=["s0/F1"])
    assert "s0/F1 osr: failed: RuntimeError: out of memory" in capsys.readouterr().err
    assert read_facts(tmp_path, FIRST)["failed"] == {"osr": "RuntimeError: out of memory"}


def test_logits_that_are_not_finite_are_a_failure(tmp_path, monkeypatch):
    unsir = RUN["unsir"]

    def run_away(task):
        outcome = unsir(task)
        outcome.logits["unsir"][0, 0] = np.nan
        return outcome

    monkeypatch.setitem(RUN, "unsir", run_away)
    (why,) = run_suite("quick", out=tmp_path, only=["s0/F1"])
    assert why == "The logits of unsir are not finite: its training diverged."
    assert "unsir" not in read_result(tmp_path, FIRST).arrays


def test_methods_fail_without_their_base_model(tmp_path, monkeypatch):
    def fail(*args):
        raise RuntimeError("no luck")

    monkeypatch.setattr("research.resources.train", fail)
    failures = run_suite("quick", out=tmp_path, only=["F1"])
    assert failures["RuntimeError: no luck"] == ["digits/small/s0/F0 base"]
    needing = [f"digits/small/s0/F1 {name}" for name in METHODS if name != "retrain"]
    assert failures["The base model could not be trained."] == needing
    facts = read_facts(tmp_path, FIRST)
    assert facts["methods"] == ["retrain"]
    assert facts["failed"].keys() == set(METHODS) - {"retrain"}


def test_missing_weights_are_named(finished, monkeypatch):
    out, _ = finished
    weights = BASE.weights(out)
    hidden = weights.rename(weights.with_suffix(".hidden"))
    try:
        (why,) = run_suite("quick", out=out, only=["s0/F2"])
        assert "s0.safetensors is missing" in why
        assert "delete" in why
    finally:
        hidden.rename(weights)


def test_nothing_is_started_that_would_end_too_late(tmp_path, capsys, monkeypatch):
    retrain = RUN["retrain"]

    def slow(task):
        time.sleep(1)
        return retrain(task)

    monkeypatch.setitem(RUN, "retrain", slow)
    assert run_suite("quick", out=tmp_path, only=["s1"], stop_after=1.8) == {}
    assert "Stopped by the time limit, with 3 pieces left." in capsys.readouterr().err
    assert len(pieces_left((STUDY,), tmp_path, ["s1"])) == 3


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
        (["--device", "meta"], "does not run on 'meta': use auto, cpu or cuda"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path, arguments, message):
    code, _, errors = research("run", "--out", tmp_path / "out", *arguments)
    assert code == 2
    assert re.search(message, errors)
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_set_that_is_missing_is_a_failure_of_its_cells(tmp_path):
    (why, *_) = run_suite("paper", out=tmp_path / "out", data=tmp_path, only=["faces/resnet18/s1"])
    assert str(tmp_path) in why


def test_a_set_that_cannot_be_fetched_is_asked_for_once(tmp_path, monkeypatch):
    asked = []

    def no_network(address, **_):
        asked.append(address)
        raise URLError("no network")

    monkeypatch.setattr("research.datasets.archives.urlopen", no_network)
    (why,) = (
        failures := run_suite(
            "paper", out=tmp_path / "out", data=tmp_path, only=["cifar10/resnet18/s1"]
        )
    )
    assert "no network" in why
    assert len(failures[why]) > 20
    assert len(asked) == 1


def test_judged_rows_are_the_first_of_each_label():
    labels = np.array([2, 0, 1, 2, 2, 0, 1, 1])
    assert judged_rows(labels, 1).tolist() == [0, 1, 2]
    assert judged_rows(labels, None).tolist() == list(range(8))


def test_without_pytorch_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "research.runner")
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, errors = research("run", "--out", tmp_path)
    assert code == 2
    assert "torch is not installed: pip install -e '.[research]'." in errors


def test_results_that_cannot_be_written_are_noticed_before_any_work(tmp_path):
    (tmp_path / "out").write_text("")
    code, _, errors = research("run", "--out", tmp_path / "out")
    assert code == 2
    assert re.search("out could not be written", errors)
    assert len(errors.splitlines()) == 1


def test_a_base_model_is_not_trained_beside_results_of_another(tmp_path):
    write_result(tmp_path, Result(FIRST, bench_results.facts(["mask"])))
    with pytest.raises(UnlabelError, match=r"F1\.json was made from a base model that is missing"):
        pieces_left(SUITES["quick"], tmp_path)
