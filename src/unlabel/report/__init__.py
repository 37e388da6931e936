"""A summary as one HTML page that needs nothing else: no network, no scripts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from unlabel.errors import UnlabelError
from unlabel.evaluation.summary import Summary
from unlabel.report import formatting, plots, sentences
from unlabel.report.comparison import compare

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render"]


def render(summary: Summary) -> str:
    """Render the page of a summary.

    Parameters
    ----------
    summary : dict
        What `summarise` gives, or what `read_summary` reads (in `unlabel.evaluation`).

    Returns
    -------
    str
        An HTML document, to be written as UTF-8. The same summary gives the same text.
    """
    page: str = (
        environment()
        .get_template("page.html.j2")
        .render(
            summary=summary,
            facts=sentences.gather(summary),
            comparison=compare(summary["figures"]),
            destinations=plots.destinations(summary),
            accuracy=plots.accuracy(summary),
            reliability=plots.reliability(summary),
            changes=plots.changes(summary),
            distances=plots.distances(summary),
        )
    )
    return page


@cache
def environment() -> Environment:
    """What renders pages, with the style and the parts that they share."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise UnlabelError(f"A report needs {error.name}: pip install 'unlabel[cli]'.") from None
    environment = Environment(
        loader=PackageLoader("unlabel.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "name": formatting.name,
        "clean": formatting.clean,
        "score": formatting.score,
        "percent": formatting.percent,
        "ratio": formatting.ratio,
        "signed": formatting.signed,
        "count": formatting.count,
        "mark": formatting.mark,
    }
    return environment
