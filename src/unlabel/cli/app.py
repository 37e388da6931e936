"""The commands of `unlabel`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing, whole_file
from unlabel._files.filter_file import PROTOCOL
from unlabel._tables.files.formats import ENDINGS
from unlabel._tables.overview import overview
from unlabel._tables.predictions import kind_of, reading_of
from unlabel.cli.apply import apply
from unlabel.cli.changes import count_changes
from unlabel.cli.evaluate import evaluate
from unlabel.cli.explore import explore
from unlabel.cli.fit import fit
from unlabel.cli.inspect import as_dict, describe
from unlabel.cli.inspect_table import show
from unlabel.cli.options import (
    Classes,
    FilterFile,
    Force,
    FormatOption,
    Key,
    KindOption,
    LabelColumn,
    ListColumn,
    Long,
    Normalize,
    Separator,
    TableKindOption,
    class_names,
    of_kind,
    refuse_swapped,
)
from unlabel.cli.output import Quiet, as_json, console, print_line, progress_bar
from unlabel.cli.plan import app as plan
from unlabel.cli.serve import serve
from unlabel.cli.version import version_line
from unlabel.filter import OutputFilter

app = typer.Typer(
    help="Change the labels of trained classifiers without retraining them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(plan, name="plan")


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(version_line())
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


app.command()(fit)
app.command()(apply)


@app.command()
def onnx(
    model: Annotated[Path, typer.Argument(help="A classifier, an .onnx file.")],
    filter: FilterFile,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .onnx file to write.")],
    kind: KindOption = None,
    output: Annotated[
        str | None, typer.Option(help="The output with the confidences, if there are several.")
    ] = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Append a filter to an ONNX model, with standard operators only.

    The outputs keep their names; an output with the top label is computed anew.
    """
    from unlabel.onnx import attach_to_file

    refuse_existing(out, force=force)
    refuse_swapped(model, filter, "a model", ".onnx")
    fitted = of_kind(OutputFilter.load(filter), kind)
    changed = attach_to_file(model, fitted, out, output=output)
    print_line(f"{out}: {count_changes(fitted)} in {', '.join(changed)}.")


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A filter (.safetensors), or a table.")],
    all: Annotated[
        bool, typer.Option("--all", help="Show every label, not the first few.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    kind: TableKindOption = None,
    label_column: LabelColumn = "label",
    classes: Classes = None,
    format: FormatOption = None,
    separator: Separator = None,
    list_column: ListColumn = None,
    key: Key = None,
    long: Long = None,
    normalize: Normalize = False,
) -> None:
    """Show a filter's changes of labels, or how a table is read.

    For a filter, shows the destinations of its labels, and its output for the mean of each removed
    label. For a table, shows its layout, labels, rows and top labels; `--classes` and the options
    about the table are for this.
    """
    if format is not None or file.name.endswith((*ENDINGS,)):
        reading = reading_of(
            kind,
            format=format,
            separator=separator,
            list_column=list_column,
            key=key,
            long=long,
            normalize=normalize,
        )
        with progress_bar(f"Reading {file.name}") as progress:
            found = overview(
                file,
                reading,
                classes=class_names(classes),
                kind=kind_of(kind) or "probabilities",
                label_column=label_column,
                progress=progress,
            )
        if json:
            typer.echo(as_json(found.to_dict()))
        else:
            console.print(show(found, all_labels=all))
        return
    fitted = OutputFilter.load(file)
    if json:
        typer.echo(as_json(as_dict(fitted, PROTOCOL)))
    else:
        console.print(describe(fitted, PROTOCOL, all_labels=all))


app.command()(evaluate)
app.command()(serve)


@app.command()
def report(
    summary: Annotated[Path, typer.Argument(help="A summary from `unlabel evaluate --json`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, an .html file.")],
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Turn a summary into a report, a single HTML file that needs nothing else."""
    from unlabel.evaluation.summary import read_summary
    from unlabel.report import render

    refuse_existing(out, force=force)
    page = render(read_summary(summary))
    with whole_file(out) as part:
        part.write_text(page, encoding="utf-8")
    print_line(f"{out} written.")


app.command()(explore)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the files.")] = Path(
        "demo"
    ),
    quiet: Quiet = False,
) -> None:
    """Remove labels of two real classifiers, and compare the result with retraining.

    Leaves a report, a page to explore other changes, and tables to try the other commands on.
    """
    # Slow to import, and needed by no other command.
    from unlabel.cli.demo import remove_cifar10, remove_digits

    console.print(remove_digits(out))
    console.print("\nResNet18 on CIFAR-10, beside two retrained models:\n")
    console.print(remove_cifar10(out))
    console.print()
    print_line(f"Look at {out / 'report.html'}, and try other changes in {out / 'explore.html'}.")
