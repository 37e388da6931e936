"""The command `unlabel apply`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from unlabel._files.atomic import refuse_existing
from unlabel._tables.files.formats import ENDINGS
from unlabel._tables.files.streams import STANDARD, shown
from unlabel._tables.predictions import OtherLabels, Reading, kind_of, reading_of
from unlabel._tables.rewriting import ApplyOptions
from unlabel._tables.streaming import apply_table
from unlabel.allow import bind
from unlabel.answers import AnswerRule
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
    TableKindOption,
    of_kind,
    refuse_swapped,
)
from unlabel.cli.output import Quiet, ends_on_closed_pipe, print_line, progress_bar
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

# The panels of options.
ANSWERS, ALLOWED, PARTIAL = "Answers", "Allowed labels", "Partial rows"


def apply(
    table: Annotated[Path, typer.Argument(help="Table of confidences, or - for standard input.")],
    filter: FilterFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The table to write, or - for standard output, which is the default if the input "
            "is -.",
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
            help="Add the mass of removed labels as `removed_mass`.",
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
            "it was removed or split, or its destination is not allowed. Other texts stay.",
            rich_help_panel=ANSWERS,
        ),
    ] = None,
    rule: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The rule for answers, a .toml file: when the new top label is unknown.",
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
            help="The column with each row's list.",
            rich_help_panel=ALLOWED,
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Rows may name only some labels, those with the largest scores, as top-k answers "
            "do. Needs a mask, or a filter that removes no label.",
            rich_help_panel=PARTIAL,
        ),
    ] = False,
    other_labels: Annotated[
        OtherLabels,
        typer.Option(
            help="Refuse labels in partial rows that the model does not have, or count them as "
            "removed.",
            rich_help_panel=PARTIAL,
        ),
    ] = "error",
    kind: TableKindOption = None,
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
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Apply a filter to a table of predictions.

    Formats are .parquet, .feather, .npy, .npz, .csv, .tsv and .jsonl; the last three may be packed
    (.csv.gz) or piped. The table is streamed, batch by batch. The result's labels take the place of
    the model's; columns without confidences stay as they are.
    """
    if out is None:
        if table != STANDARD:
            raise UnlabelError("Name the table to write, or - for standard output.", argument="out")
        out = STANDARD
    if out != STANDARD:
        refuse_existing(out, force=force)
    refuse_swapped(table, filter, "a table", *ENDINGS)
    fitted = of_kind(OutputFilter.load(filter), kind_of(kind))
    lists = None
    if allow is not None:
        lists = bind(allow, fitted)
    options = ApplyOptions(
        top_label=top_label,
        removed_mass=removed_mass,
        only_changed=only_changed,
        reading=reading_of(
            kind,
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
        rule=None if rule is None else AnswerRule.load(rule),
        allow=lists,
        allow_by=allow_by,
        update_column=update_column,
    )
    changes = count_changes(fitted)
    if engine == "spark":
        _refuse_local_options(options.reading)
        from unlabel.spark.files import apply_with_spark

        written = apply_with_spark(fitted, table, out, options)
        print_line(f"{out}: {written:,} rows written ({changes}).")
        return
    has_size = table != STANDARD
    with (
        ends_on_closed_pipe(),
        progress_bar(f"Filtering {table.name}", shown=has_size) as progress,
    ):
        applied = apply_table(fitted, table, out, options, progress)
    unknown = f", {applied.unknown:,} of these to unknown" if rule is not None else ""
    print_line(
        f"{shown(out, 'standard output')}: {applied.written:,} rows written; the top label changed "
        f"in {applied.changed:,} of {applied.rows:,}{unknown} ({changes})."
    )
    for remark in applied.remarks:
        print_line(remark)


def _refuse_local_options(reading: Reading) -> None:
    """Refuse options of reading that Spark does not have."""
    given = {
        "format": reading.format,
        "separator": reading.separator,
        "key": reading.key,
        "long": reading.long,
        "partial": reading.partial,
        "kind": reading.logs,
    }
    for argument in (argument for argument, value in given.items() if value):
        raise UnlabelError("Spark does not have this: leave it out.", argument=argument)
