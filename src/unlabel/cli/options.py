"""Options that several commands take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from unlabel._files import class_file
from unlabel._tables import predictions
from unlabel._typing import InputKind
from unlabel.errors import UnlabelError

TABLE = "The table"  # the panel of options about reading it
FilterFile = Annotated[Path, typer.Argument(help="A filter that `unlabel fit` wrote.")]
Input = Annotated[
    InputKind | None,
    typer.Option(
        help="The kind of confidences that the model gives. Default: the kind that the filter was "
        "fitted on."
    ),
]
TableInput = Annotated[
    predictions.TableInput | None,
    typer.Option(
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
    str | None,
    typer.Option(
        metavar="A,B,...|@FILE",
        help="The labels of the model, in the order of its outputs: separated by commas, a text "
        "file with one label per line, or JSON (a list, id2label, a Hugging Face config).",
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
FromColumn = Annotated[
    str | None, typer.Option("--from", help="The column of old labels in the plan's table.")
]
ToColumn = Annotated[
    str | None, typer.Option("--to", help="The column of new labels in the plan's table.")
]
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
        help="Refuse rows without a true label, or of labels that the model does not have, instead "
        "of setting them aside.",
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


def class_names(text: str | None) -> list[str] | None:
    """Read the labels that `--classes` gives."""
    if not text:
        return None
    if text.startswith("@"):
        return class_file.read(text[1:])
    if os.path.isfile(text):
        raise UnlabelError(f"--classes takes labels: for those in the file {text}, write @{text}.")
    return text.split(",")
