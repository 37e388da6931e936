"""UNSIR on 100 labels: the page, its figure and its settings agree with the committed trials."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import doors

unsir_figure = pytest.importorskip("unsir_figure", reason="the figure is drawn with matplotlib")
torch = pytest.importorskip("torch", reason="UNSIR trains networks")

from research import unsir_balance  # noqa: E402
from research.methods import unsir  # noqa: E402
from research.resources import Resources  # noqa: E402
from research.results.files import stored_cells  # noqa: E402
from research.suites import SUITES  # noqa: E402
from tiny_study import STUDY  # noqa: E402

PAGE = unsir_figure.DOCS / "research" / "unsir.md"
STORED = unsir_figure.DOCS.parent / "research" / "stored"
NETWORKS = {
    "CIFAR-100, ResNet18": "cifar100/resnet18",
    "CIFAR-100, MobileNetV2": "cifar100/mobilenet_v2",
    "Faces, ResNet18": "faces/resnet18",
    "Faces, ViT-B/16 (older settings)": "faces/vit_b_16",
}


def facts(network, forget):
    return json.loads((STORED / "paper" / network / "s0" / f"{forget}.json").read_text("utf-8"))


def up(value):
    """Round up to three decimals, as bounds are."""
    return f"{np.ceil(1000 * value - 1e-9) / 1000:.3f}".removeprefix("0") if value > 0 else "0"


@pytest.fixture(scope="module")
def words():
    return " ".join(PAGE.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("title", NETWORKS)
def test_the_page_has_the_settings_and_bounds_of_a_network(title, words):
    base = facts(NETWORKS[title], "F0")["full_precision"]["base"]["A_R"]
    cells = [facts(NETWORKS[title], f"F{k}") for k in range(1, 5)]
    values = [cell["full_precision"]["unsir"] for cell in cells]
    settings = cells[0]["config"]["unsir"]
    left, lost = max(v["A_F"] for v in values), base - min(v["A_R"] for v in values)
    rate, epochs = f"{settings['impair_rate']:g}".removeprefix("0"), settings["repair_epochs"]
    assert f"| {title} | {rate} | {epochs} | {up(left)} | {up(lost)} |" in words
    if "older" not in title:
        assert max(left, lost) < 0.052
    else:
        low = min(v["A_F"] for v in values)
        assert f"A_F is {low:.2f} to {left:.2f}.".replace("0.", ".") in words


def test_the_trials_have_the_settings_of_the_suite_as_the_best_of_eight_rates():
    stored = json.loads(unsir_figure.FOUND.read_text(encoding="utf-8"))
    repaired = [trial for trial in stored["trials"] if trial["settings"]["repair_epochs"]]
    assert len({trial["settings"]["impair_rate"] for trial in repaired}) == 8
    worse = [max(trial["A_F"], trial["lost"]) for trial in repaired]
    assert repaired[int(np.argmin(worse))]["settings"] == stored["chosen"]
    (study,) = (
        s for s in SUITES["paper"] if f"{s.set}/{s.architecture}" == "cifar100/mobilenet_v2"
    )
    assert asdict(doors.settings_of(study, "unsir")) == stored["chosen"]


def test_the_page_has_the_trials_with_vit(words):
    file = STORED / "unsir" / "faces-vit_b_16.json"
    by_rate = {}
    for trial in json.loads(file.read_text(encoding="utf-8"))["trials"]:
        if trial["settings"]["repair_epochs"]:
            by_rate.setdefault(trial["settings"]["impair_rate"], []).append(trial)
    first, second = by_rate[0.02], by_rate[0.04]
    left = [f"{edge(t['A_F'] for t in first):.2f}".removeprefix("0") for edge in (min, max)]
    (other,) = [f"{t['A_F']:.2f}".removeprefix("0") for t in second]
    assert f".02 left A_F at {' to '.join(left)} with F2, and .04 at {other}, with no loss" in words
    assert max(t["lost"] for t in (*first, *second)) < 0


def test_the_page_compares_the_seconds_with_retraining(words):
    ratios = {}
    for title, network in NETWORKS.items():
        for k in range(1, 5):
            seconds = facts(network, f"F{k}")["seconds"]
            ratio = sum(seconds["unsir"].values()) / seconds["retrain"]["total"]
            ratios.setdefault(title, []).append(ratio)
    assert min(ratios["CIFAR-100, MobileNetV2"]) > 1
    *others, last = (*ratios["CIFAR-100, ResNet18"], *ratios["Faces, ResNet18"])
    assert last == pytest.approx(1, abs=0.05)
    assert 0.3 < min(others) < max(others) < 0.62
    assert "a third to two thirds as long elsewhere" in words


def test_the_figure_shows_every_trial(tmp_path, monkeypatch):
    drawn = []
    plot = unsir_figure.Axes.plot

    def noted(axes, x, y, *arguments, **style):
        drawn.extend(zip(x, y, strict=True))
        return plot(axes, x, y, *arguments, **style)

    monkeypatch.setattr(unsir_figure.Axes, "plot", noted)
    for file in ("one.svg", "two.svg"):
        unsir_figure.draw(unsir_figure.trials(), tmp_path / file)
    expected = [(trial["A_F"], trial["lost"]) for trial in unsir_figure.trials()]
    assert sorted(drawn) == sorted(2 * expected)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_retrained_models_alone_are_copied(tmp_path):
    study = next(s for s in SUITES["paper"] if s.architecture == "mobilenet_v2")
    unsir_balance.copy_retrained(study, tmp_path)
    network = STORED / "paper" / "cifar100" / "mobilenet_v2"
    copied = stored_cells(tmp_path)
    assert len(copied) == len([*network.glob("s*/F[1-9].json")]) == 8
    for cell in copied:
        found, committed = (doors.stored(out, cell) for out in (tmp_path, STORED / "paper"))
        assert found.arrays.keys() == {"retrain"} < {*committed.arrays, "labels"}
        np.testing.assert_array_equal(found.arrays["retrain"], committed.arrays["retrain"])
        assert (found.filter, found.facts["methods"]) == (None, ["retrain"])
        for name in ("made", "seconds", "full_precision"):
            assert found.facts[name] == {"retrain": committed.facts[name]["retrain"]}


@pytest.mark.usefixtures("one_thread")
def test_a_trial_is_a_run_of_unsir_with_its_settings(tmp_path):
    resources = Resources(tmp_path, Path(), None, torch.device("cpu"))
    task = unsir_balance.task_of(STUDY, "F2", resources)
    grid = [
        replace(doors.settings_of(STUDY, "unsir"), impair_rate=rate, repair_epochs=epochs)
        for rate in (0.02, 0.2)
        for epochs in (1, 2)
    ]
    found = [t for t in unsir_balance.trials(task, grid) if t["settings"]["repair_epochs"]]
    assert [trial["settings"] for trial in found] == [asdict(settings) for settings in grid]
    truth = task.test_images.labels.numpy()
    for trial, settings in zip(found, grid, strict=True):
        alone = unsir.run(
            replace(task, study=doors.with_settings(STUDY, "unsir", **asdict(settings)))
        )
        right = alone.confidences["unsir"].argmax(axis=1) == truth
        for name, labels in (("A_F", task.removed), ("A_R", task.retained)):
            assert trial[name] == pytest.approx(np.mean([right[truth == k].mean() for k in labels]))
    assert unsir_balance.best(found) in grid
