"""The values of stored cells equal those of plain loops over their rows."""

from __future__ import annotations

import csv
import math
import shutil

import numpy as np
import pytest

import bench_results
import plain_metrics as plain
from bench_results import ARCHITECTURE, EVERY, SET
from doors import research_tables
from plain_cells import TRUTH, alone, mean_by_kind, mean_of, outputs_of, padded, retrained
from unlabel import UnlabelError

FORGET = ("F1", "F2", "F3", "F4")
FLOOR = "retrain_again"


def values_of(results, out):
    """Return our values by method, component, metric and forget set: mean, low, high and seeds."""
    research_tables(results, out)
    lines = csv.DictReader((out / "tables.csv").read_text(encoding="utf-8").splitlines())
    keys = ("method", "component", "metric", "forget")
    ours = ("ours_mean", "ours_low", "ours_high", "seeds")
    return {tuple(map(line.get, keys)): tuple(float(line[name]) for name in ours) for line in lines}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of a seed with all methods, and of two that were retrained for the floor."""
    folder = tmp_path_factory.mktemp("results")
    bench_results.write_seed(folder, 0)
    for seed in (1, 2):
        bench_results.write_seed(folder, seed, only_retrained=True)
    return folder


@pytest.fixture(scope="module")
def values(folder):
    return values_of(folder, folder)


@pytest.mark.parametrize("forget", FORGET)
def test_the_values_of_a_cell_equal_those_of_plain_loops(forget, folder, values):
    found = {key[:3]: value[0] for key, value in values.items() if key[3] == forget}
    outputs, retained, removed = outputs_of(folder, forget)
    goal, base = outputs["retrain"][0], outputs["base"][0]
    again = [retrained(folder, seed, forget) for seed in range(3)]

    def expect(method, metric, value, component=""):
        at = (method, component, metric)
        assert found.pop(at) == pytest.approx(value, rel=1e-5, abs=1e-6), at

    def floor(divergence, seed):
        """Return the mean divergence of the other retrained models from that of a seed."""
        others = [again[other] for other in range(3) if other != seed]
        return mean_of([mean_by_kind(divergence(rows, again[seed]), removed) for rows in others])

    for name, divergence in (("KL", plain.kl_divergence), ("JS", plain.jensen_shannon)):
        for kind, value in mean_of([floor(divergence, seed) for seed in range(3)]).items():
            expect(FLOOR, f"{name}_retrained_{kind}", value)
    js_floor = floor(plain.jensen_shannon, 0)
    ours = plain.mean(plain.label_accuracy(outputs["osr"][0], TRUTH, retained, retained))
    for kind in "RF":
        expect(FLOOR, f"JS_over_floor_{kind}", 1.0)
    for method, (rows, columns) in outputs.items():
        tables = again if method == "retrain" else [rows]
        over_seeds = mean_of([alone(table, columns, retained, removed) for table in tables])
        for metric, value in over_seeds.items():
            expect(method, metric, value)
        if method != "osr":
            expect(method, "A_R_less", ours - over_seeds["A_R"])
        if method == "base":
            continue
        kept = rows if columns == retained else plain.on_retained(rows, columns, retained)
        forms = {"": kept}
        if columns == EVERY:
            forms = {"retained entries": kept, "all entries": rows}
        for form, entries in forms.items():
            kl = plain.kl_divergence(padded(entries, retained), base)
            for kind, value in mean_by_kind(kl, removed).items():
                expect(method, f"KL_base_{kind}", value, form)
        if method == "retrain":
            continue
        for form, entries in forms.items():
            both = entries, padded(goal, retained) if form == "all entries" else goal
            for kind, value in mean_by_kind(plain.kl_divergence(*both), removed).items():
                expect(method, f"KL_retrained_{kind}", value, form)
        js = mean_by_kind(plain.jensen_shannon(kept, goal), removed)
        for kind in "RF":
            expect(method, f"JS_retrained_{kind}", js[kind])
            expect(method, f"JS_over_floor_{kind}", js[kind] / js_floor[kind])
    reverse = plain.kl_divergence(goal, outputs["osr"][0])
    for kind, value in mean_by_kind(reverse, removed).items():
        expect("osr", f"KL_retrained_{kind}", value, "reversed")
    for method, parts in bench_results.SECONDS.items():
        total = {"total": parts.get("total", math.fsum(parts.values()))}
        for component, value in (parts | total).items():
            expect(method, "seconds", value, component)
    assert {metric for _, _, metric in found} <= {"JS_orders_R", "JS_orders_F"}


def test_linear_filtration_keeps_the_ties_that_mask_has(values):
    for (method, *rest), found in values.items():
        if method in ("linear_filtration_naive", "linear_filtration_normalization"):
            assert found == pytest.approx(values["mask", *rest])


def test_values_are_gathered_over_seeds(folder, values):
    by_seed = []
    for seed in range(3):
        rows, retained = retrained(folder, seed, "F2"), [1, 2, 3, 5, 6, 7, 8, 9]
        by_seed.append(plain.mean(plain.label_accuracy(rows, TRUTH, retained, retained)))
    expected = (np.mean(by_seed), min(by_seed), max(by_seed), 3)
    assert values["retrain", "", "A_R", "F2"] == pytest.approx(expected, rel=1e-5)
    assert values["osr", "", "A_R", "F2"][3] == 1
    assert values[FLOOR, "", "KL_retrained_R", "F2"][3] == 3


def test_processes_change_no_value(folder, values, tmp_path):
    for architecture in (ARCHITECTURE, "allcnn"):  # so many cells that processes are started
        shutil.copytree(folder / SET / ARCHITECTURE, tmp_path / SET / architecture)
    assert values_of(tmp_path, tmp_path) == values


def test_without_a_second_retraining_there_is_no_floor(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    found = values_of(tmp_path, tmp_path)
    assert FLOOR not in {method for method, *_ in found}
    assert not [key for key in found if key[2].startswith("JS_over_floor")]
    assert ("osr", "", "KL_retrained_F", "F2") in found


def test_folders_without_results_are_named(tmp_path):
    with pytest.raises(UnlabelError, match="has no results to compare"):
        research_tables(tmp_path, tmp_path)
    with pytest.raises(UnlabelError, match="is not a folder"):
        research_tables(tmp_path / "gone", tmp_path)


@pytest.mark.parametrize(
    ("name", "arrays", "message"),
    [
        ("F0", {"labels": None}, "s0/F0 are damaged .the base model's logits or the labels are"),
        ("F2", {"retrain": np.zeros((120, 3))}, r"s0/F2 are .*retrain has the shape \(120, 3"),
        ("F2", {"unsir": np.zeros((5, 10))}, r"s0/F2 are .*unsir has the shape \(5, 10"),
        ("F2", {"unsir": np.full((120, 10), np.nan)}, "s0/F2 are damaged .*delete them and run"),
        ("F2", {"linear_filtration_naive": np.eye(10)}, r"linear_filtration_naive has the shape"),
    ],
)
def test_a_damaged_cell_is_named(name, arrays, message, tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    bench_results.change(tmp_path, name, **arrays)
    with pytest.raises(UnlabelError, match=message):
        research_tables(tmp_path, tmp_path)


def test_a_filter_for_other_labels_is_refused(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F1", "F2"])
    cells = tmp_path / SET / ARCHITECTURE / "s0"
    shutil.copy(cells / "F1.safetensors", cells / "F2.safetensors")
    with pytest.raises(UnlabelError, match=r"s0/F2 are damaged .the filter is for other labels"):
        research_tables(tmp_path, tmp_path)


def test_a_cell_without_its_base_model_is_named(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    (tmp_path / SET / ARCHITECTURE / "s0" / "F0.json").unlink()
    with pytest.raises(UnlabelError, match="s0/F2 has no base model cifar10/resnet18/s0/F0: run"):
        research_tables(tmp_path, tmp_path)
