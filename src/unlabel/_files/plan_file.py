"""Read plans from TOML and JSON, and write them as TOML."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from unlabel._files.atomic import whole_file
from unlabel._files.text_file import parse_json, parse_toml, quoted, read_text
from unlabel._plans.parts import Parts, parts_of
from unlabel.errors import UnlabelError, located
from unlabel.labels import SHORT, plain_label

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

KEYS = ("changes", "unlisted", "title", "note")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a plan's file into the arguments of `LabelPlan`."""
    text, ending = read_text(path, (".toml", ".json"))
    with located(path):
        content = parse_toml(text) if ending == ".toml" else parse_json(text)
        if not isinstance(content, dict) or not isinstance(content.get("changes"), dict):
            raise UnlabelError("It has no table 'changes': list labels and destinations in one.")
        for key in content:
            if key not in KEYS:
                known = ", ".join(KEYS)
                raise UnlabelError(f"The key {SHORT.repr(key)} is not known: use {known}.")
        changes = {label: _destination(label, to) for label, to in content["changes"].items()}
        return content | {"changes": changes}


def _destination(label: str, value: Any) -> Any:
    """Return a destination as Python has it; `LabelPlan` checks the rest."""
    with located(row=f"the destination of {SHORT.repr(label)}"):
        if value == "":  # people may mean that the label is removed
            raise UnlabelError("It is empty: write false to remove the label, or a label.")
        weights = [*value.values()] if isinstance(value, dict) else [1, 1]
        if len(weights) < 2 or not all(isinstance(weight, int | float) for weight in weights):
            problem = "It is a table that is not weights: write labels with dots in quotes."
            raise UnlabelError(problem)
        if isinstance(value, list):
            return [*map(_text, value)]
        return None if value is False else _text(value)


def _text(value: Any) -> Any:
    """Return a whole number as text, as all labels of files are until a plan meets its model."""
    return str(plain_label(value)) if type(value) is int else value


def write(plan: LabelPlan, path: str | os.PathLike[str]) -> None:
    """Write a plan as TOML, in its order."""
    if not os.fspath(path).lower().endswith(".toml"):
        raise UnlabelError("It does not end in .toml: plans are written as TOML.", path=path)
    with whole_file(path) as part:
        part.write_bytes(as_toml(plan).encode())


def as_toml(plan: LabelPlan) -> str:
    """Return the text of a plan's file; what follows it is in its table of changes."""
    texts = {"title": plan.title, "note": plan.note}
    texts |= {} if plan.unlisted == "keep" else {"unlisted": plan.unlisted}
    lines = [f"{name} = {quoted(text)}" for name, text in texts.items() if text]
    lines += ["", "[changes]"] if lines else ["[changes]"]
    lines += [f"{quoted(label)} = {_written(parts)}" for label, parts in parts_of(plan)]
    return "\n".join([*lines, ""])


def _written(parts: Parts) -> str:
    labels = [quoted(to) for to, _ in parts]
    if not labels:
        return "false"
    if any(weight is None for _, weight in parts):
        return f"[{', '.join(labels)}]"
    if len(parts) > 1:
        weights = ", ".join(f"{to} = {w!r}" for to, (_, w) in zip(labels, parts, strict=True))
        return f"{{ {weights} }}"
    # An empty text alone is refused: people may mean that the label is removed.
    return labels[0] if labels[0] != '""' else '[""]'
