"""Differences in A_R have intervals over test rows beside their range over seeds."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest

import bench_results
import plain
import plain_cells
from bench_results import LABELS, SET
from doors import research_tables
from read_tables import rows_of, section_of, values_of
from research import all_rows
from research.tables import captions
from research.tables.intervals import differences, over_seeds
from research.tables.published import Key

REMOVED = [0, 4]
GROUP = "A_R of OSR less that of"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of two seeds with all methods, and one that was retrained alone."""
    folder = tmp_path_factory.mktemp("tables")
    for seed, only_retrained in ((0, False), (1, False), (2, True)):
        bench_results.write_seed(folder, seed, forget=["F2"], only_retrained=only_retrained)
    research_tables(folder, folder)
    return folder


def rows_right(folder, seed, method):
    if method == "retrain":
        rows, columns = plain_cells.retrained(folder, seed, "F2"), [1, 2, 3, 5, 6, 7, 8, 9]
    else:
        rows, columns = plain_cells.outputs_of(folder, "F2", seed)[0][method]
    return [
        float(columns[int(np.argmax(row))] == true) for row, true in zip(rows, LABELS, strict=True)
    ]


def gains(folder, method, pairs):
    return [
        np.subtract(rows_right(folder, ours, "osr"), rows_right(folder, theirs, method))
        for ours, theirs in pairs
    ]


@pytest.mark.parametrize(
    ("method", "pairs"),
    [
        ("retrain", [(0, 0), (1, 1), (0, 2)]),
        ("mask", [(0, 0), (1, 1)]),
        ("unsir", [(0, 0), (1, 1)]),
    ],
)
def test_an_interval_is_that_of_a_plain_bootstrap(method, pairs, folder):
    line = values_of(folder)[method, "", "A_R_less", "F2"]
    by_seed = gains(folder, method, pairs)
    means = [plain_cells.mean_over_labels(gain, LABELS, REMOVED) for gain in by_seed]
    ours = [float(line[f"ours_{name}"]) for name in ("mean", "low", "high")]
    assert ours == pytest.approx([np.mean(means), min(means), max(means)], abs=1e-6)
    assert int(line["seeds"]) == len(pairs)
    edges = [float(line["interval_low"]), float(line["interval_high"])]
    expected = plain_cells.bootstrap(np.mean(by_seed, axis=0), LABELS, REMOVED, draws=1000)
    # A tail of so many draws is known to about a tenth of the standard error.
    assert edges == pytest.approx(expected, abs=(expected[1] - expected[0]) / 4 / 4)


def test_intervals_that_exclude_0_are_bold_and_counted(folder):
    text = (folder / "tables.md").read_text(encoding="utf-8")
    lines, excluding = values_of(folder), set()
    for method in ("retrain", "mask", "unsir", "nhle_cwm"):
        line = lines[method, "", "A_R_less", "F2"]
        if float(line["interval_low"]) > 0 or float(line["interval_high"]) < 0:
            excluding.add(method)
    titles = {"retrain": "retrained", "mask": "mask", "unsir": "UNSIR"}
    rows = rows_of(text, "Intervals of differences in A_R")
    for method, title in titles.items():
        assert rows[GROUP, title][1].startswith("**") == (method in excluding)
    assert re.fullmatch(r"\S+ \[\S+, \S+\] ±\.\d{4}", rows[GROUP, "retrained"][1].replace("**", ""))
    count = int("retrain" in excluding)
    section = section_of(text, "Intervals of differences in A_R")
    assert f"retrained on the paper's networks, {count} exclude 0" in section


def remarks_on(set, *intervals):
    """Return what is said of intervals of OSR less mask, one for each forget set."""
    spreads = {
        Key(set, "resnet18", "mask", "", "A_R_less", f"F{number}"): over_seeds(
            [sum(edges) / 2], *edges
        )
        for number, edges in enumerate(intervals, start=1)
    }
    return [*captions.remarks("intervals", spreads)]


def test_intervals_are_counted_by_their_side_of_0():
    (said,) = remarks_on(
        "cifar10", (0.1, 0.2), (-0.2, -0.1), (-0.3, -0.1), (-0.1, 0.3), (-0.3, 0.1)
    )
    assert said == (
        "Of 5 intervals of OSR less mask on the paper's networks, 3 exclude 0: 1 are above it and "
        "2 below."
    )


def test_intervals_of_sets_that_the_paper_lacks_are_not_counted():
    assert remarks_on("digits", (0.1, 0.2)) == []


def test_rows_are_drawn_within_each_label():
    truth = np.repeat([0, 1], [3, 9])
    right = {"osr": truth == 0, "mask": np.zeros(12, dtype=bool)}
    assert differences([right], truth)["mask"].interval == (0.5, 0.5)
    turned = differences([right], truth, ours="mask")
    assert {name: spread.interval for name, spread in turned.items()} == {"osr": (-0.5, -0.5)}


def write_outputs(folder, seed):
    """Write outputs over 100 labels, two reference and two test rows of each."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(100), 2)
    arrays = {"y_test": truth, "y_ref": truth}
    # So that it matters which rows OSR is fitted on: they are often taken for one other label.
    lean = {"test": np.zeros((200, 100)), "ref": 5 * np.eye(100)[(truth + 50) % 100]}
    for name, removed in (("F0", 0), ("F1", 1), ("F2", 20), ("F3", 40), ("F4", 60)):
        for rows in ("test", "ref"):
            logits = random.normal(size=(200, 100)) + 3 * np.eye(100)[truth] + lean[rows]
            arrays[f"{name}_{rows}"] = logits[:, removed:].astype(np.float32)
    np.savez(folder / f"cifar100-resnet18-s{seed}.npz", **arrays)
    return arrays


def gains_over_all_rows(arrays, forget, n_removed):
    """Return A_R of OSR less that of others, where the first labels are removed."""
    rows, own = (plain.softmax(arrays[f"F0_{kind}"].astype(float)) for kind in ("test", "ref"))
    removed = list(range(n_removed))
    steps = plain.fit([own[arrays["y_ref"] == label] for label in removed], removed, 100)
    outputs = {
        "osr": plain.apply(rows, steps),
        "mask": rows[:, n_removed:],
        "retrain": arrays[f"{forget}_test"],
    }
    right = {
        name: each.argmax(axis=1) + n_removed == arrays["y_test"] for name, each in outputs.items()
    }
    return {
        name: plain_cells.mean_over_labels(
            right["osr"] * 1.0 - right[name], arrays["y_test"], removed
        )
        for name in ("mask", "retrain")
    }


def test_intervals_over_all_rows_are_stored_and_shown(tmp_path, monkeypatch):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    (tmp_path / SET).rename(tmp_path / "cifar100")
    trainings = [write_outputs(tmp_path, seed) for seed in (0, 1)]
    monkeypatch.setattr(sys, "argv", ["all_rows", str(tmp_path), "--out", str(tmp_path)])
    all_rows.main()
    text = research_tables(tmp_path, tmp_path)
    line = values_of(tmp_path)["retrain", "all rows", "A_R_less", "F1"]
    assert float(line["interval_low"]) < float(line["ours_mean"]) < float(line["interval_high"])
    stored = json.loads((tmp_path / "cifar100" / "resnet18" / "all-rows.json").read_text())
    for forget, removed in (("F1", 1), ("F2", 20)):
        gains = [gains_over_all_rows(arrays, forget, removed) for arrays in trainings]
        for method, found in stored["differences"][forget].items():
            means = [gain[method] for gain in gains]
            expected = [np.mean(means), min(means), max(means)]
            assert [found[name] for name in ("mean", "low", "high")] == pytest.approx(expected)
    assert "all rows are over all 200 test images, with 2 other trainings" in text
    assert (GROUP, "mask: all rows") in rows_of(text, "Intervals of differences in A_R")
