"""The commands of `unlabel bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel.errors import needs_extra

app = typer.Typer(
    help="Run the paper's experiments and print its tables beside ours.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command()
def run(
    suite: Annotated[
        str, typer.Option(metavar="paper|quick", help="quick takes a minute on a laptop.")
    ] = "quick",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SET/ARCHITECTURE/F",
            help="Cells to run, such as cifar10/resnet18/F2; repeat it for more.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda, or one GPU such as cuda:1.")
    ] = "auto",
    data: Annotated[
        Path | None, typer.Option(help="The folder of image sets; not needed for quick.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="torchvision's ImageNet weights: the file or its folder.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("results"),
    stop_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Start nothing that would probably end after this many seconds.",
        ),
    ] = None,
) -> None:
    """Train, retrain and run every method, one cell at a time.

    Finished work is not repeated: a stopped run resumes where it left off.
    """
    with needs_extra("bench"):
        from unlabel.bench.runner import report_failures, run_suite
    failures = run_suite(
        suite,
        out=out,
        only=only or [],
        device=device,
        data=data,
        weights=weights,
        stop_after=stop_after,
    )
    raise typer.Exit(report_failures(failures))


@app.command()
def tables(
    results: Annotated[
        Path, typer.Argument(help="The folder that `unlabel bench run --out` wrote.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for the tables; by default that of the results."),
    ] = None,
) -> None:
    """Print every table of the paper beside ours; write Markdown, CSV and an HTML page."""
    from unlabel.bench.tables.write import write_tables

    typer.echo(write_tables(results, out or results))
