"""The command `unlabel fit`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing
from unlabel._tables.plans import plan_of_options
from unlabel._tables.predictions import kind_of, reading_of
from unlabel._tables.streaming import FittedTable, fit_table
from unlabel._typing import Method
from unlabel.cli.changes import count_changes
from unlabel.cli.options import (
    AllowChance,
    Classes,
    Force,
    FormatOption,
    Keep,
    Key,
    LabelColumn,
    ListColumn,
    Long,
    Normalize,
    Plan,
    Remove,
    Separator,
    Strict,
    TableKindOption,
    class_names,
)
from unlabel.cli.output import Quiet, print_line, progress_bar
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.labels import listing


def fit(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The filter to write, a .safetensors file.")
    ],
    table: Annotated[
        Path | None,
        typer.Argument(
            help="Table of confidences with true labels. Masks, and changes that remove no label, "
            "need only --classes."
        ),
    ] = None,
    plan: Plan = None,
    remove: Remove = None,
    keep: Keep = None,
    method: Annotated[Method, typer.Option(help="mask needs no reference rows.")] = "osr",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit a temperature on rows of labels that stay.")
    ] = False,
    allow_chance: AllowChance = False,
    kind: TableKindOption = None,
    label_column: LabelColumn = "label",
    classes: Classes = None,
    format: FormatOption = None,
    separator: Separator = None,
    list_column: ListColumn = None,
    key: Key = None,
    long: Long = None,
    strict: Strict = False,
    normalize: Normalize = False,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Fit a filter on a table of reference rows.

    The change of labels is a plan, or labels to remove or to keep. The table has confidences in any
    layout that `apply` reads, and a column or field with each row's true label.
    """
    refuse_existing(out, force=force)
    names = class_names(classes)
    if table is None:
        if names is None:
            raise UnlabelError(
                "Nothing names the labels: give a table of reference rows, or the model's labels.",
                argument="classes",
            )
        if calibrate:
            problem = "A temperature is fitted on reference rows: give a table, or leave it out."
            raise UnlabelError(problem, argument="calibrate")
        fitted = OutputFilter.from_plan(
            plan_of_options(names, plan, remove, keep),
            classes=names,
            kind="logits" if kind == "log-probabilities" else kind or "probabilities",
        )
        if fitted.removed and method == "osr":
            problem = f"Removing {listing(fitted.removed)} by OSR needs a table of reference rows: "
            raise UnlabelError(f"{problem}give one, or choose mask.", argument="method")
        found = FittedTable(replace(fitted, method=method), [], None)
    else:
        with progress_bar(f"Reading {table.name}") as progress:
            found = fit_table(
                table,
                plan=plan,
                remove=remove,
                keep=keep,
                method=method,
                kind=kind_of(kind) or "probabilities",
                calibrate=calibrate,
                allow_chance=allow_chance,
                classes=names,
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
                strict=strict,
                progress=progress,
            )
    found.filter.save(out)
    rows = f" ({sum(found.filter.counts):,} reference rows)" if sum(found.filter.counts) else ""
    print_line(f"{out}: {count_changes(found.filter)}{rows}.")
    if calibrate:
        print_line(_temperature(found))
    for remark in found.remarks:
        print_line(remark)


def _temperature(found: FittedTable) -> str:
    temperature = f"Temperature {found.filter.temperature:.4g}"
    if found.calibration is None:
        return f"{temperature}; there are too few rows to judge it."
    before, after = found.calibration.before, found.calibration.after
    return f"{temperature}; calibration error {before:.4f} before, {after:.4f} after, cross-fitted."
