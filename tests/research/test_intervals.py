"""Differences in A_R have intervals over test rows beside their range over seeds."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import bench_results
import plain_cells
from bench_results import LABELS, SET
from doors import research_tables
from read_tables import rows_of, section_of, values_of
from research import all_rows

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


def write_outputs(folder, seed):
    """Write outputs over 100 labels, two reference and two test rows of each."""
    random = np.random.default_rng(seed)
    truth = np.repeat(np.arange(100), 2)
    arrays = {"y_test": truth, "y_ref": truth}
    for name, removed in (("F0", 0), ("F1", 1), ("F2", 20), ("F3", 40), ("F4", 60)):
        for rows in ("test", "ref"):
            logits = random.normal(size=(200, 100)) + 3 * np.eye(100)[truth]
            arrays[f"{name}_{rows}"] = logits[:, removed:].astype(np.float32)
    np.savez(folder / f"cifar100-resnet18-s{seed}.npz", **arrays)
    return arrays


def test_intervals_over_all_rows_are_stored_and_shown(tmp_path, monkeypatch):
    bench_results.write_seed(tmp_path, 0, forget=["F1"])
    (tmp_path / SET).rename(tmp_path / "cifar100")
    trainings = [write_outputs(tmp_path, seed) for seed in (0, 1)]
    monkeypatch.setattr(sys, "argv", ["all_rows", str(tmp_path), "--out", str(tmp_path)])
    all_rows.main()
    text = research_tables(tmp_path, tmp_path)
    line = values_of(tmp_path)["retrain", "all rows", "A_R_less", "F1"]
    means = []
    for arrays in trainings:
        right = arrays["F1_test"].argmax(axis=1) + 1 == arrays["y_test"]
        # With one label removed, OSR rarely changes which of the others is first.
        ours = arrays["F0_test"][:, 1:].argmax(axis=1) + 1 == arrays["y_test"]
        means.append(plain_cells.mean_over_labels(ours * 1.0 - right, arrays["y_test"], [0]))
    assert float(line["ours_mean"]) == pytest.approx(np.mean(means), abs=0.01)
    assert float(line["interval_low"]) < np.mean(means) < float(line["interval_high"])
    assert "all rows are over all 200 test images, with 2 other trainings" in text
    assert (GROUP, "mask: all rows") in rows_of(text, "Intervals of differences in A_R")
