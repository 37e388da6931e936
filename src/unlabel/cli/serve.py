"""The command `unlabel serve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unlabel._typing import Kind
from unlabel.answers import AnswerRule
from unlabel.errors import UnlabelError, needs_extra
from unlabel.filter import OutputFilter

# The panels of options.
ANSWERS, LIMITS = "Answers", "Limits"


def serve(
    upstream: Annotated[
        str, typer.Option(help="The model server's address, such as http://localhost:8080.")
    ],
    model: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=FILE", help="A model and its filter; repeat it for more models."
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for a free one.")
    ] = 9000,
    only_filtered: Annotated[
        bool,
        typer.Option("--only-filtered", help="Answer 404 for models without a filter."),
    ] = False,
    shadow: Annotated[
        bool,
        typer.Option("--shadow", help="Answer as the model does, and only count the changes."),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            help="The output with the confidences. Default: the only one with a column per label.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    label_output: Annotated[
        list[str] | None,
        typer.Option(
            help="An output with each row's label; repeat it for more, or give '' for none. "
            "Default: outputs whose texts are labels. Outputs of whole numbers must be named.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="The kind of rows that the models give. Default: the kind that each filter was "
            "fitted on.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    allow: Annotated[
        Path | None,
        typer.Option(
            help="Lists of allowed labels (.csv, .tsv or .json). Each request names one in its "
            "parameter allow_list.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    rule: Annotated[
        Path | None,
        typer.Option(
            help="When a row's label is unknown: an answer rule that names unknown (.toml).",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    max_body: Annotated[
        int,
        typer.Option(
            min=1, help="The largest body in bytes, packed or unpacked.", rich_help_panel=LIMITS
        ),
    ] = 64 << 20,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="The seconds for a request to arrive, and as many for the upstream to answer.",
            rich_help_panel=LIMITS,
        ),
    ] = 30.0,
    max_requests: Annotated[
        int,
        typer.Option(
            min=1, help="The largest number of requests in flight.", rich_help_panel=LIMITS
        ),
    ] = 256,
) -> None:
    """Put filters in front of a model server that speaks the Open Inference Protocol (v2).

    Answers of these models come back filtered; other models pass through. A filter is loaded again
    when its file changes, or on SIGHUP. /metrics is for Prometheus.
    """
    with needs_extra("serve"):
        from unlabel.serve import ServedFilter
        from unlabel.serve.reloading import WatchedFilter
        from unlabel.serve.running import Options, run

    answers = None if rule is None else AnswerRule.load(rule)

    def served(fitted: OutputFilter) -> ServedFilter:
        return ServedFilter(
            fitted if kind is None else replace(fitted, kind=kind),
            output=output,
            labels=label_output or None,
            allow=allow,
            rule=answers,
        )

    filters = {name: WatchedFilter(Path(file), served) for name, file in map(_named, model)}
    if len(filters) < len(model):
        raise UnlabelError("A model has two filters: give it one.", argument="model")
    options = Options(
        upstream=upstream,
        host=host,
        port=port,
        only_filtered=only_filtered,
        shadow=shadow,
        max_body=max_body,
        timeout=timeout,
        max_requests=max_requests,
    )
    run(options, filters)


def _named(text: str) -> tuple[str, str]:
    name, _, file = text.partition("=")
    if not name or not file:
        raise UnlabelError(
            f"{text!r} does not name a filter: write it as NAME=FILE.", argument="model"
        )
    return name, file
