"""Read plans from tables of pairs, such as the official concordances of two classifications."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlabel.labels import SHORT, listing
from unlabel.errors import UnlabelError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
FROM, TO, WEIGHT = "from", "to", "weight"
# The destinations of a label, with their weights; an empty text retires the label.
Destinations = dict[str, float | None]


def read_pairs(
    text: str, path: Path, from_column: str | None, to_column: str | None
) -> dict[str, Any]:
    """Read a table of pairs into the arguments of `LabelPlan.of_pairs`."""
    delimiter = DELIMITERS[path.suffix.lower()]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    changes: dict[str, Destinations] = {}
    try:
        header = next(rows, None)
        if not header:
            raise UnlabelError("It has no header: write from and to above two columns of labels.")
        columns = _columns(header, from_column, to_column)
        for row in rows:
            if row:
                _add(changes, row, columns, len(header), f"Line {rows.line_num}")
    except csv.Error as error:
        raise UnlabelError(f"Line {rows.line_num} cannot be read: {error}.") from error
    if not changes:
        raise UnlabelError("It has a header and no changes below it: write one per line.")
    arguments: dict[str, Any] = {"pairs": [*map(_pair, changes.items())]}
    if FROM not in header and from_column is None:
        sentence = (
            f"{path}: Its first line, {listing(header)}, would be its header, but starts with a "
            f"label of the model: write {FROM}{delimiter}{TO} above it."
        )
        arguments["header"] = (header[0], sentence)
    return arguments


def _columns(
    header: Sequence[str], from_column: str | None, to_column: str | None
) -> tuple[int, int, int | None]:
    """Find the columns of labels, destinations and weights."""
    has_names = from_column is not None or to_column is not None or {FROM, TO} <= {*header}
    if not has_names and len(header) == 2 and not {FROM, TO, WEIGHT} & {*header}:
        return 0, 1, None
    names = (FROM if from_column is None else from_column, TO if to_column is None else to_column)
    if names[0] == names[1]:
        raise UnlabelError(f"Old and new labels would both be in column {names[0]!r}: name two.")
    for name in (*names, WEIGHT):
        if header.count(name) > 1:
            raise UnlabelError(f"It has several columns {name!r}: rename all but one.")
        if name in names and name not in header:
            raise UnlabelError(
                f"It has no column {name!r} among {listing(header)}: name the columns of old and "
                "new labels from and to, or give their names (--from, --to)."
            )
    has_weights = WEIGHT in header and WEIGHT not in names
    weight = header.index(WEIGHT) if has_weights else None
    return header.index(names[0]), header.index(names[1]), weight


def _add(
    changes: dict[str, Destinations],
    row: Sequence[str],
    columns: tuple[int, int, int | None],
    cells: int,
    line: str,
) -> None:
    """Add a row to the changes."""
    if len(row) != cells:
        raise UnlabelError(
            f"{line} does not have as many cells as the header ({len(row)}, not {cells}): correct "
            "it, with quotes around labels that hold separators."
        )
    label, to = row[columns[0]], row[columns[1]]
    weight = None if columns[2] is None else _weight(row[columns[2]], line)
    name = SHORT.repr(label)
    if not label:
        raise UnlabelError(f"{line} has no label to change: write one, or drop the line.")
    if not to and weight is not None:
        raise UnlabelError(f"{line} gives a weight and no destination for {name}: write one.")
    destinations = changes.setdefault(label, {})
    if to in destinations:
        raise UnlabelError(f"{line} repeats the pair {name}, {SHORT.repr(to)}: give it once.")
    destinations[to] = weight
    if len(destinations) > 1:
        if "" in destinations:
            raise UnlabelError(f"{line} both retires {name} and sends it elsewhere: drop one.")
        if (weight is None) != (next(iter(destinations.values())) is None):
            raise UnlabelError(f"{line}: Some weights of {name} are missing: give all or none.")


def _weight(text: str, line: str) -> float | None:
    if not text.strip():
        return None
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not math.isfinite(weight):
        raise UnlabelError(
            f"{line} has the weight {SHORT.repr(text)}: write a number such as 0.5, or none."
        )
    return weight


def _pair(change: tuple[str, Destinations]) -> tuple[str, Any]:
    label, destinations = change
    if "" in destinations:
        return label, None
    if None in destinations.values():
        return label, [*destinations]
    return label, [*destinations.items()]
