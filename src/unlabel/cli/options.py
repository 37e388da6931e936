"""Options that several commands take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unlabel._tables import predictions
from unlabel._typing import Kind
from unlabel.cli import class_file
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

FILTER_ENDING = ".safetensors"
TABLE = "The table"  # the panel of options about reading it
FilterFile = Annotated[Path, typer.Argument(help="A filter that `unlabel fit` wrote.")]
KindOption = Annotated[
    Kind | None,
    typer.Option(
        "--kind",
        help="The kind of confidences that the model gives. Default: the kind that the filter was "
        "fitted on.",
    ),
]
TableKindOption = Annotated[
    predictions.TableKind | None,
    typer.Option(
        "--kind",
        help="The kind of confidences. Default: the kind that the filter was fitted on if there is "
        "one, otherwise probabilities.",
        rich_help_panel=TABLE,
    ),
]
LabelColumn = Annotated[str, typer.Option(help="The column of true labels.", rich_help_panel=TABLE)]
ListColumn = Annotated[
    str | None,
    typer.Option(
        help="The list, struct or map column with the confidences, if there are several.",
        rich_help_panel=TABLE,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="NAME.NAME...",
        help="The place of the scores in JSON lines, such as choices.0.scores.",
        rich_help_panel=TABLE,
    ),
]
Long = Annotated[
    str | None,
    typer.Option(
        metavar="ID,LABEL,SCORE",
        help="The columns of a long table, in which each row has one label of one id.",
        rich_help_panel=TABLE,
    ),
]
Classes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The labels of the model, in the order of its outputs: a text file with one label per "
        "line, or JSON (a list, id2label, a Hugging Face config).",
    ),
]
FormatOption = Annotated[
    predictions.Format | None,
    typer.Option(
        help="The table's format. Default: that of the file's ending.", rich_help_panel=TABLE
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        help="The separator of a csv table, or the word tab. Default: found in its header.",
        rich_help_panel=TABLE,
    ),
]
Plan = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The change of labels: a plan, a .toml or .json file."),
]
Remove = Annotated[
    list[str] | None,
    typer.Option(metavar="LABEL", help="A label to remove; repeat it for more, in order."),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL", help="A label to keep; repeat it for more. All others are removed."
    ),
]
AllowChance = Annotated[
    bool,
    typer.Option(
        "--allow-chance",
        help="Accept confidences that are no better than chance on rows of labels that stay.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse rows without a true label, or of labels that the model does not have, instead "
        "of skipping them.",
        rich_help_panel=TABLE,
    ),
]
Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize",
        help="Divide each row of confidences by its sum first.",
        rich_help_panel=TABLE,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]


def class_names(path: Path | None) -> list[str] | None:
    """Read the labels in a file that an option names, if it is given."""
    return None if path is None else class_file.read(path)


def of_kind(fitted: OutputFilter, kind: Kind | None) -> OutputFilter:
    """Return a filter for confidences of a kind, if one is given."""
    return fitted if kind is None else replace(fitted, kind=kind)


def refuse_swapped(changed: Path, filter: Path, what: str, *endings: str) -> None:
    """Raise an error where a filter stands first and what it is to change second."""
    if changed.suffix == FILTER_ENDING and filter.name.endswith(endings):
        problem = f"{changed} is a filter and {filter} is {what}: give {what} first."
        raise UnlabelError(problem)
