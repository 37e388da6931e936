"""Fields of JSON lines, found by paths and opened only as far down as they are asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Raw

from unlabel._tables.json_lines.faults import FAULTS, fault, may_repeat, repeated_name
from unlabel.errors import UnlabelError

Path = tuple[str | int, ...]  # names of fields, and indices of lists
Scalar = str | int | float | bool | None
NULL = Raw(b"null")
LARGEST_INTEGER = 1 << 63
WHOLE = re.compile(r"-?[0-9]{1,18}")


class Decoder:
    """A decoder of values of one kind: of all rows together, which is fast, or one by one."""

    def __init__(self, kind: Any) -> None:
        self._many: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[kind])
        self._one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)

    def rows(self, values: Sequence[Raw], field: str = "", text: bytes | None = None) -> list[Any]:
        """Decode the value of each row; an error names the row, and the field.

        The text of all of them `together` can be given, if it is at hand.
        """
        try:
            decoded: list[Any] = self._many.decode(together(values) if text is None else text)
            return decoded
        except FAULTS:
            return [self._row(row, value, field) for row, value in enumerate(values)]

    def _row(self, row: int, value: Raw, field: str) -> Any:
        try:
            return self._one.decode(value)
        except FAULTS as error:
            raise UnlabelError(fault(error, value, field), row=row) from error


ANY = Decoder(dict[str, Raw] | list[Raw] | Scalar)
SCALARS = Decoder(Scalar)


def together(values: Iterable[Raw]) -> bytes:
    """Write values as one JSON list."""
    return b"[" + b",".join(values) + b"]"


def named(path: Path) -> str:
    """Write a path as it is given on the command line."""
    return ".".join(map(str, path))


def find_path(value: Any, name: str) -> Path | None:
    """Find the path that a text such as ``choices.0.scores`` describes in a decoded value.

    Names with dots in them come first.

    Examples
    --------
    >>> find_path({"a": [{"b.c": 1}]}, "a.0.b.c")
    ('a', 0, 'b.c')
    """
    if isinstance(value, dict):
        ends = [at for at, letter in enumerate(name) if letter == "."]
        for end in (len(name), *reversed(ends)):
            if (step := name[:end]) in value:
                rest = _rest(value[step], name[end + 1 :], is_end=end == len(name))
                if rest is not None:
                    return step, *rest
    elif isinstance(value, list):
        step, dot, further = name.partition(".")
        if step.isascii() and step.isdigit() and int(step) < len(value):
            rest = _rest(value[int(step)], further, is_end=not dot)
            if rest is not None:
                return int(step), *rest
    return None


def _rest(value: Any, name: str, *, is_end: bool) -> Path | None:
    return () if is_end else find_path(value, name)


def value_at(value: Any, path: Path) -> Any:
    """Follow a path in a decoded value."""
    for step in path:
        value = value[step]
    return value


class Fields:
    """The values of some lines: objects of undecoded fields, or undecoded themselves.

    Objects and lists on the way to a field are opened in their places, so that lines are
    written as they came but for the fields that were put in.
    """

    def __init__(self, lines: list[Any]) -> None:
        self.lines = lines
        self._opened: dict[Path, list[Any]] = {}

    def values(self, path: Path) -> list[Any]:
        """Return the undecoded value at a path in each line, None where there is none."""
        if not path:
            return self.lines
        step = path[-1]
        if len(path) == 1 and isinstance(step, str):  # the usual case, and by far the fastest
            try:
                return [line[step] for line in self.lines]
            except (KeyError, TypeError):
                pass
        return [_item(container, step) for container in self.containers(path[:-1])]

    def required(self, path: Path) -> list[Raw]:
        """Return the undecoded value at a path in each line, and refuse lines that have none."""
        values = self.values(path)
        if None in values:
            raise UnlabelError(
                f"It has no field {named(path)!r}: give every line one.", row=values.index(None)
            )
        return values

    def containers(self, path: Path) -> list[Any]:
        """Open the object or list at a path in each line; anything else is left as it is."""
        if not path and self.lines and isinstance(self.lines[0], dict):
            return self.lines
        if path not in self._opened:
            values = [NULL if value is None else value for value in self.values(path)]
            opened = ANY.rows(values, named(path))
            refuse_repeated_names(values, opened, path)
            self._opened[path] = opened
            self._replace(path, opened)
        return self._opened[path]

    def _replace(self, path: Path, opened: list[Any]) -> None:
        parents = self.containers(path[:-1]) if path else [self.lines] * len(opened)
        for row, (parent, value) in enumerate(zip(parents, opened, strict=True)):
            if isinstance(value, dict | list):
                parent[path[-1] if path else row] = value

    def put(self, path: Path, values: Iterable[Any]) -> None:
        """Put a value in the place of each line's."""
        if not path:
            self.lines = [*values]
            return
        step: Any = path[-1]
        for container, value in zip(self.containers(path[:-1]), values, strict=True):
            container[step] = value

    def add(self, path: Path, values: Iterable[Any]) -> None:
        """Put a value where no line may have one already."""
        for row, value in enumerate(self.values(path)):
            if value is not None:
                raise UnlabelError(
                    f"It has a field {named(path)!r} already: rename it first.", row=row
                )
        self.put(path, values)

    def update(self, path: Path, texts: Sequence[str | None], old: Sequence[str | None]) -> None:
        """Put texts in the place of those that differ, without quotes where there were none."""
        step: Any = path[-1]
        rows = zip(self.containers(path[:-1]), texts, old, strict=True)
        for container, text, before in rows:
            if text != before:
                is_quoted = bytes(container[step]).startswith(b'"')
                container[step] = text if is_quoted or text is None else unquoted(text)

    def cells(self, path: Path, *, as_texts: bool = False) -> pa.Array:
        """Decode the texts, numbers or truth values at a path; those of several kinds as texts."""
        values = [NULL if value is None else value for value in self.values(path)]
        for row, value in enumerate(values):
            if isinstance(value, dict | list):  # it was opened
                raise UnlabelError(
                    f"It has no single value in {named(path)!r}: choose another one.", row=row
                )
        cells = SCALARS.rows(values, named(path))
        kinds = {*map(type, cells)} - {type(None)}
        if kinds == {int, float} and not as_texts:
            return pa.array([None if cell is None else float(cell) for cell in cells])
        if len(kinds) == 1 and (kinds != {int} or _fit_integers(cells)) and not as_texts:
            return pa.array(cells)
        pairs = zip(cells, values, strict=True)
        texts = [
            cell if isinstance(cell, str | None) else _text_of(cell, bytes(raw))
            for cell, raw in pairs
        ]
        return pa.array(texts, pa.string())


def _text_of(cell: Scalar, raw: bytes) -> str:
    """Write a number or a truth value as it came, but floats as Python does: 0.50 is 0.5."""
    return str(cell) if isinstance(cell, float) else raw.decode()


def unquoted(text: str) -> Scalar:
    """Turn the text of a label into the number or truth value that it is the text of, if any."""
    if WHOLE.fullmatch(text):
        return int(text)
    if text in ("True", "False"):
        return text == "True"
    with suppress(ValueError):
        number = float(text)
        if str(number) == text and math.isfinite(number):
            return number
    return text


def _fit_integers(cells: list[int | None]) -> bool:
    return all(-LARGEST_INTEGER <= cell < LARGEST_INTEGER for cell in cells if cell is not None)


def refuse_repeated_names(values: Sequence[Raw], objects: Sequence[Any], path: Path) -> None:
    """Refuse a name that stands twice in an object, whose values are undecoded."""
    pairs = [pair for pair in zip(values, objects, strict=True) if isinstance(pair[1], dict)]
    if pairs and may_repeat(b",".join(text for text, _ in pairs), [each for _, each in pairs]):
        refuse_repeats(values, path)


def refuse_repeats(values: Sequence[Raw], path: Path) -> None:
    """Refuse a name that stands twice in an object, or in an object of a list."""
    for row, value in enumerate(values):
        if (name := repeated_name(value)) is not None:
            where = f" in {named(path)!r}" if path else ""
            raise UnlabelError(f"It has the name {name!r} twice{where}: drop one of them.", row=row)


def _item(container: Any, step: Any) -> Any:
    """Return an item of an object or a list, None if it has none."""
    if isinstance(container, dict):
        return container.get(step)
    if isinstance(container, list) and isinstance(step, int) and step < len(container):
        return container[step]
    return None
