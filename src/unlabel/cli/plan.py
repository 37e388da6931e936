"""The commands of `unlabel plan`, which check, compose and compare plans."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing
from unlabel._files.plan_table import DELIMITERS
from unlabel._printing import as_json, printable
from unlabel.cli.options import Classes, Force, FromColumn, ToColumn, class_names
from unlabel.plan import LabelPlan, diff
from unlabel.plan import compose as compose_plans

app = typer.Typer(help="Check, compose and compare plans.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Argument(help="A plan: .toml, .json, .csv, .tsv or .txt.")]


@app.command()
def check(
    plan: PlanFile,
    classes: Classes = None,
    from_column: FromColumn = None,
    to_column: ToColumn = None,
    json: Annotated[bool, typer.Option("--json", help="Print all labels, as JSON.")] = False,
) -> None:
    """Check a plan against the labels of a model.

    The exit code is 1 if the plan cannot be fitted.
    """
    changes = LabelPlan.read(plan, from_column=from_column, to_column=to_column)
    names = class_names(classes)
    found = changes.check([*changes] if names is None else names)
    if json:
        typer.echo(as_json(found.as_dict()))
    else:
        if changes.title:
            typer.echo(printable(changes.title))
        if names is None:
            typer.echo("The labels are those that the plan lists: give the model's with --classes.")
        typer.echo(str(found))
    if found.problems:
        raise typer.Exit(1)


@app.command()
def compose(
    first: PlanFile,
    second: Annotated[Path, typer.Argument(help="A plan for the labels that the first leaves.")],
    out: Annotated[Path, typer.Option(help="The plan to write, a .toml file.")],
    classes: Classes = None,
    from_column: FromColumn = None,
    to_column: ToColumn = None,
    force: Force = False,
) -> None:
    """Make one plan of two that follow each other.

    Without --classes, the result is for a model with exactly the labels that the first plan lists.
    """
    refuse_existing(out, overwrite=force)
    plans = _read_both(first, second, from_column, to_column)
    composed = compose_plans(*plans, class_names(classes))
    composed.write(out, overwrite=force)
    left = len(composed.outcome(class_names(classes) or [*composed]).classes)
    typer.echo(printable(f"{out}: {len(composed):,} changes, {left:,} labels left."))


@app.command(name="diff")
def compare(
    first: PlanFile,
    second: PlanFile,
    from_column: FromColumn = None,
    to_column: ToColumn = None,
) -> None:
    """Show the labels whose destinations differ between two plans."""
    typer.echo(str(diff(*_read_both(first, second, from_column, to_column))))


def _read_both(
    first: Path, second: Path, from_column: str | None, to_column: str | None
) -> tuple[LabelPlan, LabelPlan]:
    """Read two plans; named columns are those of both, or of the only one that is a table."""
    columns = {"from_column": from_column, "to_column": to_column}
    one, other = (
        LabelPlan.read(path, **columns if path.suffix.lower() in DELIMITERS else {})
        for path in (first, second)
    )
    return one, other
