"""One committed cell of each kind of table is what plain loops over its rows come to."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

import plain
import plain_cells
import plain_metrics
import reproduced
from research.results.files import read_result, stored_cells

SET, ARCHITECTURE, TITLE, COLUMN = "faces", "resnet18", "Faces, ResNet18", 1  # F2
RETAINED_INPUTS, REMOVED_INPUTS = "inputs of retained labels", "inputs of removed labels"


def committed(name, heading, row):
    """Return the cell of F2 in a committed table."""
    text = (reproduced.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    table = text.split(f"### {TITLE}\n")[1].split("\n### ")[0]
    group = ""
    for line in table.splitlines():
        if line.startswith("| "):
            first, second, *cells = (part.strip() for part in line.strip("|").split("|"))
            group = first or group
            if (group, second) == (heading, row):
                return cells[COLUMN].replace("**", "").replace("\N{MINUS SIGN}", "-")
    raise AssertionError(f"{name} has no {heading}, {row}")


def number(cell):
    return float(re.match(r"[+-]?[\d.]+", cell)[0])


@pytest.fixture(scope="module")
def cell():
    found = {(c.set, c.architecture, c.seed, c.forget): c for c in stored_cells(reproduced.RESULTS)}
    return lambda forget, seed=0: read_result(
        reproduced.RESULTS, found[SET, ARCHITECTURE, seed, forget]
    )


@pytest.fixture(scope="module")
def base(cell):
    return cell("F0").arrays["base"].astype(float)


@pytest.fixture(scope="module")
def truth(cell):
    return cell("F0").arrays["labels"].tolist()


@pytest.fixture(scope="module")
def removed(cell):
    return cell("F2").facts["removed"]


def kept(removed):
    return [label for label in range(100) if label not in removed]


def test_a_point_value_is_that_over_all_test_images(cell):
    for method, title in (("osr", "OSR"), ("unsir", "UNSIR")):
        stored = cell("F2").facts["full_precision"][method]
        assert number(committed("accuracy", "A_R ↑", title)) == pytest.approx(
            stored["A_R"], abs=5e-5
        )
    seeds = [cell("F2", seed).facts["full_precision"]["retrain"]["A_R"] for seed in (0, 1)]
    ours = number(committed("accuracy", "A_R ↑", "retrained"))
    assert ours == pytest.approx(plain_metrics.mean(seeds), abs=5e-5)


def test_a_point_value_of_the_base_model_is_that_over_stored_rows(base, truth, removed):
    rows = (base.tolist(), truth, list(range(100)))
    accuracy = plain_metrics.mean(plain_metrics.label_accuracy(*rows, kept(removed)))
    ours = number(committed("accuracy", "A_R ↑", "base model, stored rows"))
    assert ours == pytest.approx(accuracy, abs=5e-5)


def kl(p, q):
    """Return the KL of two rows over all entries, each at least 1e-12 in the logarithm."""
    return math.fsum(a * math.log(max(a, 1e-12) / max(b, 1e-12)) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("reference", ["base", "retrained"])
def test_both_forms_of_kl(reference, cell, base, truth, removed):
    stored, at = cell("F2"), kept(removed)
    unsir = plain_cells.softmax(stored.arrays["unsir"])
    goal = plain_cells.softmax(base if reference == "base" else stored.arrays["retrain"])
    if reference == "retrained":
        goal = [[0.0] * len(removed) + row for row in goal]  # the first labels are removed
    assert removed == list(range(len(removed)))
    forms = {"all entries": [], "retained entries": []}
    for row, other, label in zip(unsir, goal, truth, strict=True):
        if label in at:
            total = math.fsum(row[column] for column in at)
            cut = [row[column] / total if column in at else 0.0 for column in range(100)]
            forms["all entries"].append(kl(row, other))
            forms["retained entries"].append(kl(cut, other))
    for form, values in forms.items():
        ours = committed(f"kl_{reference}", f"KL ↓, {RETAINED_INPUTS}", f"UNSIR: {form}")
        assert number(ours) == pytest.approx(plain_metrics.mean(values), abs=5e-5)


def test_an_interval_is_that_of_a_plain_bootstrap(cell, base, truth, removed):
    stored, at = cell("F2"), kept(removed)
    ours = [
        at[plain_metrics.top(row)] == label
        for row, label in zip(stored.filter.apply(base), truth, strict=True)
    ]
    gains = []
    for seed in (0, 1):
        rows = cell("F2", seed).arrays["retrain"]
        right = [
            at[plain_metrics.top(row)] == label for row, label in zip(rows, truth, strict=True)
        ]
        gains.append(np.subtract(ours, right, dtype=float))
    gain = np.mean(gains, axis=0)
    text = committed("intervals", "A_R of OSR less that of", "retrained")
    mean, *edges = (float(found) for found in re.findall(r"[+-]\.\d+", text))
    expected = plain_cells.mean_over_labels(gain, truth, removed)
    assert mean == pytest.approx(expected, abs=1e-4)
    low, high = plain_cells.bootstrap(gain, np.array(truth), removed, draws=1000)
    assert edges == pytest.approx([low, high], abs=(high - low) / 16)


def test_a_distance_between_orders(base, truth, removed):
    """Fit on every other row of each label, in a random order of rows, and judge on the others."""
    shuffled = np.random.default_rng(0).permutation(len(truth)).tolist()
    halves = [[], []]
    for label in range(100):
        for number_of_row, row in enumerate(r for r in shuffled if truth[r] == label):
            halves[number_of_row % 2].append(row)
    rows, random = plain.softmax(base), np.random.default_rng(0)
    judged = [row for row in halves[1] if truth[row] in removed]
    outputs = []
    for _ in range(5):
        order = random.permutation(removed).tolist()
        own = [[rows[row] for row in halves[0] if truth[row] == label] for label in order]
        steps = plain.fit(own, order, 100)
        outputs.append([plain.apply_row(rows[row], steps) for row in judged])
    pairs = [(a, b) for i, a in enumerate(outputs) for b in outputs[:i]]
    apart = [plain_metrics.mean(plain_metrics.jensen_shannon(*pair)) for pair in pairs]
    ours = committed("orders", f"JS, {REMOVED_INPUTS}", "OSR: between two orders")
    assert number(ours) == pytest.approx(plain_metrics.mean(apart), abs=5e-5)


def test_a_setting_is_that_of_the_cells_beside_the_papers():
    file = reproduced.RESULTS / SET / ARCHITECTURE / "s0" / "F2.json"
    ours = json.loads(file.read_text(encoding="utf-8"))["config"]["unsir"]["noise_penalty"]
    lines = (reproduced.FOLDER / "settings.md").read_text(encoding="utf-8").splitlines()
    titles = next(line for line in lines if TITLE in line).split("|")
    row = next(line for line in lines if "| noise penalty |" in line).split("|")
    cell = row[[title.strip() for title in titles].index(TITLE)].strip()
    assert cell == f"**{str(ours).removeprefix('0')}** (.001)"
