"""The commands of `unlabel`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing, whole_file
from unlabel._files.filter_file import read_protocol
from unlabel._method import compiled
from unlabel._printing import as_json
from unlabel._tables.files.formats import ENDINGS
from unlabel._tables.overview import overview
from unlabel._tables.plans import filter_of_texts
from unlabel._tables.predictions import kind_of, reading_of
from unlabel._tables.streaming import fit_table
from unlabel._typing import Method
from unlabel.cli.apply import apply
from unlabel.cli.changes import count_changes
from unlabel.cli.evaluate import evaluate
from unlabel.cli.explore import explore
from unlabel.cli.inspect import as_dict, describe
from unlabel.cli.inspect_table import show
from unlabel.cli.options import (
    Classes,
    FilterFile,
    Force,
    FormatOption,
    Input,
    Keep,
    Key,
    LabelColumn,
    ListColumn,
    Long,
    Normalize,
    Remove,
    Separator,
    Strict,
    TableInput,
    class_names,
)
from unlabel.cli.output import console, print_line, progress_bar
from unlabel.cli.plan import app as plan
from unlabel.cli.serve import serve
from unlabel.filter import OutputFilter

app = typer.Typer(
    help="Change the labels of trained classifiers without retraining them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(plan, name="plan")


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        loops = "with" if compiled.is_available() else "without"
        typer.echo(f"unlabel {version('unlabel')}, {loops} compiled loops")
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


@app.command()
def fit(
    out: Annotated[Path, typer.Option(help="The filter to write, a .safetensors file.")],
    reference: Annotated[
        Path | None,
        typer.Argument(
            help="Table of confidences with true labels. Mask, and changes that retire no label, "
            "need only --classes."
        ),
    ] = None,
    remove: Remove = None,
    keep: Keep = None,
    method: Annotated[
        Method, typer.Option(help="mask needs no reference rows; literal is for audit only.")
    ] = "osr",
    input: TableInput = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit a temperature on rows of retained labels.")
    ] = False,
    label_column: LabelColumn = "label",
    classes: Classes = None,
    format: FormatOption = None,
    separator: Separator = None,
    list_column: ListColumn = None,
    key: Key = None,
    long: Long = None,
    from_column: Annotated[
        str | None, typer.Option("--from", help="The column of old labels in a plan's table.")
    ] = None,
    to_column: Annotated[
        str | None, typer.Option("--to", help="The column of new labels in a plan's table.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="A title for the change.")] = None,
    note: Annotated[str | None, typer.Option(help="A note on the change, for others.")] = None,
    strict: Strict = False,
    normalize: Normalize = False,
    force: Force = False,
) -> None:
    """Fit a filter on a table of reference rows.

    The table has confidences in any layout that `apply` reads, and a column or field with each
    row's true label.
    """
    refuse_existing(out, overwrite=force)
    if reference is None:
        remarks: list[str] = []
        fitted = filter_of_texts(
            class_names(classes),
            remove,
            keep,
            method=method,
            input=kind_of(input) or "probabilities",
            calibrate=calibrate,
            from_column=from_column,
            to_column=to_column,
            title=title,
            note=note,
        )
    else:
        with progress_bar(f"Reading {reference.name}") as progress:
            fitted, remarks = fit_table(
                reference,
                remove=remove,
                keep=keep,
                method=method,
                input=kind_of(input) or "probabilities",
                calibrate=calibrate,
                classes=class_names(classes),
                reading=reading_of(
                    input,
                    format=format,
                    separator=separator,
                    list_column=list_column,
                    key=key,
                    long=long,
                    normalize=normalize,
                ),
                label_column=label_column,
                progress=progress,
                from_column=from_column,
                to_column=to_column,
                title=title,
                note=note,
                strict=strict,
            )
    fitted.save(out, overwrite=force)
    rows = f" ({sum(fitted.counts)} reference rows)" if reference and fitted.removed else ""
    print_line(f"{out}: {count_changes(fitted)}{rows}.")
    for remark in remarks:
        print_line(remark)


app.command()(apply)


@app.command()
def onnx(
    model: Annotated[Path, typer.Argument(help="A classifier, an .onnx file.")],
    filter: FilterFile,
    out: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    input: Input = None,
    output: Annotated[
        str | None, typer.Option(help="The output with the confidences, if there are several.")
    ] = None,
    force: Force = False,
) -> None:
    """Append a filter to an ONNX model, with standard operators only.

    The outputs keep their names; an output with the top label is computed anew.
    """
    from unlabel.onnx import attach_to_file

    fitted = OutputFilter.load(filter).taking(input)
    changed = attach_to_file(model, fitted, out, output=output, overwrite=force)
    print_line(f"{out}: {count_changes(fitted)} in {', '.join(changed)}.")


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A filter (.safetensors), or a table.")],
    all: Annotated[
        bool, typer.Option("--all", help="Show every label, not the first few.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    input: TableInput = None,
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

    For a filter, shows the destinations of its labels, and its output for the mean of each retired
    label. For a table, shows its layout, labels, rows and top labels; `--classes` and the options
    about the table are for this.
    """
    if format is not None or file.name.endswith((*ENDINGS,)):
        reading = reading_of(
            input,
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
                input=kind_of(input) or "probabilities",
                label_column=label_column,
                progress=progress,
            )
        if json:
            typer.echo(as_json(found.as_dict()))
        else:
            console.print(show(found, all_labels=all))
        return
    fitted, protocol = OutputFilter.load(file), read_protocol(file)
    if json:
        typer.echo(as_json(as_dict(fitted, protocol)))
    else:
        console.print(describe(fitted, protocol, all_labels=all))


app.command()(evaluate)
app.command()(serve)


@app.command()
def report(
    summary: Annotated[Path, typer.Argument(help="A summary from `unlabel evaluate --json`.")],
    out: Annotated[Path, typer.Option(help="The page to write, an .html file.")],
    force: Force = False,
) -> None:
    """Turn a summary into a report, a single HTML file that needs nothing else."""
    from unlabel.evaluation.summary import read_summary
    from unlabel.report import render

    page = render(read_summary(summary))
    with whole_file(out, overwrite=force) as part:
        part.write_text(page, encoding="utf-8")
    print_line(f"{out} written.")


app.command()(explore)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the files.")] = Path("demo"),
) -> None:
    """Retire labels of two real classifiers, and compare the result with retraining.

    Leaves a report, a page to explore other changes, and tables to try the other commands on.
    """
    # Slow to import, and needed by no other command.
    from unlabel.cli.demo import retire_cifar10, retire_digits

    console.print(retire_digits(out))
    console.print("\nResNet18 on CIFAR-10, beside two retrained models:\n")
    console.print(retire_cifar10(out))
    console.print()
    print_line(f"Look at {out / 'report.html'}, and try other changes in {out / 'explore.html'}.")
