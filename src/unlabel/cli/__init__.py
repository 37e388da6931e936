"""The commands of `unlabel`."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing, whole_file
from unlabel._files.filter_file import read_protocol
from unlabel._tables.plans import filter_of_texts
from unlabel._tables.predictions import kind_of, reading_of
from unlabel._tables.streaming import fit_table
from unlabel._typing import Method
from unlabel.bench.commands import app as bench
from unlabel.cli.apply import apply
from unlabel.cli.changes import count_changes
from unlabel.cli.inspect import as_json, describe
from unlabel.cli.options import (
    Classes,
    FilterFile,
    Force,
    FromColumn,
    Input,
    Key,
    ListColumn,
    Long,
    Normalize,
    TableInput,
    ToColumn,
    class_names,
)
from unlabel.cli.output import console, print_line, progress_bar
from unlabel.cli.plan import app as plan
from unlabel.filter import OutputFilter

app = typer.Typer(
    help="Change the labels of trained classifiers without retraining them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(bench, name="bench")
app.add_typer(plan, name="plan")

Remove = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL|LABEL=NEW|@FILE",
        help="A label to retire, or to turn into another one; repeat it for more, in order. "
        "@FILE is a plan.",
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="A label to retain; repeat it for more. All others are retired."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse rows without a true label, or of labels that the model does not have, in "
        "place of setting them aside.",
    ),
]
LabelColumn = Annotated[str, typer.Option(help="The column of true labels.")]


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"unlabel {version('unlabel')}")
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
        typer.Argument(help="Table of confidences with true labels; mask needs --classes alone."),
    ] = None,
    remove: Remove = None,
    keep: Keep = None,
    method: Annotated[
        Method, typer.Option(help="mask needs no true labels; literal is for audit only.")
    ] = "osr",
    input: TableInput = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit a temperature on rows of retained labels.")
    ] = False,
    label_column: LabelColumn = "label",
    classes: Classes = None,
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
    note: Annotated[str | None, typer.Option(help="What others should know of it.")] = None,
    strict: Strict = False,
    normalize: Normalize = False,
    force: Force = False,
) -> None:
    """Fit a filter on a table of reference rows (.parquet, .csv, .npz).

    The table has one column of confidences per label, or a single list column, and a column
    with each row's true label.
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
                    input, list_column=list_column, key=key, long=long, normalize=normalize
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
    from unlabel.onnx import graft_file

    fitted = OutputFilter.load(filter).taking(input)
    changed = graft_file(model, fitted, out, output=output, overwrite=force)
    print_line(f"{out}: {count_changes(fitted)} in {', '.join(changed)}.")


@app.command()
def inspect(
    filter: FilterFile,
    all: Annotated[
        bool, typer.Option("--all", help="Show every label, not the first few.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the destinations of a filter's labels, and where the means of the retired ones go."""
    fitted, protocol = OutputFilter.load(filter), read_protocol(filter)
    if json:
        typer.echo(as_json(fitted, protocol))
    else:
        console.print(describe(fitted, protocol, all_labels=all))


@app.command()
def evaluate(
    base: Annotated[
        Path, typer.Argument(help="Table of the model's confidences, with true labels.")
    ],
    remove: Remove = None,
    keep: Keep = None,
    from_column: FromColumn = None,
    to_column: ToColumn = None,
    filter: Annotated[
        Path | None, typer.Option(help="A filter fitted on other rows, in place of --remove.")
    ] = None,
    retrained: Annotated[
        list[Path] | None,
        typer.Option(help="Table of a retrained model on the same rows; twice for the floor."),
    ] = None,
    input: TableInput = None,
    label_column: LabelColumn = "label",
    classes: Classes = None,
    list_column: ListColumn = None,
    key: Key = None,
    long: Long = None,
    strict: Strict = False,
    normalize: Normalize = False,
    json: Annotated[Path | None, typer.Option(help="Write the summary to this file.")] = None,
    force: Force = False,
) -> None:
    """Show the effect of changing labels, beside mask and retrained models.

    With --remove or --keep, a filter is fitted on half of the rows. Filters are judged on rows that
    they were not fitted on.
    """
    # Slow to import, and needed by no other command.
    from unlabel._tables.evaluate import evaluate_tables
    from unlabel.cli.summary_table import show
    from unlabel.evaluation.summary import write_summary

    if json is not None:
        refuse_existing(json, overwrite=force)
    with progress_bar("Evaluating") as progress:
        summary = evaluate_tables(
            base,
            remove=remove,
            keep=keep,
            from_column=from_column,
            to_column=to_column,
            fitted=None if filter is None else OutputFilter.load(filter),
            retrained=retrained or [],
            input=kind_of(input),
            label_column=label_column,
            classes=class_names(classes),
            reading=reading_of(
                input, list_column=list_column, key=key, long=long, normalize=normalize
            ),
            strict=strict,
            progress=progress,
        )
    if json is not None:
        write_summary(summary, json, overwrite=force)
    console.print(show(summary))


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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the files.")] = Path("demo"),
) -> None:
    """Retire labels of two real classifiers, and compare with retraining them.

    Leaves a report, and tables to try the other commands on.
    """
    # Slow to import, and needed by no other command.
    from unlabel.cli.demo import retire_cifar10, retire_digits

    console.print(retire_digits(out))
    console.print("\nResNet18 on CIFAR-10, beside two retrained models:\n")
    console.print(retire_cifar10(out))
    console.print()
    print_line(f"Look at {out / 'report.html'}.")
