"""Draft plans from tables of pairs, such as the official concordances of two classifications."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

from unlabel._files.plan_file import as_toml
from unlabel._files.text_file import TABLES, quoted, read_text, table_rows
from unlabel._typing import Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import SHORT, listing
from unlabel.plan import LabelPlan

OLD, NEW = ("from", "subject_label", "subject_id"), ("to", "object_label", "object_id")
REMARK = "# The table gives these labels no destination. Uncomment those that are to be removed."


class Draft(NamedTuple):
    """A plan to read through before it is used."""

    plan: LabelPlan
    without_destination: tuple[Label, ...]  # labels that the plan leaves as they are

    def to_toml(self) -> str:
        """Return the plan's file, with the labels that it might remove as comments."""
        lines = [f"# {quoted(label)} = false\n" for label in self.without_destination]
        return "".join([as_toml(self.plan), *([f"{REMARK}\n"] if lines else []), *lines])


def draft_pairs(
    path: str | os.PathLike[str], from_column: str | None = None, to_column: str | None = None
) -> Draft:
    """Draft a plan from a .csv or .tsv file with a pair of an old and a new label per line.

    The columns are ``from`` and ``to``, or those of SSSOM, unless they are named; the cells of a
    column ``weight`` are the weights of splits. An empty cell of a spreadsheet must not delete a
    label: labels without a destination are listed, and stay what they are until the plan removes
    them.
    """
    text, _ = read_text(path, TABLES)
    names = (
        OLD if from_column is None else [from_column],
        NEW if to_column is None else [to_column],
    )
    pairs: dict[str, dict[str, float | None]] = {}
    with located(path):
        for line, (label, to, weight) in table_rows(text, names, ["weight"]):
            with located(row=line):
                destinations = pairs.setdefault(label, {})
                if to in destinations:
                    problem = f"It repeats the pair {SHORT.repr(label)}, {SHORT.repr(to)}."
                    raise UnlabelError(problem)
                destinations[to] = _weight(weight)
        _refuse_undecided(pairs)
        empty = tuple(label for label, to in pairs.items() if "" in to)
        changes: dict[str, Any] = {
            label: next(iter(to)) if None in to.values() else to
            for label, to in pairs.items()
            if label not in empty
        }
        return Draft(LabelPlan(changes), empty)


def _weight(cell: str) -> float | None:
    try:
        weight = float(cell) if cell.strip() else None
    except ValueError:
        weight = math.nan
    if weight is not None and not math.isfinite(weight):
        raise UnlabelError(f"It has the weight {SHORT.repr(cell)}: write a number, or nothing.")
    return weight


def _refuse_undecided(pairs: dict[str, dict[str, float | None]]) -> None:
    """Raise an error that lists the pairs that need a decision before they can be a plan."""
    if not pairs:
        raise UnlabelError("It has no pairs: write an old and a new label on each line.")
    several = {label: to for label, to in pairs.items() if label and len(to) > 1}
    undecided = {
        "new labels without an old one": [*pairs.get("", ())],
        "labels with and without a destination": [old for old, to in several.items() if "" in to],
        "labels with several destinations and no weights": [
            old for old, to in several.items() if "" not in to and None in to.values()
        ],
    }
    found = [f"{what}, {listing(labels, 20)}" for what, labels in undecided.items() if labels]
    if found:
        raise UnlabelError(f"Some pairs need a decision first: {'; '.join(found)}.")
