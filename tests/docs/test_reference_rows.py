"""The guide on OSR, mask and reference rows: its values are those that were measured."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax

matplotlib = pytest.importorskip("matplotlib", reason="the figures are drawn with it")

import rows_figures  # noqa: E402
import rows_quoted  # noqa: E402
from research import reference_rows  # noqa: E402
from research.grid import Cell  # noqa: E402
from research.results.files import read_result  # noqa: E402
from research.tables.names import network  # noqa: E402

DOCS = rows_figures.DOCS
PAGE = DOCS / "guides" / "osr-or-mask.md"
CELL, COUNT = "F2", 20


@pytest.fixture(scope="module")
def committed():
    return rows_figures.results()


@pytest.fixture(scope="module")
def tasks():
    return reference_rows.shipped()


def fitted(references, removed):
    """Fit OSR as the paper writes it, with the projector as a matrix."""
    steps = []
    for rows, column in zip(references, removed, strict=True):
        rows = applied(rows, steps)
        mean = rows.mean(axis=0)
        projector = np.eye(len(mean)) - np.outer(mean, mean) / (mean @ mean)
        away = np.abs(rows @ projector)
        share = (away / away.sum(axis=1, keepdims=True)).mean(axis=0)
        share[column] = 0
        steps.append((column, projector, share))
    return steps


def applied(rows, steps):
    """Apply the steps one after another; removed labels stay, with nothing."""
    for column, projector, share in steps:
        residual = (rows @ projector)[:, [column]].clip(0, 1)
        rest = rows.copy()
        rest[:, column] = 0
        rest /= rest.sum(axis=1, keepdims=True)
        rows = (1 - residual) * rest + residual * share
        rows = rows / rows.sum(axis=1, keepdims=True)
    return rows


def test_one_cell_recomputed_with_plain_code(committed, tasks):
    task = tasks[CELL]
    every, judged = softmax(task.logits, axis=1), task.halves[1]
    truth = task.truth[judged]
    is_removed = np.isin(truth, task.removed)

    def output(references):
        return applied(every[judged], fitted([every[at] for at in references], task.removed))

    pools = [np.setdiff1d(np.flatnonzero(task.truth == c), judged) for c in task.removed]
    full, values = output(pools), []
    for references in reference_rows.drawn(task, COUNT):
        for rows, pool in zip(references, pools, strict=True):
            assert np.isin(rows, pool).all()
            assert len(set(rows.tolist())) == COUNT
        found = output(references)
        at_truth = found[np.arange(len(truth)), truth][~is_removed]
        right = (found.argmax(axis=1) == truth)[~is_removed]
        distance = np.abs(found - full).sum(axis=1)[is_removed] / 2
        values.append((right.mean(), -np.log(at_truth).mean(), distance.mean()))
    stated = committed["by_count"][CELL][str(COUNT)]
    for name, found in zip(
        ("accuracy", "log_loss", "distance_removed"), zip(*values, strict=True), strict=True
    ):
        np.testing.assert_allclose(stated[name], np.quantile(found, [0.05, 0.5, 0.95]), rtol=1e-6)


def test_mask_recomputed_with_plain_code(committed, tasks):
    for name, task in tasks.items():
        judged = task.halves[1]
        kept = [column for column in range(10) if column not in task.removed]
        own = np.isin(task.truth[judged], kept)
        rows = softmax(task.logits[judged][:, kept], axis=1)[own]
        columns = np.searchsorted(kept, task.truth[judged][own])
        log_loss = -np.log(rows[np.arange(len(rows)), columns]).mean()
        assert rows_figures.compared(committed, name)["mask"]["log_loss"] == pytest.approx(log_loss)


@pytest.mark.parametrize(
    "at", ["cifar10/allcnn", "cifar100/mobilenet_v2", "cifar100/resnet18", "faces/resnet18"]
)
def test_mask_of_a_network_recomputed_from_its_committed_outputs(committed, at):
    set, architecture = at.split("/")
    arrays = read_result(reference_rows.PAPER, Cell(set, architecture, 0, "F0")).arrays
    truth = arrays["labels"].astype(int)
    judged = reference_rows.halves(truth)[1]
    judged = judged[truth[judged] != 0]  # F1 removes the first label
    rows = softmax(arrays["base"][judged, 1:].astype(float), axis=1)
    log_loss = -np.log(rows[np.arange(len(rows)), truth[judged] - 1]).mean()
    stated = rows_figures.compared(committed, "F1", network(set, architecture))
    assert stated["mask"]["log_loss"] == pytest.approx(log_loss)


def test_no_judged_row_is_fitted_on(tasks):
    for task in tasks.values():
        own, judged = task.halves
        assert sorted([*own, *judged]) == [*range(10000)]
        for half in (own, judged):
            assert np.bincount(task.truth[half]).tolist() == [500] * 10


def test_a_temperature_recomputed_with_plain_code(committed, tasks):
    task = tasks["F1"]
    own = task.halves[0]
    own = own[task.truth[own] != task.removed[0]]

    def robust_log_loss(temperature):
        rows = softmax(task.logits[own] / temperature, axis=1)
        return -np.log(0.999 * rows[np.arange(len(own)), task.truth[own]] + 0.001 / 10).mean()

    best = minimize_scalar(
        robust_log_loss, bounds=(0.5, 4), method="bounded", options={"xatol": 1e-9}
    )
    stated = committed["by_calibration"]["F1"][str(len(own))]["temperature"]
    assert stated == pytest.approx([best.x] * 3, rel=1e-5)


def test_rounding_recomputed_with_plain_code(committed, tasks):
    task = tasks["F1"]
    judged = task.halves[1]
    exact = softmax(task.logits[judged], axis=1)[task.truth[judged] == task.removed[0]]
    rest = np.delete(exact, task.removed[0], axis=1)
    rounded = rest.round(3)  # rows of 0 have the first label as their answer
    stated = committed["by_rounding"]["F1"]["3"]
    assert stated["nothing_left"] == (rounded.sum(axis=1) == 0).mean()
    same = (rounded.argmax(axis=1) == rest.argmax(axis=1)).mean()
    assert stated["same_answer_mask"] == same


@pytest.mark.parametrize("name", list(rows_figures.TABLES))
def test_the_committed_tables_are_the_scripts_and_are_on_the_page(committed, name):
    written = (DOCS / "tables" / name).read_text(encoding="utf-8")
    assert written == rows_figures.table(name, committed)
    assert f"{{include}} ../tables/{name}" in PAGE.read_text(encoding="utf-8")


def test_the_page_quotes_all_values_and_no_others(committed):
    page = re.sub(r"```.*?```", "", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    words = " ".join(page.split())
    phrases = rows_quoted.quoted(committed)
    assert [phrase for phrase in phrases if phrase not in words] == []
    for phrase in phrases:
        words = words.replace(phrase, "")
    # The rest are quantiles, shares that are set, and the scale of a figure.
    left = re.findall(r"(?<!\w)\.\d+|\d+\.\d+|\d+%", words)
    assert {*left} <= {"90%", "95%", "10%"}


def test_the_page_shows_every_figure():
    shown = re.findall(r"!\[([^\]]+)\]\(../figures/(.+?)\.svg\)", PAGE.read_text(encoding="utf-8"))
    assert [name for _, name in shown] == [*rows_figures.FIGURES]
    assert all(len(description) > 40 for description, _ in shown)


def test_the_figures_have_all_medians_and_the_same_bytes_every_time(committed, tmp_path):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    rows_figures.draw_distance(axes, committed)
    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    for name, counts in committed["by_count"].items():
        expected = [of["distance_removed"][1] for n, of in counts.items() if n != "500"]
        expected.append(rows_figures.compared(committed, name)["mask"]["distance_removed"])
        assert all(np.abs(drawn - value).min() < 1e-15 for value in expected)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        rows_figures.draw(committed, folder)
    drawn_with = json.loads((DOCS / "figures" / "figures.json").read_text())["drawn_with"]
    if drawn_with == f"matplotlib {matplotlib.__version__}":
        folders.append(DOCS / "figures")
    for name in rows_figures.FIGURES:
        assert len({(folder / f"{name}.svg").read_bytes() for folder in folders}) == 1
