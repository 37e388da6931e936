"""Draws the figures and writes the tables of the guide on OSR, mask and reference rows.

Run ``python docs/scripts/rows_figures.py``: it lays out the committed results of
``research/reference_rows.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from figures import COLOURS, INK, STYLE

DOCS = Path(__file__).parents[1]
RESULTS = DOCS.parent / "research" / "stored" / "reference-rows.json"
OURS = "CIFAR-10, ResNet18"
SETS = {
    "F1": ("1 of 10 labels removed", "o", COLOURS["cat"]),
    "F2": ("2 of 10", "s", COLOURS["dog"]),
    "F3": ("4 of 10", "^", COLOURS["bird"]),
    "F4": ("7 of 10", "D", COLOURS["deer"]),
}
SIZE = (3.6, 3.4)

Results = dict[str, Any]
Band = list[float]


def results() -> Results:
    """Read the committed results."""
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def compared(found: Results, name: str, network: str = OURS) -> Results:
    """Look up the comparison of OSR and mask for a forget set."""
    of_set: Results = found["by_network"][network][name]
    return of_set


# The figures -------------------------------------------------------------------------------


def draw_accuracy(axes: Axes, found: Results) -> None:
    """Accuracy on inputs of retained labels, in percent, less that of mask."""
    _against_mask(axes, found, "accuracy", 100)
    tenths = range(1, 5)
    named = [f"\N{MINUS SIGN}{n / 10}%" for n in tenths]
    axes.set_yticks([0, *(-n / 10 for n in tenths)], ["0", *named])


def draw_log_loss(axes: Axes, found: Results) -> None:
    """Log-loss on inputs of retained labels, less that of mask."""
    _against_mask(axes, found, "log_loss", 1)


def _against_mask(axes: Axes, found: Results, value: str, scale: float) -> None:
    for name, counts in found["by_count"].items():
        mask = compared(found, name)["mask"][value]
        _line(
            axes,
            name,
            {int(n): [scale * (x - mask) for x in of[value]] for n, of in counts.items()},
        )
    axes.axhline(0, color=INK, linewidth=1, dashes=(4, 2), label="mask")


def draw_distance(axes: Axes, found: Results) -> None:
    """Distance from the full fit on inputs of removed labels, with mask's as dashed lines."""
    for name, counts in found["by_count"].items():
        fewer = {int(n): of["distance_removed"] for n, of in counts.items() if int(n) < 500}
        _line(axes, name, fewer)
        mask = compared(found, name)["mask"]["distance_removed"]
        axes.axhline(mask, color=SETS[name][2], linewidth=1.2, dashes=(4, 2))
    axes.plot([], [], color=INK, linewidth=1.2, dashes=(4, 2), label="mask")
    axes.set_yscale("log")
    axes.set_yticks([1e-4, 1e-3, 1e-2, 1e-1, 1], ["0.01%", "0.1%", "1%", "10%", "100%"])


def draw_temperature(axes: Axes, found: Results) -> None:
    """Log-loss with a temperature, less that without one."""
    for name, counts in found["by_calibration"].items():
        before = counts["before"]["log_loss"]
        numbers = [n for n in counts if n.isdigit()]
        _line(axes, name, {int(n): [x - before for x in counts[n]["log_loss"]] for n in numbers})
    axes.axhline(0, color=INK, linewidth=1, dashes=(4, 2), label="no temperature")
    axes.set_yticks([-0.03, -0.02, -0.01, 0, 0.01])


def _line(axes: Axes, name: str, bands: dict[int, Band]) -> None:
    words, marker, colour = SETS[name]
    low, middle, high = zip(*bands.values(), strict=True)
    axes.fill_between([*bands], low, high, color=colour, alpha=0.14, linewidth=0)
    for edge in (low, high):
        axes.plot([*bands], edge, color=colour, linewidth=0.6, alpha=0.6)
    style: dict[str, Any] = {"marker": marker, "markersize": 3.5, "linewidth": 1.3, "color": colour}
    axes.plot([*bands], middle, label=words, **style)


FIGURES: dict[str, tuple[str, str, Callable[[Axes, Results], None]]] = {
    "rows-accuracy": ("Accuracy minus mask's", "reference rows per label", draw_accuracy),
    "rows-log-loss": ("Log-loss minus mask's", "reference rows per label", draw_log_loss),
    "rows-distance": ("Distance from the full fit", "reference rows per label", draw_distance),
    "rows-temperature": (
        "A temperature: change in log-loss",
        "rows of retained labels",
        draw_temperature,
    ),
}


def draw(found: Results, folder: Path) -> None:
    """Draw every figure into a folder, the same bytes every time."""
    for name, (title, unit, content) in FIGURES.items():
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=SIZE)
            FigureCanvasSVG(figure)
            axes = figure.add_axes((0.19, 0.14, 0.79, 0.76))
            content(axes, found)
            axes.set_title(title, fontsize=10.5, color=INK, weight="bold", loc="left")
            axes.set_xscale("log")
            ticks = [1, 10, 100, 500] if "reference" in unit else [50, 200, 1000, 4000]
            axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            axes.set_xlim(ticks[0] * 0.85, ticks[-1] * 1.2)
            axes.set_xlabel(unit, color=INK)
            axes.minorticks_off()
            axes.tick_params(colors=INK)
            axes.grid(axis="y", color=INK, alpha=0.25, linewidth=0.6)
            for spine in axes.spines.values():
                spine.set_visible(False)
            where = "lower right" if name == "rows-accuracy" else "upper right"
            axes.legend(loc=where, frameon=False, fontsize=8.5)
            nothing = {"Date": None, "Creator": None}
            figure.savefig(folder / f"{name}.svg", transparent=True, metadata=nothing)


# The tables --------------------------------------------------------------------------------


def percent(value: float) -> str:
    """Write a share with two digits.

    Examples
    --------
    >>> percent(.00044), percent(.0123), percent(.512)
    ('0.04%', '1.2%', '51%')
    """
    value *= 100
    return (
        f"{value:.0f}%" if value >= 9.5 else f"{value:.1f}%" if value >= 0.95 else f"{value:.2f}%"
    )


def distance_table(found: Results) -> Iterator[str]:
    """Write the distances from the full fit by the number of reference rows."""
    yield "| reference rows per label | " + " | ".join(words for words, *_ in SETS.values()) + " |"
    yield "|---|" + "--:|" * len(SETS)
    masks = [percent(compared(found, name)["mask"]["distance_removed"]) for name in SETS]
    yield f"| none (mask) | {' | '.join(masks)} |"
    for count in found["by_count"]["F1"]:
        if int(count) < 500:
            bands = [found["by_count"][name][count]["distance_removed"] for name in SETS]
            yield f"| {count} | {' | '.join(map(_middle_and_high, bands))} |"


def _middle_and_high(band: Band) -> str:
    return f"{percent(band[1])} ({percent(band[2])})"


FLAWS = {
    "none": "100 rows, all right",
    "wrong, of any label": "20 of the 100 are of any other label",
    "wrong, of the likest label": "20 of the 100 are of the label it is most often mistaken for",
    "the model is right": "100 rows, all answered correctly by the model",
    "the model is wrong": "the 25 to 70 rows that the model gets wrong, and no others",
}


def flaw_table(found: Results) -> Iterator[str]:
    """Write the distances from the full fit by the flaw of the rows."""
    yield "| reference rows | " + " | ".join(words for words, *_ in SETS.values()) + " |"
    yield "|---|" + "--:|" * len(SETS)
    for flaw, words in FLAWS.items():
        bands = [found["by_flaw"][name][flaw]["distance_removed"] for name in SETS]
        yield f"| {words} | {' | '.join(map(_middle_and_high, bands))} |"


def rounding_table(found: Results) -> Iterator[str]:
    """Write how often answers survive rounding, on inputs of removed labels."""
    yield "| decimals | nothing is left | the same answer: OSR | the same answer: mask |"
    yield "|---|--:|--:|--:|"
    for decimals in found["by_rounding"]["F1"]:
        cells = []
        for value in ("nothing_left", "same_answer_osr", "same_answer_mask"):
            shares = [found["by_rounding"][name][decimals][value] for name in SETS]
            cells.append(f"{percent(min(shares))} to {percent(max(shares))}")
        yield f"| {decimals} | {' | '.join(cells)} |"


def network_table(found: Results) -> Iterator[str]:
    """Write the difference between OSR and mask for every network."""
    yield "| network, rows per label | | " + " | ".join(SETS) + " |"
    yield "|---|---|" + "--:|" * len(SETS)
    for network in found["by_network"]:
        each = [compared(found, name, network) for name in SETS]
        lines = {
            "distance": [percent(c["mask"]["distance_removed"]) for c in each],
            "other answers": [percent(c["mask"]["other_answers_removed"]) for c in each],
            "log-loss": _pairs(each, "log_loss"),
            "to retrained": _pairs(each, "to_retrained_removed"),
        }
        first = f"{network}, {each[0]['rows']}"
        for words, cells in lines.items():
            yield f"| {first} | {words} | {' | '.join(cells)} |"
            first = ""


def _pairs(each: list[Results], value: str) -> list[str]:
    return [f"{short(c['osr'][value])} / {short(c['mask'][value])}" for c in each]


def short(value: float, digits: int = 4) -> str:
    """Write a value without the 0 in front."""
    return f"{value:.{digits}f}".removeprefix("0")


TABLES = {
    "rows-distance.md": distance_table,
    "rows-flaws.md": flaw_table,
    "rows-rounding.md": rounding_table,
    "rows-networks.md": network_table,
}


def table(name: str, found: Results) -> str:
    """Lay a table out in Markdown."""
    return "\n".join(TABLES[name](found)) + "\n"


def main() -> None:
    """Draw the figures and write the tables."""
    found = results()
    draw(found, DOCS / "figures")
    for name in TABLES:
        (DOCS / "tables" / name).write_text(table(name, found), encoding="utf-8")


if __name__ == "__main__":
    main()
