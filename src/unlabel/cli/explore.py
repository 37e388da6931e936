"""The command `unlabel explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing, whole_file
from unlabel._tables.predictions import kind_of, reading_of
from unlabel.cli.options import (
    TABLE,
    Classes,
    Force,
    FormatOption,
    Key,
    ListColumn,
    Long,
    Normalize,
    Separator,
    TableKindOption,
    class_names,
)
from unlabel.cli.output import Quiet, print_line, progress_bar


def explore(
    table: Annotated[
        Path,
        typer.Argument(help="Table of the model's confidences, with true labels if there are any."),
    ],
    out: Annotated[Path, typer.Option(help="The page to write, an .html file.")],
    rows: Annotated[
        int, typer.Option(help="The size of the sample of rows, unless the page gets too large.")
    ] = 5000,
    title: Annotated[
        str | None, typer.Option(help="The page's heading. Default: the table's name.")
    ] = None,
    kind: TableKindOption = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="The column of true labels. Default: label, if there is one.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            help="The column of names for the rows. Default: id, if there is one, or the ids of a "
            "long table.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    classes: Classes = None,
    format: FormatOption = None,
    separator: Separator = None,
    list_column: ListColumn = None,
    key: Key = None,
    long: Long = None,
    normalize: Normalize = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Turn a table into a page on which to try changes of labels, a single HTML file.

    The page holds a sample of the rows, drawn in proportion to the true labels or, if there are
    none, to the model's answers.
    """
    # Slow to import, and needed by few commands.
    from unlabel.explore.table import explore_table

    refuse_existing(out, force=force)
    with progress_bar(f"Reading {table.name}") as progress:
        page, remarks = explore_table(
            table,
            classes=class_names(classes),
            kind=kind_of(kind) or "probabilities",
            reading=reading_of(
                kind,
                format=format,
                separator=separator,
                list_column=list_column,
                key=key,
                long=long,
                normalize=normalize,
            ),
            label_column=label_column,
            id_column=id_column,
            title=table.name if title is None else title,
            rows=rows,
            progress=progress,
        )
    with whole_file(out) as part:
        part.write_text(page.html, encoding="utf-8")
    sampled = f"a sample of {page.rows:,} of" if page.rows < page.of else "all"
    print_line(
        f"{out}: {sampled} {page.of:,} rows, in {page.bits} bits (the largest rounding of a "
        f"confidence is {page.rounding:.2g}), in {len(page.html.encode()) / 1000:,.0f} kB."
    )
    for remark in remarks:
        print_line(remark)
