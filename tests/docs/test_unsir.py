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
from tiny_study import STUDY  # noqa: E402

PAGE = unsir_figure.DOCS / "research" / "reproduction.md"


@pytest.fixture(scope="module")
def committed():
    return json.loads(unsir_figure.FOUND.read_text(encoding="utf-8"))


def test_the_chosen_settings_have_the_best_balance_on_one_set_and_are_kept(committed):
    repaired = [trial for trial in committed["trials"]["F2"] if trial["settings"]["repair_epochs"]]
    far = [max(trial["A_F"] / 0.05, trial["lost"] / 0.06) for trial in repaired]
    assert repaired[int(np.argmin(far))]["settings"] == committed["chosen"]
    for forget in ("F1", "F3", "F4"):
        assert committed["trials"][forget][-1]["settings"] == committed["chosen"]


def test_the_page_has_the_values_of_the_chosen_settings(committed):
    words = " ".join(PAGE.read_text(encoding="utf-8").split())
    chosen = [
        trial
        for trials in committed["trials"].values()
        for trial in trials
        if trial["settings"] == committed["chosen"]
    ]
    assert len(chosen) == 4
    rate, a_f, lost = (
        f"{value:.2g}".removeprefix("0")
        for value in (
            committed["chosen"]["impair_rate"],
            np.ceil(1000 * max(trial["A_F"] for trial in chosen)) / 1000,
            np.ceil(1000 * max(trial["lost"] for trial in chosen)) / 1000,
        )
    )
    assert f"at {rate} with two epochs of repairing at .02" in words
    assert f"A_F is at most {a_f} and A_R at most {lost} below the base model's" in words
    assert "![" in words
    assert "](../figures/unsir.svg)" in words


def test_the_figure_shows_every_trial(committed, tmp_path, monkeypatch):
    drawn = []
    plot = unsir_figure.Axes.plot

    def noted(axes, x, y, *arguments, **style):
        drawn.extend(zip(np.atleast_1d(x), np.atleast_1d(y), strict=True))
        return plot(axes, x, y, *arguments, **style)

    monkeypatch.setattr(unsir_figure.Axes, "plot", noted)
    for file in ("one.svg", "two.svg"):
        unsir_figure.draw(committed["trials"], tmp_path / file)
    expected = [(trial["A_F"], trial["lost"]) for trial in committed["trials"]["F2"]]
    others = [committed["trials"][forget][-1] for forget in ("F1", "F3", "F4")]
    expected += [(trial["A_F"], trial["lost"]) for trial in others]
    assert sorted(drawn) == sorted(2 * expected)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


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
