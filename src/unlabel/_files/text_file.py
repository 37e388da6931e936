"""Read small files of text: JSON, TOML, and tables with named columns."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from unlabel._files.atomic import cannot_read, require_file
from unlabel.errors import UnlabelError
from unlabel.labels import listing

MAX_BYTES = 64 << 20
TABLES = (".csv", ".tsv")
# tomllib takes time by the square of the number of a key's parts: refuse lines with many dots.
MAX_DOTS = 200
QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*+"' r"|'[^'\n]*+'")
COMMENTS = re.compile(r"(?:(?:#[^\n]*|\r?)\n)*")


def read_text(path: str | os.PathLike[str], endings: Sequence[str] = ()) -> tuple[str, str]:
    """Return the text of a file and its ending; spreadsheets put a byte order mark first."""
    path = require_file(path)
    ending = path.suffix.lower()
    if endings and ending not in endings:
        problem = f"Its name does not end in {' or '.join(endings)}: give a file that does."
        raise UnlabelError(problem, path=path)
    try:
        if path.stat().st_size > MAX_BYTES:
            problem = f"It is larger than {MAX_BYTES >> 20} MiB: give a smaller file."
            raise UnlabelError(problem, path=path)
        return path.read_bytes().decode("utf-8-sig"), ending
    except OSError as error:
        raise cannot_read(path, error) from error
    except UnicodeDecodeError as error:
        problem = "It is not text in UTF-8: save it in that encoding."
        raise UnlabelError(problem, path=path) from error


def parse_json(text: str) -> Any:
    """Return the content of JSON; of repeated keys, the last counts."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise UnlabelError("It is nested too deeply.") from error
    except ValueError as error:
        raise UnlabelError(f"It is not JSON: {error}.") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of TOML."""
    for number, line in enumerate(QUOTED.sub("", text).split("\n"), 1):
        if line.count(".") > MAX_DOTS:
            problem = "It has too many dots: write labels with dots in quotes."
            raise UnlabelError(problem, row=f"line {number}")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UnlabelError("It is nested too deeply.") from error
    except ValueError as error:
        message = str(error).replace("Cannot overwrite a value", "A label or key appears twice")
        raise UnlabelError(f"It is not TOML: {message}.") from error


def quoted(value: object) -> str:
    """Return a text as TOML writes it: as in JSON, but for the character DEL."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def table_rows(
    text: str, columns: Sequence[Sequence[str]], optional: Sequence[str] = ()
) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the cells of each line of a table, those of the named columns.

    Each column goes by the first of its names that the header has; the cells of `optional` columns
    that it lacks are empty. Cells are separated by what the header has most of: tabs, commas or
    semicolons. Empty lines are left out, and lines with # before the header.
    """
    start = len(COMMENTS.match(text)[0])  # type: ignore[index]
    head, above = text[start:].partition("\n")[0], text.count("\n", 0, start)
    content = io.StringIO(text[start:], newline="")
    rows = csv.reader(content, delimiter=max("\t,;", key=head.count), strict=True)
    try:
        header = next(rows, [])
        at = [_column(header, names) for names in columns]
        at += [header.index(name) if name in header else len(header) for name in optional]
        for row in rows:
            place = f"line {above + rows.line_num}"
            if row and len(row) != len(header):
                raise UnlabelError(
                    f"It has {len(row)} cells and the header {len(header)}: correct it, with "
                    "quotes around labels that hold separators.",
                    row=place,
                )
            if row:
                row.append("")
                yield place, [row[column] for column in at]
    except csv.Error as error:
        place = f"line {above + rows.line_num}"
        raise UnlabelError(f"It cannot be read: {error}.", row=place) from error


def _column(header: Sequence[str], names: Sequence[str]) -> int:
    for name in names:
        if header.count(name) == 1:
            return header.index(name)
        if name in header:
            raise UnlabelError(f"It has several columns {name!r}: rename all but one.")
    known = " or ".join(map(repr, names))
    among = listing(header) or "nothing"
    raise UnlabelError(f"It has no column {known} among {among}: rename it, or give its name.")
