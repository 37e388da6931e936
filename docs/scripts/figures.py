"""Draw the figures of "How it works" from the real outputs that come with the package.

Run ``PYTHONPATH=. python docs/scripts/figures.py``: it writes ``figures/*.svg`` and, to
``figures/figures.json``, the numbers that the page quotes, and prints the phrases it quotes them
in. The same outputs give the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Polygon, Rectangle
from matplotlib.path import Path as Outline

from measured import (
    CHAIN,
    CORNERS,
    GONE,
    HIGHLIGHTED,
    RHO,
    TIMES,
    TRIANGLE,
    Point,
    Rows,
    Step,
    Triangle,
    chain,
    numbers,
    outputs,
    triangle,
)

FOLDER = Path(__file__).parents[1] / "figures"

# Mid-tones: what is written has a contrast of about 4.3 to a white page and to a black one.
# The two that are only filled differ in lightness too, for readers who see fewer hues.
INK = "#757a83"
COLOURS = {"cat": "#c9582b", "dog": "#3a7fc8", "bird": "#1d8b71", "deer": "#a062b5"}
FILLS = COLOURS | {"frog": "#c4ae47", "others": "#a6abb3"}
MARKERS = {"cat": "o", "dog": "s", "bird": "^"}
ON_COLOUR = "#000000"
CENTRED: dict[str, Any] = {"ha": "center", "va": "center"}
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "unlabel",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine has it
    "font.size": 9.5,
    "text.color": INK,
    "lines.solid_capstyle": "butt",  # a line ends where its data end
}


# The drawing -------------------------------------------------------------------------------


def draw_rows(figure: Figure) -> None:
    """The triangle before: the rows, the mean, and where a residual is left."""
    seen = triangle()
    axes = _triangle_axes(figure, "1  Real rows, and the cats' mean")
    _residual_region(axes, seen.position(np.vstack([np.eye(3)[GONE], seen.frontier])))
    _dots(axes, seen.position(seen.rows))
    mean = seen.position(seen.mean)
    axes.plot(*mean, marker="D", markersize=6, color=INK, markeredgewidth=0)
    cats = f"c, the mean of\nthe {seen.osr.counts[0]:,} cats"
    _note(axes, cats, mean, (0.72, 0.81), "left")
    corner = f"in this corner\na residual is\nleft: {RHO} > 0"
    _note(axes, corner, (0.47, 0.73), (0.25, 0.79), "right", "cat")
    _highlight(axes, seen.position(seen.rows[seen.at("A")]), "A", (-0.055, 0.015))
    _highlight(axes, seen.position(seen.rows[seen.at("B")]), "B", (0.055, 0.0))


def draw_projection(figure: Figure) -> None:
    """The triangle from the side: the space orthogonal to the mean, and the residual."""
    seen = triangle()
    axes = _axes(figure, "2  The same from the side: take c out", (-0.22, 1.07), (-0.2, 1.07))
    corners, mean = seen.side(np.eye(3)), seen.side(seen.mean)
    axes.add_patch(Polygon(corners, fill=False, edgecolor=INK, linewidth=0.8, alpha=0.6))
    _residual_region(axes, seen.side(np.vstack([np.eye(3)[GONE], seen.frontier])))
    _dots(axes, seen.side(seen.rows), alpha=0.3)
    for label, corner, offset in zip(
        TRIANGLE, corners, ((-0.04, 0.05), (-0.07, 0.045), (0.0, 0.06)), strict=True
    ):
        _corner(axes, label, corner + offset)
    across = np.array([mean[1], -mean[0]]) / np.linalg.norm(mean)  # the plane, edge on
    _plane(axes, across, (-0.2, 1.07))
    axes.text(1.07, -0.15, "orthogonal to c", ha="right", va="center")
    axes.text(-0.2, -0.05, "cat = 0", va="center")
    _arrow(axes, (0.0, 0.0), mean, INK, 1.8)
    axes.text(0.075, 0.6, "c", weight="bold")
    feet = {name: seen.side(seen.projector @ seen.rows[seen.at(name)]) for name in HIGHLIGHTED}
    for (name, foot), aside in zip(feet.items(), (-0.06, 0.06), strict=True):
        row = seen.side(seen.rows[seen.at(name)])
        _arrow(axes, row, foot, COLOURS["cat"], 1.3)
        _highlight(axes, row, name, (aside, 0.0))
    below = f"B ends below 0:\n{RHO} = 0"
    axes.text(feet["B"][0], -0.125, below, color=COLOURS["cat"], **CENTRED)
    _magnified_residual(axes, across, seen.side(seen.rows[seen.at("A")]), feet["A"])


def _magnified_residual(axes: Axes, across: Rows, row: Rows, foot: Rows) -> None:
    """A's end point, near enough for its height above 0 to be seen."""
    left, low, width, height, times = -0.066, -0.0035, 0.05, 0.0125, 12
    frame: dict[str, Any] = {"fill": False, "edgecolor": INK, "linewidth": 0.8}
    axes.add_patch(Rectangle((left, low), width, height, **frame))
    place = (1.07 - width * times, 0.74, width * times, height * times)
    near = axes.inset_axes(place, transform=axes.transData)
    near.set(xlim=(left, left + width), ylim=(low, low + height))
    near.set_axis_off()
    near.add_patch(Rectangle((left, low), width, height, clip_on=False, **frame))
    _plane(near, across, (left, left + width))
    _line(near, row, foot, color=COLOURS["cat"], linewidth=1.3)
    _line(near, foot, (foot[0], 0), color=COLOURS["cat"], linewidth=3.5)
    near.plot(*foot, marker="o", markersize=6, color=COLOURS["cat"])
    text = f"A ends above 0:\n{RHO} = {foot[1]:.4f}  ({TIMES}{times})"
    axes.text(place[0], 0.91, text, color=COLOURS["cat"])


def draw_mask(figure: Figure) -> None:
    """The triangle after: every row moves away from the removed corner, onto the edge."""
    seen = triangle()
    axes = _triangle_axes(figure, "3  Drop cat: rows slide to the edge")
    landed = np.column_stack([np.zeros(len(seen.rows)), seen.after["mask"]])
    _dots(axes, seen.position(seen.rows), alpha=0.22)
    for at in _spread(seen):
        row, end = seen.position(seen.rows[at]), seen.position(landed[at])
        _line(axes, CORNERS[GONE], row, color=INK, linewidth=0.5, alpha=0.5)
        _arrow(axes, row, end, COLOURS[str(seen.labels[at])], 0.9)
    _dots(axes, seen.position(landed))
    _highlight(axes, seen.position(seen.rows[seen.at("A")]), "A", (-0.055, 0.015))
    _highlight(axes, seen.position(seen.rows[seen.at("B")]), "B", (0.055, 0.02))


def _spread(seen: Triangle) -> list[int]:
    """The highlighted rows, and a few more whose landing places are spread over the edge."""
    inside = np.flatnonzero((seen.rows[:, GONE] > 0.15) & (seen.rows[:, GONE] < 0.8))
    landing = seen.edge("mask")[inside]
    wanted = np.linspace(0.08, 0.92, 9)
    nearest = inside[np.abs(landing[:, None] - wanted).argmin(axis=0)]
    return [seen.at("A"), seen.at("B"), *nearest.tolist()]


def draw_share(figure: Figure) -> None:
    """The edge after each method, and the pull towards the share, magnified."""
    seen = triangle()
    title = f"4  OSR: then {RHO} of the way to cat's share"
    axes = _axes(figure, title, (-0.17, 1.17), (0.0, 1.0), "auto")
    heights = {"mask": 0.87, "osr": 0.69}
    for method, y in heights.items():
        _line(axes, (0, y), (1, y), color=INK, linewidth=0.8, alpha=0.6)
        _dots(axes, np.column_stack([seen.edge(method), np.full(len(seen.rows), y)]), 0.6)
        axes.text(0.25, y + 0.035, {"osr": "OSR"}.get(method, method), ha="center", weight="bold")
        for name in HIGHLIGHTED:
            _highlight(axes, np.array([seen.edge(method)[seen.at(name)], y]), name, (0.0, 0.06))
    for label, x in ((TRIANGLE[1], -0.09), (TRIANGLE[2], 1.09)):
        _corner(axes, label, np.array([x, sum(heights.values()) / 2]))
    stays = seen.edge("osr")[seen.at("B")] + 0.05
    axes.text(stays, heights["osr"] + 0.06, f"stays: {RHO} = 0", va="center")
    axes.plot(seen.share, heights["osr"], marker="D", markersize=8, color=COLOURS["cat"])
    share = {"color": COLOURS["cat"], "weight": "bold"} | CENTRED
    axes.text(seen.share, heights["osr"] - 0.08, "share", **share)
    _magnified_pull(axes, heights["osr"])


def _magnified_pull(axes: Axes, y: float) -> None:
    """Where A lands with either method, near enough for the difference to be seen."""
    seen, times, low = triangle(), 60, 0.2
    places = [float(seen.edge(method)[seen.at("A")]) for method in ("mask", "osr")]
    start = places[0] - 0.32 / times
    for x in (0.0, 1.0):
        _line(axes, (start + x / times, y), (x, low), color=INK, linewidth=0.7, dashes=(2, 2))
    _line(axes, (0, low), (1, low), color=INK, linewidth=0.8)
    ends = [(place - start) * times for place in places]
    _arrow(axes, (ends[0], low), (ends[1], low), COLOURS["cat"], 2.2)
    for x, name, place, ha in zip(ends, ("mask", "OSR"), places, ("right", "left"), strict=True):
        axes.plot(x, low, marker="|", markersize=12, color=COLOURS["cat"], markeredgewidth=2)
        axes.text(x, low - 0.06, f"{name}\n{place:.4f}", ha=ha, va="top")
    axes.text(0.02, low + 0.05, f"A, {TIMES}{times}")
    axes.text(ends[0], low + 0.05, f"pulled by {RHO}", color=COLOURS["cat"], weight="bold")


BAR, STRIDE = 0.34, 1.1  # the height of a bar, and from one to the next
NAMED = (*CHAIN, "frog", "dog")  # the others are taken together


def draw_chain(figure: Figure) -> None:
    """One row's way through three removals: bars of its entries, ribbons of what moves."""
    axes = figure.add_axes((0.0, 0.0, 1.0, 0.93))
    axes.set(xlim=(-0.01, 1.42), ylim=(-0.05, 3.72))
    axes.set_axis_off()
    title = "What the network says of one bird, and what three removals make of it"
    figure.text(0.01, 0.985, title, weight="bold", fontsize=10.5, va="top")
    top = STRIDE * len(CHAIN)
    _bar(axes, _grouped(chain()[0].before), top)
    for step in chain():
        _ribbons(axes, step, top, top - STRIDE + BAR)
        gains = {label: gain for label, gain in step.gains.items() if gain > 0.0005}
        told = [f"{gain:.3f} goes to {label}" for label, gain in list(gains.items())[:3]]
        rho = f"{RHO} = {step.rho:.4f}" if step.rho else f"{RHO} = 0"
        text = "\n".join([f"u = {step.u:.3f},  {rho}", *told])
        name = f"remove {step.removed}"
        axes.text(1.03, top + 0.17, name, weight="bold", color=COLOURS[step.removed], va="center")
        axes.text(1.03, top + 0.02, text, va="top", linespacing=1.45)
        top -= STRIDE
        _bar(axes, _grouped(step.after), top)


def _grouped(vector: Rows) -> dict[str, float]:
    """A vector's entries by name, small labels taken together."""
    entries = dict(zip(outputs().classes, vector.tolist(), strict=True))
    named = {label: entries.pop(label) for label in NAMED}
    return named | {"others": sum(entries.values())}


def _bar(axes: Axes, entries: dict[str, float], y: float) -> None:
    x = 0.0
    style: dict[str, Any] = {"color": ON_COLOUR, "weight": "bold", "fontsize": 8.5, **CENTRED}
    for label, entry in entries.items():
        axes.add_patch(Rectangle((x, y), entry, BAR, facecolor=FILLS[label], linewidth=0))
        if entry > 0.05:
            text = f"{label} {entry:.3f}" if entry > 0.2 else label
            axes.text(x + entry / 2, y + BAR / 2, text, **style)
        x += entry


def _ribbons(axes: Axes, step: Step, top: float, bottom: float) -> None:
    before, after = _grouped(step.before), _grouped(step.after)
    ends = np.cumsum(list(before.values())).tolist()
    starts = {label: end - before[label] for label, end in zip(before, ends, strict=True)}
    source, target = starts.pop(step.removed), 0.0
    for label, start in starts.items():
        gain, span = after[label] - before[label], (top, bottom)
        _ribbon(axes, (source, target), gain, span, COLOURS[step.removed], 0.55)
        _ribbon(axes, (start, target + gain), before[label], span, FILLS[label], 0.3)
        source, target = source + gain, target + after[label]


def _ribbon(axes: Axes, ends: Point, width: float, span: Point, colour: str, alpha: float) -> None:
    (start, end), (top, bottom) = ends, span
    middle = (top + bottom) / 2
    there = [(start, top), (start, middle), (end, middle), (end, bottom)]
    back = [(x + width, y) for x, y in reversed(there)]
    curve = [Outline.CURVE4] * 3
    outline = Outline([*there, *back], [Outline.MOVETO, *curve, Outline.LINETO, *curve])
    axes.add_patch(PathPatch(outline, facecolor=colour, alpha=alpha, linewidth=0))


FIGURES: dict[str, tuple[Callable[[Figure], None], Point]] = {
    "triangle-1-rows": (draw_rows, (3.6, 3.55)),
    "triangle-2-projection": (draw_projection, (3.6, 3.55)),
    "triangle-3-mask": (draw_mask, (3.6, 3.55)),
    "triangle-4-share": (draw_share, (3.6, 3.55)),
    "chain": (draw_chain, (6.7, 5.0)),
}


def _axes(figure: Figure, title: str, across: Point, upwards: Point, aspect: str = "equal") -> Axes:
    axes = figure.add_axes((0.0, 0.0, 1.0, 0.92))
    axes.set(xlim=across, ylim=upwards, aspect=aspect)
    axes.set_axis_off()
    figure.text(0.02, 0.985, title, weight="bold", fontsize=10.5, va="top")
    return axes


def _triangle_axes(figure: Figure, title: str) -> Axes:
    axes = _axes(figure, title, (-0.1, 1.1), (-0.12, 0.98))
    axes.add_patch(Polygon(CORNERS, fill=False, edgecolor=INK, linewidth=0.8, alpha=0.6))
    for label, corner, drop in zip(TRIANGLE, CORNERS, (0.06, -0.06, -0.06), strict=True):
        _corner(axes, label, corner + np.array([0.0, drop]))
    return axes


def _corner(axes: Axes, label: str, at: Rows) -> None:
    axes.text(at[0], at[1], label, color=COLOURS[label], weight="bold", **CENTRED)


def _plane(axes: Axes, across: Rows, span: Point) -> None:
    """The space orthogonal to the mean, and the level 0 of the removed label."""
    ends = [across * (x / across[0]) for x in span]
    _line(axes, *ends, color=INK, linewidth=1.8)
    _line(axes, (span[0], 0), (span[1], 0), color=INK, linewidth=0.8, dashes=(2, 2))


def _dots(axes: Axes, positions: Rows, alpha: float = 0.75) -> None:
    seen = triangle()
    for label in TRIANGLE:
        at = positions[seen.drawn & (seen.labels == label)]
        style: dict[str, Any] = {"marker": MARKERS[label], "color": COLOURS[label], "alpha": alpha}
        axes.plot(*at.T, linestyle="none", markersize=3.2, markeredgewidth=0, **style)


def _residual_region(axes: Axes, outline: Rows) -> None:
    axes.add_patch(Polygon(outline, facecolor=COLOURS["cat"], alpha=0.22, linewidth=0))
    _line(axes, outline[1], outline[2], color=COLOURS["cat"], linewidth=1.0)


def _highlight(axes: Axes, at: Rows, name: str, offset: Point) -> None:
    axes.plot(
        *at, marker="o", markersize=8, markerfacecolor="none", markeredgecolor=INK, linestyle=""
    )
    axes.text(at[0] + offset[0], at[1] + offset[1], name, weight="bold", **CENTRED)


def _line(axes: Axes, start: Any, end: Any, **style: Any) -> None:
    axes.plot([start[0], end[0]], [start[1], end[1]], **style)


def _arrow(axes: Axes, start: Any, end: Any, colour: str, width: float) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=style)


def _note(
    axes: Axes, text: str, target: Any, at: Point, align: str, label: str | None = None
) -> None:
    line = {"arrowstyle": "-", "color": INK, "linewidth": 0.7, "shrinkB": 4}
    colour = COLOURS[label] if label else INK
    axes.annotate(text, target, at, ha=align, va="center", color=colour, arrowprops=line)


def draw(folder: Path) -> None:
    """Draw every figure into a folder."""
    for name, (content, size) in FIGURES.items():
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=size)
            FigureCanvasSVG(figure)
            content(figure)
            # No date and no version: the same outputs give the same bytes.
            nothing = {"Date": None, "Creator": None}
            figure.savefig(folder / f"{name}.svg", transparent=True, metadata=nothing)


def main() -> None:
    """Draw the figures, write the numbers, print the phrases."""
    draw(FOLDER)
    found = numbers()
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (FOLDER / "figures.json").write_text(text, encoding="utf-8")
    for name, phrase in found["quoted"].items():
        sys.stdout.write(f"{name:20} {phrase}\n")


if __name__ == "__main__":
    main()
