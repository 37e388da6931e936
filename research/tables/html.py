"""The tables and plots as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from research.tables import captions
from research.tables.aggregate import Gathered
from research.tables.layout import BEST_MARGIN, build_sections, precision
from research.tables.plots import plots
from research.tables.published import FORGET
from research.tables.writing import score


def render(gathered: Gathered) -> str:
    """Render the page; the same values always give the same text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = build_sections(gathered)
    networks = dict.fromkeys((t.set, t.architecture) for s in sections for t in s.tables)
    runs = [run for facts in gathered.facts.values() for run in facts["made"].values()]
    page: str = environment.get_template("page.html.j2").render(
        sections=sections,
        plots=[plots(gathered.spreads, *network) for network in networks],
        failures=captions.failures(gathered.facts),
        precision=precision(gathered),
        best_margin=score(BEST_MARGIN),
        forget=FORGET,
        hardware=sorted({run["hardware"] for run in runs}),
        versions=sorted({_versions(run["versions"]) for run in runs}),
    )
    return page


def _versions(libraries: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(libraries.items()))
