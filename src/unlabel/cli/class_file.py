"""Read the labels of a model from a text file or from JSON."""

from __future__ import annotations

import os
from typing import Any

from unlabel._files.text_file import parse_json, read_text
from unlabel.errors import UnlabelError, located
from unlabel.labels import as_classes


def read(path: str | os.PathLike[str]) -> list[str]:
    """Return labels in the order of a model's outputs, as text.

    A .json file holds a list, an `id2label` object, or a Hugging Face configuration with one;
    any other file one label per line.
    """
    text, ending = read_text(path)
    with located(path):
        if ending == ".json":
            return [*map(str, as_classes(_listed(text)))]
        lines = text.replace("\r\n", "\n").removesuffix("\n")
        if not lines:
            raise UnlabelError("It has no labels in it: write one on each line.")
        labels = lines.split("\n")
        if "" in labels:
            row = f"line {labels.index('') + 1}"
            raise UnlabelError("It is empty: write one label on each line.", row=row)
        return labels


def _listed(text: str) -> Any:
    content = parse_json(text)
    if isinstance(content, dict):
        content = content.get("id2label", content)
    if not isinstance(content, list | dict) or not content:
        raise UnlabelError("It has no labels in it: write a list of them, or an id2label object.")
    return content
