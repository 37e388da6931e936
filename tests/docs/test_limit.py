"""The page on the limit: its values come from committed outputs, and nothing leaks into them."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

limit_figure = pytest.importorskip("limit_figure", reason="the figure is drawn with matplotlib")
limit = pytest.importorskip("research.limit", reason="the networks are trained with PyTorch")

from research.grid import Cell  # noqa: E402
from research.results.files import read_result  # noqa: E402

PAGE = limit_figure.DOCS / "concepts" / "limit.md"
CELL = Cell("faces", "vit_b_16", 0, "F3", removed=tuple(range(40)))


@pytest.fixture(scope="module")
def committed():
    return json.loads(limit_figure.FOUND.read_text(encoding="utf-8"))["cells"]


@pytest.fixture(scope="module")
def outputs():
    return limit.read_outputs(CELL)


def probabilities(logits):
    """Softmax as a plain loop."""
    rows = []
    for row in logits.tolist():
        powers = [math.exp(entry - max(row)) for entry in row]
        rows.append([power / sum(powers) for power in powers])
    return rows


def divergence(one, other):
    """Jensen-Shannon as a plain loop over the entries of two rows."""
    total = 0.0
    for p, q in zip(one, other, strict=True):
        middle = (p + q) / 2
        total += (p * math.log(p / middle) + q * math.log(q / middle)) / 2
    return total


def mean_divergences(found, judge, labels):
    by_kind = {"F": [], "R": []}
    for row, judged, label in zip(found, judge, labels, strict=True):
        by_kind["F" if label in CELL.removed else "R"].append(divergence(row, judged))
    return {kind: sum(values) / len(values) for kind, values in by_kind.items()}


def test_one_cell_recomputed_with_plain_code(committed):
    base = read_result(limit.PAPER, CELL.base).arrays
    own = read_result(limit.PAPER, CELL).arrays
    labels, kept = base["labels"].tolist(), [k for k in range(100) if k not in CELL.removed]
    judge = probabilities(read_result(limit.PAPER, replace(CELL, seed=1)).arrays["retrain"])
    found = {
        "floor": probabilities(own["retrain"]),
        "mask": probabilities(base["base"][:, kept]),
        "unsir": probabilities(own["unsir"][:, kept]),
        "nhle_cwm": probabilities(own["nhle_cwm"][:, kept]),
    }
    for name, rows in found.items():
        expected = mean_divergences(rows, judge, labels)
        for kind in ("F", "R"):
            assert committed[str(CELL)][kind][name] == pytest.approx(expected[kind], rel=1e-5)


@pytest.fixture(scope="module")
def learned(outputs):
    return limit.learned(outputs)


def test_the_limit_of_that_cell_is_found_again(outputs, learned, committed):
    labels = np.where(outputs.is_removed, CELL.removed[0], 99)
    found = mean_divergences(learned.tolist(), outputs.judged_by.tolist(), labels.tolist())
    for kind in ("F", "R"):  # PyTorch rounds differently elsewhere
        assert found[kind] == pytest.approx(committed[str(CELL)][kind]["limit"], rel=0.02)
    np.testing.assert_allclose(learned.sum(axis=1), 1)


def test_a_row_is_judged_by_networks_that_have_not_seen_its_answer(outputs, learned):
    held_out = limit.folds_of(outputs.is_removed).numpy() == 2
    changed = outputs.taught.copy()
    changed[held_out] = np.roll(changed[held_out], 7, axis=1)
    again = limit.learned(replace(outputs, taught=changed))
    np.testing.assert_allclose(again[held_out], learned[held_out], atol=1e-6)
    assert np.abs(again[~held_out] - learned[~held_out]).max() > 0.01


def test_every_network_with_committed_outputs_is_there(committed):
    stored = limit.stored_cells(limit.PAPER)
    seeds = [str(replace(c, seed=1 - c.seed)) for c in stored if c.forget != "F0"]
    expected = {str(c) for c in stored if c.base in stored} & {*seeds}
    assert sorted(committed) == sorted(expected)
    assert len(committed) == 32


def test_the_committed_table_is_the_scripts_and_is_on_the_page():
    written = (limit_figure.DOCS / "tables" / "limit.md").read_text(encoding="utf-8")
    assert written == limit_figure.table(limit_figure.ratios())
    page = PAGE.read_text(encoding="utf-8")
    assert "{include} ../tables/limit.md" in page
    assert re.search(r"!\[.{40,}\]\(../figures/limit.svg\)", page, re.DOTALL)


def test_pages_have_the_gains():
    found = limit_figure.ratios()
    first, second, third, *others = limit_figure.gains(found, "F")
    of_24 = f"at most {others[0]:.0%}", f"in {len(others)} of 24 comparisons"
    pages = [PAGE, PAGE.parent / "scope.md", limit_figure.DOCS.parent / "README.md"]
    for page in pages:
        words = " ".join(page.read_text(encoding="utf-8").split())
        assert all(phrase in words for phrase in of_24), page
    words = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"it is {third:.0%}, {second:.0%} and {first:.0%} lower" in words
    retained = limit_figure.gains(found, "R")
    higher = sum(gain < 0 for gain in retained)
    assert (
        f"at most {retained[0]:.0%} lower, and in {higher} of 24 comparisons it is higher" in words
    )


def test_pages_have_what_is_closed_above_the_floor():
    found, closed = limit_figure.ratios(), {}
    for cell in {key[:2] for key in found}:
        limit_is, mask = (found[*cell, "F", name] for name in ("limit", "mask"))
        if mask >= 1.05:
            closed[cell] = 1 - (limit_is - 1) / (mask - 1)
    assert limit_figure.closed(found, "F") == pytest.approx(closed)
    median = np.median(list(closed.values()))
    small, large = (
        [value for (name, _), value in closed.items() if name.startswith("CIFAR-10,") is is_small]
        for is_small in (True, False)
    )
    assert len(small) == 8
    words = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"a median of {median:.0%} over the {len(closed)} comparisons" in words
    assert f"by {min(small):.0%} to {max(small):.0%} on CIFAR-10" in words
    assert f"by {min(large):.0%} to {max(large):.0%} on the sets of 100 labels" in words
    assert round(6 * median) == 2  # about a third
    for page in (PAGE, PAGE.parent / "scope.md", limit_figure.DOCS.parent / "README.md"):
        assert re.search("close[ds] about a third", page.read_text(encoding="utf-8")), page


def test_the_page_says_when_methods_that_change_the_weights_come_nearer():
    found = limit_figure.ratios()
    words = " ".join(PAGE.read_text(encoding="utf-8").split())

    def nearer(kind, method, than):
        cells = [key[:3] for key in found if key[2:] == (kind, method)]
        assert len(cells) == 24
        return [cell for cell in cells if found[*cell, method] < found[*cell, than]]

    few, beyond = (len(nearer("F", "unsir", than)) for than in ("osr", "limit"))
    assert f"nearer than OSR in {few} of 24 comparisons and further away in {24 - few}" in words
    assert f"nearer even than the trained filter in {beyond}." in words
    further = 24 - len(nearer("R", "unsir", "osr"))
    assert f"On inputs of retained labels it is further away than OSR in {further} of 24" in words
    gains = [1 - found[*c, "nhle_cwm"] / found[*c, "osr"] for c in nearer("F", "nhle_cwm", "osr")]
    assert f"NHLE-CWM is at most {max(gains):.0%} nearer" in words


def test_the_figure_has_all_values(tmp_path):
    found = limit_figure.ratios()
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    name = limit_figure.networks(found)[0]
    limit_figure._panel(axes, name, found)
    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    for key, value in found.items():
        if key[0] == name and key[2] == "F":
            assert np.abs(drawn - value).min() < 1e-12, key
    for file in ("one.svg", "two.svg"):
        limit_figure.draw(found, tmp_path / file)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
