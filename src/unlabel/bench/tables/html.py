"""The tables as one HTML page with plots, in the style of the reports."""

from __future__ import annotations

from typing import Any

from unlabel.bench.tables import captions
from unlabel.bench.tables.aggregate import Gathered
from unlabel.bench.tables.layout import ALIKE, precision, sections
from unlabel.bench.tables.plots import plots
from unlabel.bench.tables.published import FORGET
from unlabel.report import environment


def render(gathered: Gathered) -> str:
    """Render the page; the same figures give the same text."""
    shared = environment()
    from jinja2 import ChoiceLoader, PackageLoader  # the environment says so where it is missing

    loader = ChoiceLoader([PackageLoader("unlabel.bench.tables", ""), shared.loader])
    laid_out = sections(gathered)
    networks = dict.fromkeys((t.set, t.architecture) for s in laid_out for t in s.tables)
    made = [of for facts in gathered.facts.values() for of in facts["made"].values()]
    page: str = (
        shared.overlay(loader=loader)
        .get_template("page.html.j2")
        .render(
            sections=laid_out,
            plots=[plots(gathered.spreads, *network) for network in networks],
            failures=captions.failures(gathered.facts),
            precision=precision(gathered),
            alike=ALIKE,
            forget=FORGET,
            hardware=sorted({of["hardware"] for of in made}),
            versions=sorted({_versions(of["versions"]) for of in made}),
        )
    )
    return page


def _versions(of: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(of.items()))
