"""The values of stored cells equal those of plain loops over their rows."""

from __future__ import annotations

import math
import shutil
from collections import defaultdict

import numpy as np
import pytest

import bench_results
import plain_metrics as plain
from bench_results import ARCHITECTURE, EVERY, LABELS, SET
from research.attack import attack_auc
from research.results.files import Result, read_result, stored_cells, write_result
from research.tables import aggregate
from research.tables.aggregate import FLOOR, cell_values, gather
from research.tables.published import FORGET, Key, paper_values
from unlabel import UnlabelError

TRUTH = LABELS.tolist()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    bench_results.write_results(folder)
    return folder


@pytest.fixture(scope="module")
def gathered(results):
    return gather(results)


def softmax(logits):
    rows = []
    for row in np.asarray(logits, dtype=float).tolist():
        exponentials = [math.exp(value - max(row)) for value in row]
        rows.append([value / math.fsum(exponentials) for value in exponentials])
    return rows


def outputs_of(results, cell):
    """Probabilities and columns of every method, without the code under test."""
    stored, base = read_result(results, cell), read_result(results, cell.base)
    retained = [label for label in EVERY if label not in cell.removed]
    logits = base.arrays["base"].astype(float)
    found = {
        "base": (softmax(logits), EVERY),
        "retrain": (softmax(stored.arrays["retrain"]), retained),
        "mask": (softmax(logits[:, retained]), retained),
        "osr": (stored.filter.apply(logits).tolist(), retained),
        "unsir": (softmax(stored.arrays["unsir"]), EVERY),
        "nhle_cwm": (softmax(stored.arrays["nhle_cwm"]), EVERY),
    }
    for name, matrix in stored.arrays.items():
        if name.startswith("linear_filtration"):
            found[name] = (softmax(logits @ matrix.T.astype(float)), retained)
    # It adds one number to all of a row's logits, which softmax does not see.
    found["linear_filtration_normalization"] = found["mask"]
    return found, retained


def mean_by_kind(values, removed):
    kinds = defaultdict(list)
    for value, label in zip(values, TRUTH, strict=True):
        kinds["F" if label in removed else "R"].append(value)
    return {kind: plain.mean(group) for kind, group in kinds.items()}


@pytest.mark.parametrize("forget", FORGET)
def test_the_values_of_a_cell_equal_those_of_plain_loops(results, forget):
    cell = bench_results.cell(0, forget)
    found = cell_values(results, cell, stored_cells(results))
    outputs, retained = outputs_of(results, cell)
    goal, base = outputs["retrain"][0], outputs["base"][0]
    again = [
        softmax(read_result(results, bench_results.cell(seed, forget)).arrays["retrain"])
        for seed in (1, 2)
    ]

    def expect(method, metric, value):
        key = Key(SET, ARCHITECTURE, method, "", metric, forget)
        # Logits next to the grid of stored ones were put on it.
        near = 1e-4 if method == "linear_filtration_zeroing" else 1e-9
        assert found.pop(key) == pytest.approx(value, rel=near, abs=near), key

    def mean_over_models(divergence):
        by_model = [mean_by_kind(divergence(model, goal), cell.removed) for model in again]
        return {kind: plain.mean([means[kind] for means in by_model]) for kind in "RF"}

    js_floor = mean_over_models(plain.jensen_shannon)
    for kind, value in mean_over_models(plain.kl_divergence).items():
        expect(FLOOR, f"KL_retrained_{kind}", value)
        expect(FLOOR, f"JS_retrained_{kind}", js_floor[kind])
        expect(FLOOR, f"JS_over_floor_{kind}", 1.0)
    for method, (rows, columns) in outputs.items():
        removed = list(cell.removed)
        judged = (rows, TRUTH, columns)
        expect(method, "A_R", plain.mean(plain.label_accuracy(*judged, retained)))
        expect(method, "A_F", plain.mean(plain.label_accuracy(*judged, removed)))
        worst, ties = plain.coverage(*judged, retained)
        expect(method, "Cov_R", worst)
        expect(method, "ties", ties)
        expect(method, "Cov_F", plain.coverage(*judged, removed)[0])
        expect(method, "log_loss", plain.log_loss(*judged, retained))
        expect(method, "ECE", plain.expected_calibration_error(*judged, retained, 15))
        table, gone = np.array(rows), np.isin(LABELS, removed)
        expect(method, "attack_auc", attack_auc(table[gone], table[~gone]))
        if method == "base":
            continue
        kept = rows if columns == retained else plain.on_retained(rows, columns, retained)
        padded = [
            [row[retained.index(label)] if label in retained else 0.0 for label in EVERY]
            for row in kept
        ]
        for kind, value in mean_by_kind(plain.kl_divergence(padded, base), removed).items():
            expect(method, f"KL_base_{kind}", value)
        if method == "retrain":
            continue
        js = mean_by_kind(plain.jensen_shannon(kept, goal), removed)
        for kind, value in mean_by_kind(plain.kl_divergence(kept, goal), removed).items():
            expect(method, f"KL_retrained_{kind}", value)
            expect(method, f"JS_retrained_{kind}", js[kind])
            expect(method, f"JS_over_floor_{kind}", js[kind] / js_floor[kind])
    assert {key.metric for key in found} == {"seconds"}
    for method, parts in bench_results.SECONDS.items():
        total = {"total": parts.get("total", math.fsum(parts.values()))}
        for component, value in (parts | total).items():
            key = Key(SET, ARCHITECTURE, method, component, "seconds", forget)
            assert found.pop(key) == pytest.approx(value)
    assert not found


def test_linear_filtration_keeps_the_ties_that_mask_has(gathered):
    for key, spread in gathered.spreads.items():
        if key.method in ("linear_filtration_naive", "linear_filtration_normalization"):
            assert spread == pytest.approx(gathered.spreads[key._replace(method="mask")])


def test_values_are_gathered_over_seeds(results, gathered):
    cells = stored_cells(results)
    key = Key(SET, ARCHITECTURE, "retrain", "", "A_R", "F2")
    values = [cell_values(results, bench_results.cell(seed, "F2"), cells)[key] for seed in range(3)]
    spread = gathered.spreads[key]
    assert spread == pytest.approx((np.mean(values), min(values), max(values), 3))
    assert gathered.spreads[key._replace(method="osr")].seeds == 2
    assert gathered.spreads[key._replace(method=FLOOR, metric="KL_retrained_R")].seeds == 3


def test_a_seed_for_the_floor_alone_has_no_base_model_and_no_methods(results):
    found = cell_values(results, bench_results.cell(2, "F1"), stored_cells(results))
    assert {key.method for key in found} == {"retrain", FLOOR}
    assert not [key for key in found if key.metric.startswith("KL_base")]


def test_processes_change_no_value(results, gathered, monkeypatch):
    monkeypatch.setattr(aggregate, "ENOUGH_FOR_PROCESSES", 1)
    parts = []
    assert gather(results, parts.append).spreads == gathered.spreads
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


def test_without_a_second_retraining_there_is_no_floor(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    found = gather(tmp_path).spreads
    assert FLOOR not in {key.method for key in found}
    assert not [key for key in found if key.metric.startswith("JS_over_floor")]
    assert Key(SET, ARCHITECTURE, "osr", "", "KL_retrained_F", "F2") in found


def test_folders_without_results_are_named(tmp_path):
    with pytest.raises(UnlabelError, match="has no results to compare"):
        gather(tmp_path)
    with pytest.raises(UnlabelError, match="is not a folder"):
        gather(tmp_path / "gone")


def changed(folder, name, **arrays):
    """Change some arrays of a cell; None leaves one out."""
    cell = bench_results.cell(0, name)
    stored = read_result(folder, cell)
    changes = (stored.arrays | arrays).items()
    kept = {name: array for name, array in changes if array is not None}
    write_result(folder, Result(cell, stored.facts, kept, stored.filter))


@pytest.mark.parametrize(
    ("name", "arrays", "message"),
    [
        (
            "F0",
            {"labels": None},
            "s0/F0 are damaged .the base model's logits or the labels are missing",
        ),
        (
            "F2",
            {"retrain": np.zeros((120, 3))},
            r"s0/F2 are damaged .retrain has the shape \(120, 3",
        ),
        ("F2", {"unsir": np.zeros((5, 10))}, r"s0/F2 are damaged .unsir has the shape \(5, 10"),
        ("F2", {"unsir": np.full((120, 10), np.nan)}, "s0/F2 are damaged .*delete them and run"),
        ("F2", {"linear_filtration_naive": np.eye(10)}, r"linear_filtration_naive has the shape"),
    ],
)
def test_a_damaged_cell_is_named(name, arrays, message, tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    changed(tmp_path, name, **arrays)
    with pytest.raises(UnlabelError, match=message):
        gather(tmp_path)


def test_a_filter_for_other_labels_is_refused(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F1", "F2"])
    cells = [bench_results.cell(0, name).file(tmp_path, ".safetensors") for name in ("F1", "F2")]
    shutil.copy(*cells)
    with pytest.raises(UnlabelError, match=r"s0/F2 are damaged .the filter is for other labels"):
        gather(tmp_path)


def test_a_cell_without_its_base_model_is_named(tmp_path):
    bench_results.write_seed(tmp_path, 0, forget=["F2"])
    bench_results.cell(0, "F0").file(tmp_path, ".json").unlink()
    with pytest.raises(UnlabelError, match="s0/F2 has no base model cifar10/resnet18/s0/F0: run"):
        gather(tmp_path)


def test_the_papers_values_are_complete():
    paper = paper_values()
    assert len(paper) == 4 * 270
    assert paper[Key("faces", "vit_b_16", "osr", "", "KL_base_R", "F1")] == "<0.0001"
    assert paper[Key("cifar100", "mobilenet_v2", "retrain", "", "A_R", "F4")] == "0.8795"
    assert paper[Key("cifar10", "resnet18", "retrain", "total", "seconds", "F1")] == "319.437"
