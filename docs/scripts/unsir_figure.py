"""Draws what UNSIR forgets beside what it loses, from the committed trials.

python docs/scripts/unsir_figure.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from figures import INK, STYLE

DOCS = Path(__file__).parents[1]
FOUND = DOCS.parent / "research" / "stored" / "unsir" / "cifar100-mobilenet_v2.json"
LARGEST_A_F, LARGEST_LOSS = 0.05, 0.05
REPAIRS: dict[int, tuple[str, dict[str, Any]]] = {
    0: ("impaired, not repaired", {"marker": "v", "color": "#857319"}),
    2: ("repaired for 2 epochs at .02", {"marker": "o", "color": "#1d8b71"}),
}
TICKS = (0, 0.01, 0.05, 0.1, 0.15)

Trial = dict[str, Any]


def trials() -> list[Trial]:
    """Read the trials."""
    found: list[Trial] = json.loads(FOUND.read_text(encoding="utf-8"))["trials"]
    return found


def draw(found: list[Trial], file: Path) -> None:
    """Draw a curve over the rates of impairing, before and after repairing."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.4))
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        aim = Rectangle((0, -1), LARGEST_A_F, 1 + LARGEST_LOSS, color=INK, alpha=0.15, linewidth=0)
        aim.set_label("aim: both values at most .05")
        axes.add_patch(aim)
        for epochs, (label, style) in REPAIRS.items():
            curve = [trial for trial in found if trial["settings"]["repair_epochs"] == epochs]
            _curve(axes, curve, label, style)
        axes.set_xlabel("A_F, share of inputs of removed labels still recognised", color=INK)
        axes.set_ylabel("loss of A_R", color=INK)
        axes.set_xscale("function", functions=(np.sqrt, np.square))  # most points are near 0
        axes.set_xticks(TICKS, [short(tick) for tick in TICKS])
        axes.set_xlim(0, TICKS[-1])
        axes.set_ylim(-0.06, None)
        axes.tick_params(colors=INK)
        axes.grid(color=INK, alpha=0.25, linewidth=0.6)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.legend(frameon=False, fontsize=8.5)
        figure.tight_layout()
        figure.savefig(file, transparent=True, metadata={"Date": None, "Creator": None})


def short(value: float) -> str:
    """Write a share as the tables do, without a leading zero."""
    return f"{value:g}".removeprefix("0") or "0"


def _curve(axes: Axes, curve: list[Trial], label: str, style: dict[str, Any]) -> None:
    forgotten, lost = ([trial[key] for trial in curve] for key in ("A_F", "lost"))
    axes.plot(forgotten, lost, label=label, linewidth=1.2, markersize=5, clip_on=False, **style)
    for trial, x, y in zip(curve, forgotten, lost, strict=True):
        rate = short(trial["settings"]["impair_rate"])
        axes.annotate(rate, (x, y), (5, 4), textcoords="offset points", fontsize=8, color=INK)


if __name__ == "__main__":
    draw(trials(), DOCS / "figures" / "unsir.svg")
