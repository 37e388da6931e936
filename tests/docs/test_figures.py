"""The page "How it works": its figures show the method, its numbers come from the script."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unlabel import OutputFilter
from unlabel.evaluation import load_cifar10

figures = pytest.importorskip("figures", reason="the figures are drawn with matplotlib")
measured = pytest.importorskip("measured")

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "concepts" / "how-it-works.md"
MARKERS = re.compile(rb"\b[mp][0-9a-f]{10}\b")  # named after a hash of their drawing
NUMBERS = re.compile(rb"-?\d+\.?\d*(?:e-?\d+)?")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    figures.draw(folder)
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.svg"))}


@pytest.fixture(scope="module")
def recomputed():
    return measured.numbers()


@pytest.fixture(scope="module")
def committed():
    return json.loads((DOCS / "figures" / "figures.json").read_text(encoding="utf-8"))


def points(axes):
    """Return all plotted points, whatever their marker."""
    return np.vstack([np.column_stack(line.get_data()) for line in axes.lines])


def is_among(point, plotted):
    return bool((np.abs(plotted - point).max(axis=1) < 1e-12).any())


def arrows(axes):
    return [(text.xyann, text.xy) for text in axes.texts if getattr(text, "arrow_patch", None)]


def content_of(name):
    from matplotlib.figure import Figure

    figure = Figure()
    figures.FIGURES[name][0](figure)
    return figure.axes[0]


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return abs(one - other) <= 1e-9
    return one == other


def test_drawing_twice_gives_the_same_bytes(drawn, tmp_path):
    figures.draw(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in drawn} == drawn


def test_drawings_are_small_and_carry_no_date(drawn):
    assert len(drawn) == 5
    for content in drawn.values():
        assert len(content) < 150_000
        assert b"<dc:date>" not in content
        assert b"<text" not in content  # paths look the same everywhere


def test_committed_drawings_are_what_the_script_draws(drawn, recomputed, committed):
    if recomputed["drawn_with"] != committed["drawn_with"]:
        pytest.skip(f"the figures were drawn with {committed['drawn_with']}")
    for name, content in drawn.items():
        old, new = (
            MARKERS.sub(b"", bytes_) for bytes_ in ((DOCS / "figures" / name).read_bytes(), content)
        )
        assert NUMBERS.sub(b"", old) == NUMBERS.sub(b"", new), name
        values = [np.array(NUMBERS.findall(text), dtype=np.float64) for text in (old, new)]
        assert_allclose(*values, atol=1e-3, err_msg=name)


def test_committed_numbers_are_what_the_script_measures(recomputed, committed):
    assert committed["quoted"] == recomputed["quoted"]
    recomputed = {**recomputed, "drawn_with": committed["drawn_with"]}
    assert same(json.loads(json.dumps(recomputed)), committed)


def test_page_quotes_all_numbers_and_no_others(committed):
    page = PAGE.read_text(encoding="utf-8")
    words = " ".join(page.split())
    missing = [phrase for phrase in committed["quoted"].values() if phrase not in words]
    assert not missing
    for phrase in committed["quoted"].values():
        words = words.replace(phrase, "")
    assert not re.findall(r"\d+\.\d+|\d+(?:,\d+)+|\d+%", words)


def test_page_shows_every_figure(drawn):
    shown = re.findall(r"!\[(.+?)\]\(../figures/(.+?)\)", PAGE.read_text(encoding="utf-8"))
    assert sorted(name for _, name in shown) == list(drawn)
    assert all(len(description) > 40 for description, _ in shown)


def test_triangle_is_the_network_restricted_to_three_labels():
    seen, real = measured.triangle(), load_cifar10()
    columns = [real.classes.index(label) for label in measured.TRIANGLE]
    powers = np.exp(real.base[seen.numbers][:, columns].astype(np.float64))
    assert_allclose(seen.rows, powers / powers.sum(axis=1, keepdims=True), rtol=1e-12)
    assert seen.osr.counts == (500,)  # half of the cats
    assert_allclose(seen.mean, seen.rows[seen.labels == "cat"].mean(axis=0), atol=0.01)


def test_highlighted_rows_are_one_with_a_residual_and_one_without():
    seen = measured.triangle()
    assert seen.residual[seen.at("A")] > 0 > seen.residual[seen.at("B")]
    none = seen.residual <= 0
    assert_allclose(seen.after["osr"][none], seen.after["mask"][none], atol=1e-14)


def test_residual_is_0_on_the_line_through_the_mean():
    seen = measured.triangle()
    assert_allclose(seen.frontier @ seen.projector[0], 0, atol=1e-15)
    a, b, c = seen.position(np.vstack([seen.frontier, seen.mean]))
    assert_allclose(np.linalg.det([b - a, c - a]), 0, atol=1e-15)


def test_projection_is_drawn_at_a_right_angle():
    seen = measured.triangle()
    mean = seen.side(seen.mean)
    to_rows = {}
    for start, end in arrows(content_of("triangle-2-projection")):
        to_rows[tuple(np.round(start, 12))] = np.array(end)
    for name in measured.HIGHLIGHTED:
        row = seen.rows[seen.at(name)]
        foot = to_rows[tuple(np.round(seen.side(row), 12))]
        assert_allclose(foot @ mean, 0, atol=1e-15)
        assert_allclose(foot[1], seen.residual[seen.at(name)], atol=1e-15)


def test_mask_is_drawn_away_from_the_removed_corner():
    seen = measured.triangle()
    mask = OutputFilter.from_plan({"cat": None}, classes=measured.TRIANGLE)
    landed = arrows(content_of("triangle-3-mask"))
    for name in measured.HIGHLIGHTED:
        row = seen.rows[[seen.at(name)]]
        start, end = seen.position(row[0]), np.append(mask.apply(row)[0, 1], 0.0)
        assert any(np.allclose([start, end], arrow, atol=1e-12) for arrow in landed)
        corner = measured.CORNERS[0]
        assert_allclose(np.linalg.det([start - corner, end - corner]), 0, atol=1e-12)


def test_highlighted_rows_end_where_the_filter_puts_them():
    seen = measured.triangle()
    plotted = points(content_of("triangle-4-share"))
    for method in (seen.osr, seen.mask):
        for name in measured.HIGHLIGHTED:
            to_dog = method.apply(seen.rows[[seen.at(name)]])[0, 1]
            assert is_among(to_dog, plotted[:, :1])
    at, share = seen.at("A"), seen.osr.shares[0, 1:]
    rho, masked = seen.residual[at], seen.after["mask"][at]
    mixed = (1 - rho) * masked + rho * share
    assert_allclose(mixed / mixed.sum(), seen.osr.apply(seen.rows[[at]])[0], rtol=1e-12)


def test_chain_is_the_method_step_by_step():
    steps = measured.chain()
    classes, labels = load_cifar10().classes, load_cifar10().labels
    rows, remove = measured.confidences(), measured.CHAIN
    fitted = OutputFilter.fit(rows, labels, classes=classes, remove=remove)
    vector = measured.confidences()[measured.TRAVELLER]
    for step, mean, share in zip(steps, fitted.means, fitted.shares, strict=True):
        column = classes.index(step.removed)
        rho = np.clip(vector - mean * (vector @ mean) / (mean @ mean), 0, 1)[column]
        assert_allclose([step.u, step.rho], [vector[column], rho], atol=1e-15)
        rest = vector.copy()
        rest[column] = 0
        mixed = (1 - rho) * rest / rest.sum() + rho * share
        vector = mixed / mixed.sum()
        assert_allclose(step.after, vector, atol=1e-14)
        assert_allclose(sum(step.gains.values()), step.u, atol=1e-14)
    assert_allclose(
        steps[-1].after[np.isin(classes, fitted.classes_out)],
        fitted.apply(measured.confidences()[[measured.TRAVELLER]])[0],
        atol=1e-15,
    )
    assert [step.rho > 0 for step in steps] == [False, False, True]


def test_bars_are_as_long_as_the_entries():
    from matplotlib.patches import Rectangle

    axes = content_of("chain")
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    for number, step in enumerate(measured.chain(), start=1):
        height = figures.STRIDE * (len(measured.CHAIN) - number)
        lengths = [bar.get_width() for bar in bars if abs(bar.get_y() - height) < 1e-9]
        assert_allclose(sum(lengths), 1, atol=1e-12)
        wanted = [step.after[load_cifar10().classes.index(label)] for label in figures.NAMED]
        assert_allclose(lengths[:-1], wanted, atol=1e-15)
