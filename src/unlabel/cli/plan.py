"""The commands of `unlabel plan`, which check, draft, compose and compare plans."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Annotated

import typer

from unlabel._files.atomic import refuse_existing, whole_file
from unlabel._plans.draft import draft_pairs
from unlabel._printing import printable
from unlabel._typing import Label
from unlabel.cli.options import Classes, Force, class_names
from unlabel.cli.output import Quiet, as_json, print_line
from unlabel.errors import UnlabelError
from unlabel.labels import listing
from unlabel.plan import LabelPlan

app = typer.Typer(help="Check, draft, compose and compare plans.", no_args_is_help=True)

PlanFile = Annotated[Path, typer.Argument(help="A plan, a .toml or .json file.")]
MOST_NAMED = 20


@app.command()
def check(
    plan: PlanFile,
    classes: Classes = None,
    result: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The labels that the result is to have, in any order, in a file."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print all labels, as JSON.")] = False,
) -> None:
    """Check a plan against the labels of a model.

    The exit code is 1 if the plan cannot be fitted, or the result has other labels than --result.
    """
    changes = LabelPlan.load(plan)
    names = class_names(classes)
    found = changes.check([*changes.changes] if names is None else names)
    disagreements = {} if result is None else _compare(found.result, class_names(result) or [])
    if json:
        typer.echo(as_json(found.to_dict() | disagreements))
    else:
        if changes.title:
            typer.echo(printable(changes.title))
        if names is None:
            typer.echo("The labels are those that the plan lists: give the model's with --classes.")
        typer.echo(str(found))
        for what, labels in disagreements.items():
            if labels:
                typer.echo(f"The result disagrees: {what}, {listing(labels, MOST_NAMED)}.")
    if found.problems or any(disagreements.values()):
        raise typer.Exit(1)


def _compare(result: tuple[Label, ...], expected: list[str]) -> dict[str, list[str]]:
    found = [*map(str, result)]
    return {
        "missing": [label for label in expected if label not in {*found}],
        "unexpected": [label for label in found if label not in {*expected}],
    }


@app.command()
def draft(
    pairs: Annotated[
        Path,
        typer.Argument(help="A .csv or .tsv file with a pair of an old and a new label per line."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The .toml file to write. Default: standard output."),
    ] = None,
    from_column: Annotated[
        str | None,
        typer.Option("--from", help="The column of old labels. Default: from, or that of SSSOM."),
    ] = None,
    to_column: Annotated[
        str | None,
        typer.Option("--to", help="The column of new labels. Default: to, or that of SSSOM."),
    ] = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Draft a plan from a table of pairs, such as a concordance, to read through before its use.

    Old labels without a new one are listed, and stay what they are: an empty cell removes nothing.
    A column `weight` has the weights of splits.
    """
    if out is not None:
        refuse_existing(out, force=force)
        _require_toml(out)
    found = draft_pairs(pairs, from_column, to_column)
    text = found.to_toml()
    if out is None:
        typer.echo(text, nl=False)
    else:
        with whole_file(out) as part:
            part.write_bytes(text.encode())
    print_line(f"{out or 'standard output'}: {len(found.plan.changes):,} changes.")
    if found.without_destination:
        labels = listing(found.without_destination, MOST_NAMED)
        print_line(
            f"No destination, so they stay unless the plan is edited to remove them: {labels}."
        )


@app.command()
def compose(
    plans: Annotated[
        list[Path], typer.Argument(help="Plans, each for the labels that those before it leave.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The plan to write, a .toml file.")],
    classes: Classes = None,
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Make one plan of plans that follow one another.

    Without --classes, the result is for a model with exactly the labels that the first plan lists.
    """
    refuse_existing(out, force=force)
    names = class_names(classes)
    composed = reduce(
        lambda first, second: first.then(second, classes=names), map(LabelPlan.load, plans)
    )
    composed.save(out)
    left = len(composed.check(names or [*composed.changes]).result)
    print_line(f"{out}: {len(composed.changes):,} changes, {left:,} labels left.")


@app.command(name="diff")
def compare(
    first: PlanFile,
    second: PlanFile,
    json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON.")] = False,
) -> None:
    """Show the labels whose destinations differ between two plans."""
    found = LabelPlan.load(first).diff(LabelPlan.load(second))
    typer.echo(as_json(found.to_dict()) if json else str(found))


def _require_toml(path: Path) -> None:
    if path.suffix.lower() != ".toml":
        raise UnlabelError("It does not end in .toml: plans are written as TOML.", path=path)
