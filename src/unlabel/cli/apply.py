"""The command `unlabel apply`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from unlabel._tables.allowing import Allowing, allowing
from unlabel._tables.files.streams import STANDARD, shown
from unlabel._tables.predictions import OtherLabels, Reading, kind_of, reading_of
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table
from unlabel._typing import Scores
from unlabel.allow import AllowLists, Missing, Unmatched
from unlabel.cli.changes import count_changes
from unlabel.cli.options import (
    FilterFile,
    Force,
    FormatOption,
    Key,
    ListColumn,
    Long,
    Normalize,
    Separator,
    TableInput,
)
from unlabel.cli.output import ends_on_closed_pipe, print_line, progress_bar
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

# The panels of options.
ANSWERS, ALLOWED, PARTIAL = "Answers", "Allowed labels", "Partial rows"


def apply(
    filter: FilterFile,
    predictions: Annotated[
        Path, typer.Argument(help="Table of confidences, or - for standard input.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The table to write, or - for standard output, which is the default if the input "
            "is -."
        ),
    ] = None,
    top_label: Annotated[
        bool,
        typer.Option(
            "--top-label",
            help="Add the new top label as a column `top_label`.",
            rich_help_panel=ANSWERS,
        ),
    ] = False,
    removed_mass: Annotated[
        bool,
        typer.Option(
            "--removed-mass",
            help="Add the mass of retired labels as `removed_mass`.",
            rich_help_panel=ANSWERS,
        ),
    ] = False,
    only_changed: Annotated[
        bool,
        typer.Option(
            "--only-changed",
            help="Write only rows whose top label changed, with the columns `old_label` and "
            "`top_label`.",
            rich_help_panel=ANSWERS,
        ),
    ] = False,
    update_column: Annotated[
        str | None,
        typer.Option(
            help="A column of labels, such as predictions, to bring up to date. The old top label "
            "becomes the new one; another label becomes its destination, or the new top label if "
            "it was retired or split, or its destination is not allowed. Other texts stay.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    unknown_above: Annotated[
        float | None,
        typer.Option(
            help="The new top label is unknown if the removed mass is above this.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    unknown: Annotated[
        str | None,
        typer.Option(
            help="The name for unknown. Default: unknown. Labels that are numbers become texts.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    allow: Annotated[
        Path | None,
        typer.Option(
            help="Lists of allowed labels: .csv or .tsv with columns list and label, or .json.",
            rich_help_panel=ALLOWED,
        ),
    ] = None,
    allow_by: Annotated[
        str | None,
        typer.Option(
            help="The column with each row's list, if there is more than one list.",
            rich_help_panel=ALLOWED,
        ),
    ] = None,
    allow_unmatched: Annotated[
        Unmatched,
        typer.Option(
            help="Refuse or ignore listed labels that the filter does not give.",
            rich_help_panel=ALLOWED,
        ),
    ] = "error",
    allow_missing: Annotated[
        Missing,
        typer.Option(
            help="Refuse rows whose list does not exist, or allow them all labels.",
            rich_help_panel=ALLOWED,
        ),
    ] = "error",
    scores: Annotated[
        Scores,
        typer.Option(
            help="Divide allowed labels by their sum, or leave them as they are.",
            rich_help_panel=ALLOWED,
        ),
    ] = "renormalised",
    not_allowed: Annotated[
        bool,
        typer.Option(
            "--not-allowed",
            help="Add the mass of labels that are not allowed as `not_allowed`.",
            rich_help_panel=ALLOWED,
        ),
    ] = False,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Rows may name only some labels, as top-k answers do. Needs a mask, or a filter "
            "that retires no label.",
            rich_help_panel=PARTIAL,
        ),
    ] = False,
    interval: Annotated[
        bool,
        typer.Option(
            "--interval",
            help="Add the largest value that each label of a partial row can have, with the "
            "suffix _upper.",
            rich_help_panel=PARTIAL,
        ),
    ] = False,
    top_k: Annotated[
        bool,
        typer.Option(
            "--top-k",
            help="Partial rows name the labels with the largest scores, so that more answers are "
            "certain.",
            rich_help_panel=PARTIAL,
        ),
    ] = False,
    other_labels: Annotated[
        OtherLabels,
        typer.Option(
            help="Refuse labels in partial rows that the model does not have, or count them as "
            "retired.",
            rich_help_panel=PARTIAL,
        ),
    ] = "error",
    input: TableInput = None,
    format: FormatOption = None,
    separator: Separator = None,
    list_column: ListColumn = None,
    key: Key = None,
    long: Long = None,
    normalize: Normalize = False,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="spark needs its extra and writes a folder of .parquet or .csv files."),
    ] = "local",
    force: Force = False,
) -> None:
    """Apply a filter to a table of predictions.

    Formats are .parquet, .feather, .npy, .npz, .csv, .tsv and .jsonl; the last three may be packed
    (.csv.gz) or piped. The table is streamed, batch by batch. The result's labels take the place of
    the model's; columns without confidences stay as they are.
    """
    if out is None:
        if predictions != STANDARD:
            raise UnlabelError("Name the table to write with --out, or - for standard output.")
        out = STANDARD
    fitted = OutputFilter.load(filter).taking(kind_of(input))
    options = ApplyOptions(
        top_label=top_label,
        removed_mass=removed_mass,
        only_changed=only_changed,
        reading=reading_of(
            input,
            format=format,
            separator=separator,
            list_column=list_column,
            key=key,
            long=long,
            normalize=normalize,
            partial=partial,
            other_labels=other_labels,
        ),
        overwrite=force,
        allow=allowing(
            fitted,
            None if allow is None else AllowLists.read(allow),
            by=allow_by,
            missing=allow_missing,
            unmatched=allow_unmatched,
            scores=scores,
            not_allowed=not_allowed,
        ),
        unknown_above=unknown_above,
        unknown=unknown,
        update_column=update_column,
        interval=interval,
        top_k=top_k,
    )
    changes = count_changes(fitted) + _count_unused(options.allow)
    if engine == "spark":
        _refuse_local_options(options.reading)
        from unlabel.spark.files import apply_with_spark

        written = apply_with_spark(fitted, predictions, out, options)
        print_line(f"{out}: {written:,} rows written ({changes}).")
        return
    has_size, is_piped = predictions != STANDARD, out == STANDARD
    with (
        ends_on_closed_pipe(),
        progress_bar(f"Filtering {predictions.name}", shown=has_size) as progress,
    ):
        applied = apply_table(fitted, predictions, out, options, progress)
    print_line(
        f"{shown(out, 'standard output')}: {applied.written:,} rows written; the top label changed "
        f"in {applied.changed:,} of {applied.rows:,} ({changes}).",
        to_error=is_piped,
    )
    for remark in applied.remarks:
        print_line(remark, to_error=is_piped)


def _refuse_local_options(reading: Reading) -> None:
    """Refuse options of reading that Spark does not have."""
    given = {
        "--format": reading.format,
        "--separator": reading.separator,
        "--key": reading.key,
        "--long": reading.long,
        "--partial": reading.partial,
        "--input log-probabilities": reading.logs,
    }
    for option in (option for option, value in given.items() if value):
        raise UnlabelError(f"{option} is not for Spark: leave it out, or --engine spark.")


def _count_unused(allow: Allowing | None) -> str:
    """Count the labels of lists that the filter does not give."""
    if allow is None:
        return ""
    counts = {"ignored": len(allow.matched.unmatched), "retired": allow.matched.retired}
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    return f"; labels in lists: {' and '.join(parts)}" if parts else ""
