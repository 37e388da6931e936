"""The command `unlabel evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing, whole_file
from unlabel._printing import printable
from unlabel._tables.predictions import kind_of, reading_of
from unlabel.answers import AnswerRule
from unlabel.cli.options import (
    AllowChance,
    Classes,
    Force,
    FormatOption,
    Keep,
    Key,
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
from unlabel.cli.output import Quiet, console, progress_bar
from unlabel.errors import UnlabelError
from unlabel.evaluation.truth import Truth

CONDITION_IS_MET = 1  # the exit code: a check says no


def evaluate(
    base: Annotated[
        Path,
        typer.Argument(help="Table of the model's confidences, with true labels if there are any."),
    ],
    plan: Plan = None,
    remove: Remove = None,
    keep: Keep = None,
    filter: Annotated[
        Path | None, typer.Option(help="A filter fitted on other rows, instead of a change.")
    ] = None,
    retrained: Annotated[
        list[Path] | None,
        typer.Option(
            help="Table of a retrained model's confidences on the same rows. Repeat it with a "
            "second model for the floor."
        ),
    ] = None,
    same_recipe: Annotated[
        bool,
        typer.Option(
            "--same-recipe", help="Declare that the retrained models differ only in their seeds."
        ),
    ] = False,
    kind: TableKindOption = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="The column of true labels. Default: label, if there is one. Without true labels, "
            "only answers before and after are compared."
        ),
    ] = None,
    truth: Annotated[
        Truth, typer.Option(help="Whether true labels are the model's (old) or already new ones.")
    ] = "old",
    rule: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A rule for when answers are unknown, a .toml file."),
    ] = None,
    allow_chance: AllowChance = False,
    classes: Classes = None,
    format: FormatOption = None,
    separator: Separator = None,
    list_column: ListColumn = None,
    key: Key = None,
    long: Long = None,
    strict: Strict = False,
    normalize: Normalize = False,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit with 3 if this holds, such as 'regressed > 1%' or 'mask.log_loss > .3'; "
            "repeat it for more.",
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the summary to this file.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the impact to this file, for a pull request.")
    ] = None,
    date: Annotated[str | None, typer.Option(help="A date for the summary. Default: none.")] = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Show the effect of changing labels, beside mask and retrained models.

    With --plan, --remove or --keep, a filter is fitted on half of the rows. Filters are judged on
    rows that they were not fitted on.
    """
    # Slow to import, and needed by no other command.
    from unlabel._tables.evaluate import evaluate_tables
    from unlabel.cli.summary_table import show
    from unlabel.evaluation.conditions import parse_condition
    from unlabel.evaluation.summary import write_summary
    from unlabel.report.markdown import as_markdown

    conditions = [parse_condition(text) for text in fail_if or []]
    outputs = [path for path in (json, markdown) if path is not None]
    for path in outputs:
        refuse_existing(path, force=force)
    if len({path.absolute() for path in outputs}) < len(outputs):
        raise UnlabelError(f"--json and --markdown are both {json}: give two names.")
    with progress_bar("Evaluating") as progress:
        summary = evaluate_tables(
            base,
            plan=plan,
            remove=remove,
            keep=keep,
            filter=filter,
            retrained=retrained or [],
            same_recipe=same_recipe,
            kind=kind_of(kind),
            label_column=label_column,
            truth=truth,
            rule=None if rule is None else AnswerRule.load(rule),
            allow_chance=allow_chance,
            classes=class_names(classes),
            reading=reading_of(
                kind,
                format=format,
                separator=separator,
                list_column=list_column,
                key=key,
                long=long,
                normalize=normalize,
            ),
            strict=strict,
            date=date,
            progress=progress,
        )
    failures = [said for condition in conditions if (said := condition.failure(summary))]
    if json is not None:
        write_summary(summary, json)
    if markdown is not None:
        with whole_file(markdown) as part:
            part.write_text(as_markdown(summary, failures), encoding="utf-8")
    console.print(show(summary))
    for failure in failures:
        typer.echo(printable(f"Failed: {failure}"), err=True)
    if failures:
        raise typer.Exit(CONDITION_IS_MET)
