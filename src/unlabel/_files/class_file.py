"""Read the labels of a model from a text file or from JSON."""

from __future__ import annotations

import os
from typing import Any

from unlabel._files.atomic import require_file
from unlabel._files.plan_file import naming, read_json, read_text
from unlabel.labels import SHORT, as_classes
from unlabel.errors import UnlabelError


def read(path: str | os.PathLike[str]) -> list[str]:
    """Read labels in the order of a model's outputs.

    A .json file holds a list, an `id2label` object, or a Hugging Face configuration with one;
    any other file one label per line.
    """
    path = require_file(path)
    text = read_text(path)
    with naming(path):
        if path.suffix.lower() == ".json":
            return [*map(_label, as_classes(_listed(text)))]
        lines = text.replace("\r\n", "\n").removesuffix("\n")
        if not lines:
            raise UnlabelError("It has no labels in it: write one on each line.")
        labels = lines.split("\n")
        if "" in labels:
            raise UnlabelError(
                f"Line {labels.index('') + 1} is empty: write one label on each line."
            )
        return labels


def _listed(text: str) -> Any:
    content = read_json(text, "write a list of labels")
    if isinstance(content, dict):
        content = content.get("id2label", content)
    if not isinstance(content, list | dict) or not content:
        raise UnlabelError("It has no labels in it: write a list of them, or an id2label object.")
    return content


def _label(value: object) -> str:
    if isinstance(value, str) or type(value) is int:
        return str(value)
    raise UnlabelError(f"The label {SHORT.repr(value)} is not a text: write it in quotes.")
