"""Writes the table and the figure of the page on the limit, from the committed divergences.

PYTHONPATH=. python docs/scripts/limit_figure.py
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from figures import INK, STYLE
from research.tables.names import network

DOCS = Path(__file__).parents[1]
FOUND = DOCS.parent / "research" / "stored" / "limit.json"
FORGET = ("F1", "F2", "F3", "F4")
LEAST_ABOVE_FLOOR = 1.05
KINDS = {"F": "inputs of removed labels", "R": "inputs of retained labels"}
METHODS = {
    "limit": "best trained filter",
    "osr": "OSR",
    "mask": "mask",
    "unsir": "UNSIR",
    "nhle_cwm": "NHLE-CWM (reconstruction)",
}
# The hollow square of mask goes around the dot of OSR, where the two are the same.
MARKERS: dict[str, dict[str, Any]] = {
    "limit": {"marker": "*", "markersize": 9, "color": "#1d8b71"},
    "osr": {"marker": "o", "markersize": 4, "color": "#c9582b"},
    "mask": {"marker": "s", "markersize": 7, "color": "#3a7fc8", "fillstyle": "none"},
    "unsir": {"marker": "^", "markersize": 5, "color": "#a062b5"},
    "nhle_cwm": {"marker": "v", "markersize": 5, "color": "#857319"},
}
SHORT = {"nhle_cwm": "NHLE-CWM"}
ASIDE = {"limit": -0.16, "unsir": 0.16, "nhle_cwm": 0.3}

Ratios = dict[tuple[str, str, str, str], float]


def ratios() -> Ratios:
    """Return the divergences over the floor, by network, forget set, kind of input and method.

    Seeds are averaged.
    """
    over_seeds = defaultdict(list)
    for name, kinds in json.loads(FOUND.read_text(encoding="utf-8"))["cells"].items():
        set_name, architecture, _, forget = name.split("/")
        for kind, values in kinds.items():
            for method in values.keys() - {"floor"}:
                key = network(set_name, architecture), forget, kind, method
                over_seeds[key].append(values[method] / values["floor"])
    return {key: float(np.mean(values)) for key, values in over_seeds.items()}


def networks(found: Ratios) -> list[str]:
    """Name the networks in their order."""
    return list(dict.fromkeys(name for name, *_ in found))


def gains(found: Ratios, kind: str) -> list[float]:
    """Return how much nearer than mask the best trained filter comes, the largest first."""
    cells = [key for key in found if key[2:] == (kind, "limit")]
    return sorted((1 - found[key] / found[*key[:3], "mask"] for key in cells), reverse=True)


def closed(found: Ratios, kind: str) -> dict[tuple[str, str], float]:
    """Return how much of mask's excess over the floor the best trained filter closes.

    By network and forget set, where there is an excess.
    """
    masks = {key[:2]: value for key, value in found.items() if key[2:] == (kind, "mask")}
    return {
        cell: (mask - found[*cell, kind, "limit"]) / (mask - 1)
        for cell, mask in masks.items()
        if mask >= LEAST_ABOVE_FLOOR
    }


def table(found: Ratios) -> str:
    """Lay the ratios out in Markdown."""
    lines = []
    for kind, title in KINDS.items():
        lines += [f"| {title} | | {' | '.join(FORGET)} |", "|---|---|" + "--:|" * len(FORGET)]
        for name in networks(found):
            for number, (method, words) in enumerate(METHODS.items()):
                cells = [f"{found[name, forget, kind, method]:.2f}" for forget in FORGET]
                lines.append(f"| {'' if number else name} | {words} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def draw(found: Ratios, file: Path) -> None:
    """Draw the ratios on inputs of removed labels, one panel per network."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 5.0))
        FigureCanvasSVG(figure)
        panels = figure.subplots(2, 3, sharex=True, sharey=True)
        for axes, name in zip(panels.flat, networks(found), strict=True):
            _panel(axes, name, found)
        for axes in panels[:, 0]:
            axes.set_ylabel("divergence / floor", color=INK)
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False, fontsize=8.5)
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        figure.savefig(file, transparent=True, metadata={"Date": None, "Creator": None})


def _panel(axes: Axes, name: str, found: Ratios) -> None:
    axes.set_title(name, fontsize=9.5, color=INK, weight="bold")
    axes.axhline(1, color=INK, linewidth=1, label="floor")
    at = np.arange(len(FORGET))
    for method, style in MARKERS.items():
        values = [found[name, forget, "F", method] for forget in FORGET]
        where = at + ASIDE.get(method, 0.0)
        axes.plot(
            where, values, linestyle="none", label=SHORT.get(method, METHODS[method]), **style
        )
    axes.set_yscale("log", base=2)
    axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.minorticks_off()
    axes.set_xticks(at, FORGET)
    axes.tick_params(colors=INK)
    axes.grid(axis="y", color=INK, alpha=0.25, linewidth=0.6)
    for spine in axes.spines.values():
        spine.set_visible(False)


if __name__ == "__main__":
    (DOCS / "tables" / "limit.md").write_text(table(ratios()), encoding="utf-8")
    draw(ratios(), DOCS / "figures" / "limit.svg")
