"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from unlabel._files import class_file

Classes = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...|@FILE",
        help="The labels of the model, in the order of its outputs: separated by commas, a text "
        "file with one label per line, or JSON (a list, id2label, a Hugging Face config).",
    ),
]
FromColumn = Annotated[
    str | None, typer.Option("--from", help="The column of old labels in the plan's table.")
]
ToColumn = Annotated[
    str | None, typer.Option("--to", help="The column of new labels in the plan's table.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]


def class_names(text: str | None) -> list[str] | None:
    """Read the labels that `--classes` gives."""
    if text is None or not text.startswith("@"):
        return text.split(",") if text else None
    return class_file.read(text[1:])
