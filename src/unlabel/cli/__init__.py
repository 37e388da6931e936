"""The commands of `unlabel`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from unlabel._files.atomic import refuse_existing, require_file, whole_file
from unlabel._printing import printable
from unlabel._tables.streaming import Progress as Report
from unlabel._tables.streaming import apply_table, fit_table
from unlabel._typing import InputKind, Method
from unlabel.bench.commands import app as bench
from unlabel.cli.inspect import describe
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

app = typer.Typer(
    help="Remove labels from trained classifiers without retraining them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(bench, name="bench")
console = Console()

Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]
ListColumn = Annotated[
    str | None,
    typer.Option(help="The column of lists that holds the confidences, where there are several."),
]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...|@FILE",
        help="The labels of the model, in the order of its outputs: separated by commas, or a "
        "text file with one a line.",
    ),
]


@app.command()
def fit(
    reference: Annotated[Path, typer.Argument(help="Table of confidences with true labels.")],
    out: Annotated[Path, typer.Option(help="The filter to write, a .safetensors file.")],
    remove: Annotated[
        list[str] | None, typer.Option(help="A label to remove; repeat it for more, in order.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A label to keep, all others going; repeat it.")
    ] = None,
    method: Annotated[
        Method, typer.Option(help="mask needs no true labels; literal is for audit only.")
    ] = "osr",
    input: Annotated[InputKind, typer.Option(help="What the confidences are.")] = "probabilities",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit a temperature on rows of labels that remain.")
    ] = False,
    label_column: Annotated[str, typer.Option(help="The column of true labels.")] = "label",
    classes: Classes = None,
    list_column: ListColumn = None,
    force: Force = False,
) -> None:
    """Fit a filter on a table of reference rows (.parquet, .csv, .npz).

    The table has one column of confidences a label, or one column of lists, and a column
    with each row's true label.
    """
    refuse_existing(out, overwrite=force)
    with progress_bar(f"Reading {reference.name}") as report:
        fitted, guess = fit_table(
            reference,
            remove=remove,
            keep=keep,
            method=method,
            input=input,
            calibrate=calibrate,
            classes=_class_names(classes),
            list_column=list_column,
            label_column=label_column,
            progress=report,
        )
    fitted.save(out, overwrite=force)
    _say(
        f"{out}: {len(fitted.removed)} of {len(fitted.classes_in)} labels removed "
        f"({sum(fitted.counts)} reference rows)."
    )
    if guess:
        _say(guess)


@app.command()
def apply(
    filter: Annotated[Path, typer.Argument(help="A filter that `unlabel fit` wrote.")],
    predictions: Annotated[Path, typer.Argument(help="Table of confidences.")],
    out: Annotated[Path, typer.Option(help="The table to write.")],
    top_label: Annotated[
        bool, typer.Option("--top-label", help="Add the new top label as a column `top_label`.")
    ] = False,
    removed_mass: Annotated[
        bool,
        typer.Option("--removed-mass", help="Add what the removed labels held as `removed_mass`."),
    ] = False,
    only_changed: Annotated[
        bool, typer.Option("--only-changed", help="Write only rows whose top label changed.")
    ] = False,
    input: Annotated[
        InputKind | None,
        typer.Option(help="What the confidences are, by default what the filter was fitted on."),
    ] = None,
    list_column: ListColumn = None,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="spark writes a folder of .parquet or .csv files, with the extra."),
    ] = "local",
    force: Force = False,
) -> None:
    """Apply a filter to a table of predictions (.parquet, .csv, .npy, .npz).

    Streams batch by batch. Other columns stay as they are, those of removed labels go.
    """
    fitted = OutputFilter.load(filter).taking(input)
    if engine == "spark":
        try:
            from unlabel.spark.files import apply_with_spark
        except ModuleNotFoundError as error:
            raise UnlabelError(str(error)) from error
        written = apply_with_spark(
            fitted,
            predictions,
            out,
            top_label=top_label,
            removed_mass=removed_mass,
            only_changed=only_changed,
            list_column=list_column,
            overwrite=force,
        )
        _say(f"{out}: {written:,} rows written.")
        return
    with progress_bar(f"Filtering {predictions.name}") as report:
        applied = apply_table(
            fitted,
            predictions,
            out,
            top_label=top_label,
            removed_mass=removed_mass,
            only_changed=only_changed,
            list_column=list_column,
            overwrite=force,
            progress=report,
        )
    _say(
        f"{out}: {applied.written:,} rows written; the top label changed in {applied.changed:,} "
        f"of {applied.rows:,}."
    )


@app.command()
def onnx(
    model: Annotated[Path, typer.Argument(help="A classifier, an .onnx file.")],
    filter: Annotated[Path, typer.Argument(help="A filter that `unlabel fit` wrote.")],
    out: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    input: Annotated[
        InputKind | None,
        typer.Option(help="What the model gives: what the filter was fitted on, if not given."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(help="The output with the confidences, where there are several."),
    ] = None,
    force: Force = False,
) -> None:
    """Append a filter to an ONNX model, with standard operators only.

    The outputs keep their names; one with the top label is found anew.
    """
    try:
        from unlabel.onnx import graft_file
    except ModuleNotFoundError as error:
        raise UnlabelError(str(error)) from error
    fitted = OutputFilter.load(filter).taking(input)
    changed = graft_file(model, fitted, out, output=output, overwrite=force)
    _say(
        f"{out}: {len(fitted.removed)} of {len(fitted.classes_in)} labels removed from "
        f"{', '.join(changed)}."
    )


@app.command()
def inspect(
    filter: Annotated[Path, typer.Argument(help="A filter that `unlabel fit` wrote.")],
) -> None:
    """Show what a filter removes, what it keeps and where the removed labels' means go."""
    console.print(describe(OutputFilter.load(filter)))


@app.command()
def evaluate(
    base: Annotated[Path, typer.Argument(help="Table of the model's confidences, with labels.")],
    remove: Annotated[
        list[str] | None,
        typer.Option(help="A label to remove; repeat it. Fitted on half of the rows."),
    ] = None,
    filter: Annotated[
        Path | None, typer.Option(help="A filter, in place of labels, fitted on other rows.")
    ] = None,
    retrained: Annotated[
        list[Path] | None,
        typer.Option(help="Table of a retrained model on the same rows; twice for the floor."),
    ] = None,
    input: Annotated[
        InputKind | None,
        typer.Option(
            help="What the confidences are, in every table; by default probabilities, or what the "
            "filter was fitted on."
        ),
    ] = None,
    label_column: Annotated[str, typer.Option(help="The column of true labels.")] = "label",
    classes: Classes = None,
    list_column: ListColumn = None,
    json: Annotated[Path | None, typer.Option(help="Write the summary to this file.")] = None,
    force: Force = False,
) -> None:
    """Show what removing labels does, beside mask and retrained models.

    Filters are judged on rows they were not fitted on.
    """
    # What judges outputs is slow to import, and no other command needs it.
    from unlabel._tables.evaluate import evaluate_tables
    from unlabel.cli.summary_table import show
    from unlabel.evaluation.summary import write_summary

    if json is not None:
        refuse_existing(json, overwrite=force)
    with progress_bar("Evaluating") as report:
        summary = evaluate_tables(
            base,
            remove=remove,
            fitted=None if filter is None else OutputFilter.load(filter),
            retrained=retrained or [],
            input=input,
            label_column=label_column,
            classes=_class_names(classes),
            list_column=list_column,
            progress=report,
        )
    if json is not None:
        write_summary(summary, json, overwrite=force)
    console.print(show(summary))


@app.command()
def report(
    summary: Annotated[Path, typer.Argument(help="What `unlabel evaluate --json` wrote.")],
    out: Annotated[Path, typer.Option(help="The page to write, an .html file.")],
    force: Force = False,
) -> None:
    """Turn a summary into a page to look at: one HTML file that needs nothing else."""
    from unlabel.evaluation.summary import read_summary
    from unlabel.report import render

    page = render(read_summary(summary))
    with whole_file(out, overwrite=force) as part:
        part.write_text(page, encoding="utf-8")
    _say(f"{out} written.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder to leave the files in.")] = Path("demo"),
) -> None:
    """Retire labels of two real classifiers and compare with really retraining them.

    Leaves tables to try the other commands on, and a report.
    """
    # What trains models is slow to import, and no other command needs it.
    from unlabel.cli.demo import retire_cifar10, retire_digits

    console.print(retire_digits(out))
    console.print("\nResNet18 on CIFAR-10, beside two models really retrained:\n")
    console.print(retire_cifar10(out))
    console.print()
    _say(f"Look at {out / 'report.html'}.")


def _say(text: str) -> None:
    """Print a text in one line, whatever names of files and labels look like."""
    console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress_bar(task: str) -> Iterator[Report]:
    """Show how far a table has been read, on a terminal."""
    terminal = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=terminal,
        disable=not terminal.is_terminal,
        transient=True,
    )
    with bar:
        number = bar.add_task(printable(task), total=1.0)
        yield lambda part: bar.update(number, completed=part)


def _class_names(text: str | None) -> list[str] | None:
    if text is None or not text.startswith("@"):
        return text.split(",") if text else None
    file = require_file(text[1:])
    try:
        # Spreadsheets and Notepad put a byte order mark first.
        lines = file.read_text(encoding="utf-8-sig").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UnlabelError(f"{text[1:]} could not be read as a list of labels: {error}.") from error
    if not lines:
        raise UnlabelError(f"{text[1:]} has no labels in it: write one on each line.")
    return lines.split("\n")
