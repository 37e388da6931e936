"""A summary as one self-contained HTML page, without network access or scripts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from unlabel.errors import needs_extra
from unlabel.evaluation.summary import Summary
from unlabel.report import formatting, impact, plots, sentences
from unlabel.report.comparison import INPUTS, compare
from unlabel.report.destinations import destinations

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render"]


def render(summary: Summary) -> str:
    """Render a summary as an HTML page.

    Parameters
    ----------
    summary : dict
        A summary by `summarise` or `read_summary` (in `unlabel.evaluation`).

    Returns
    -------
    str
        An HTML document, to be written as UTF-8. The same summary gives the same text.
    """
    facts = sentences.gather(summary)
    template = environment().get_template("page.html.j2")
    page: str = template.render(
        summary=summary,
        inputs=INPUTS,
        facts=facts,
        strips=impact.strips(facts["shown"]["impact"]),
        moves=impact.moves(summary),
        moved_labels=impact.by_label(summary),
        comparison=compare(summary["figures"]),
        destinations=destinations(summary),
        accuracy=plots.accuracy(summary),
        reliability=plots.reliability(summary),
        changed=plots.changed(summary),
        distances=plots.distances(summary),
        unknown=plots.unknown(summary),
    )
    return page


@cache
def environment() -> Environment:
    """Set up Jinja with the templates and filters that pages share."""
    with needs_extra("cli"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    environment = Environment(
        loader=PackageLoader("unlabel.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {function.__name__: function for function in formatting.FILTERS}
    return environment
