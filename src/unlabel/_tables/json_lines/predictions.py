"""Predictions in JSON lines, as pipelines and the APIs of language models give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unlabel._files.atomic import refuse_existing
from unlabel._tables.columns.layout import nearest_column
from unlabel._tables.entries import UNKNOWN, refuse_other_labels
from unlabel._tables.files.formats import errors_naming, rows_at_once
from unlabel._tables.files.streams import STANDARD, shown, write_bytes
from unlabel._tables.json_lines.fields import Fields, find_path, named
from unlabel._tables.json_lines.fields import Path as FieldPath
from unlabel._tables.json_lines.lines import OBJECTS, VALUES, JsonLines, plain_value
from unlabel._tables.json_lines.objects import ScoreObject
from unlabel._tables.json_lines.output import JsonOutput, check_ending
from unlabel._tables.json_lines.scores import LISTS_OF_LOGS, LOGS, Form, Named
from unlabel._tables.labels import positions_by_text
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import Rewriting, Rewritten
from unlabel._typing import Booleans, Columns, Float64s, Floats, Label, Progress
from unlabel.errors import UnlabelError

TOKENS = ("token", "tokens")


@dataclass(eq=False)
class JsonPart:
    """Some lines of a file."""

    fields: Fields
    numbers: Sequence[int]
    predictions: JsonPredictions

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        return f"line {self.numbers[row]}"

    @cached_property
    def _named(self) -> Named:
        return self.predictions.form.read(self.fields, self.predictions.positions)

    def confidences(self) -> Floats:
        """Read the confidences, with one column per label, NaN where a label is not named."""
        own, (entries, labels) = self.predictions, self._named
        if own.reading.other_labels == "removed":
            entries = entries.only(entries.labels != UNKNOWN)
        else:
            refuse_other_labels(entries, labels, own.classes)
        if own.strips:
            entries = entries.added_up(are_logs=own.logs)
        return entries.rows(own.classes, partial=own.reading.partial)

    def elsewhere(self) -> Float64s | None:
        """Return the mass that each row names for labels that the model lacks, if any may."""
        own, entries = self.predictions, self._named.entries
        if own.reading.other_labels != "removed":
            return None
        others = entries.only(entries.labels == UNKNOWN)
        mass = np.exp(others.scores) if own.logs else others.scores
        return np.bincount(others.of_row, mass, minlength=len(self)).astype(np.float64)

    def descending(self) -> Booleans:
        """Return which lines name no label before one with a larger score, where a form sorts."""
        if not self.predictions.form.sorts:
            return np.zeros(len(self), dtype=np.bool_)
        return self._named.entries.descending()

    def cells(self, name: str) -> pa.Array:
        """Return the values of a field beside the confidences."""
        own = self.predictions
        return self.fields.cells(own.path_of(name), as_texts=name == own.updated)

    def others(self) -> dict[str, pa.Array]:
        """Return the fields beside the confidences that have a single value in the first line."""
        own = self.predictions
        first = own.first if isinstance(own.first, dict) else {}
        found = {}
        for name, value in first.items():
            if not isinstance(value, dict | list) and not own.is_own(name):
                with suppress(UnlabelError):  # of lines with something else in it
                    found[name] = self.fields.cells((name,))
        return found


@dataclass(eq=False)
class JsonPredictions:
    """A file of JSON lines with scores."""

    lines: JsonLines
    reading: Reading
    form: Form
    classes: tuple[Label, ...]
    first: Any  # the first line, decoded
    guess: str = ""
    doubtful: str = ""
    names_numbers: bool = False  # or by truth values: whether no label is named by a text
    updated: str | None = None  # the field of labels that is: read as texts, whatever it holds
    _found: dict[str, FieldPath | None] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file."""
        return shown(self.lines.path)

    @property
    def layout(self) -> str:
        """Where the confidences are, in words."""
        place = f", at {named(self.form.path)}" if self.form.path else ""
        return f"JSON lines with {self.form.words}{place}"

    @property
    def _names(self) -> tuple[str, str]:
        """The names of labels and scores, if the form has any."""
        return getattr(self.form, "label", ""), getattr(self.form, "score", "")

    @property
    def logs(self) -> bool:
        """Whether the confidences are logarithms of probabilities."""
        return self.reading.logs or self._names[1] in (*LOGS, *LISTS_OF_LOGS)

    @cached_property
    def strips(self) -> bool:
        """Whether labels are named by tokens, of which several may mean the same label.

        Tokens of language models start with a space where a word does.
        """
        by_token = isinstance(self.form, ScoreObject) and self.logs
        return by_token or self._names[0] in TOKENS

    @cached_property
    def _position_of(self) -> dict[str, int]:
        texts = map(str, self.classes)
        return positions_by_text([*map(str.strip, texts)] if self.strips else [*texts])

    def positions(self, labels: Sequence[Label]) -> Columns:
        """Find the positions of labels among the model's."""
        texts = labels if {*map(type, labels)} == {str} else [*map(str, labels)]
        if self.strips:
            texts = [*map(str.strip, texts)]  # type: ignore[arg-type]
        found = map(self._position_of.get, texts, repeat(UNKNOWN))  # type: ignore[arg-type]
        return np.fromiter(found, np.intp, len(labels))

    def parts(self, progress: Progress) -> Iterator[JsonPart]:
        """Yield the blocks of the file, or parts of them if there are very many labels."""
        most = rows_at_once(len(self.classes))
        decoder = OBJECTS if isinstance(self.first, dict) else VALUES
        for block in self.lines.blocks():
            with errors_naming(self.path):
                values, numbers = block.values(decoder)
            for start in range(0, len(values), most):
                end = start + most
                yield JsonPart(Fields(values[start:end]), numbers[start:end], self)
            progress(block.done)

    def _find(self, name: str) -> FieldPath | None:
        """Find a field in the first line that has it, among the first of the file."""
        if name not in self._found:
            values = (plain_value(line) for _, line in self.lines.head.lines())
            paths = (find_path(value, name) for value in values)
            self._found[name] = next((path for path in paths if path is not None), None)
        return self._found[name]

    def has(self, name: str) -> bool:
        """Whether there is a field of a name beside the confidences."""
        return self._find(name) is not None and not self.is_own(name)

    def path_of(self, name: str) -> FieldPath:
        """Find a field by its name, or by a path such as ``meta.label``."""
        return self._find(name) or (name,)

    def is_own(self, name: str) -> bool:
        """Whether a field has the labels or scores of the predictions."""
        path = self.path_of(name)
        return any(path[: len(own)] == own for own in self.form.own)

    def require(self, name: str, argument: str | None = None) -> None:
        """Refuse a file without a field of a name, but for one without lines."""
        if self._find(name) is None and not self.lines.is_empty:
            hint = ", and its lines are lists"
            if isinstance(self.first, dict):
                hint = nearest_column([*self.first], name)
            raise UnlabelError(
                f"It has no field {name!r}{hint}.", argument=argument, path=self.path
            )

    def require_truth(self, name: str) -> None:
        """Refuse a file without a field of true labels of that name."""
        self.require(name, "label_column")
        if self.is_own(name):
            raise UnlabelError(
                f"It has labels or scores of the model in field {name!r}, which cannot "
                "hold the true labels too: choose another one.",
                path=self.path,
                argument="label_column",
            )

    @contextmanager
    def writing(
        self, out: Path, rewriting: Rewriting, *, overwrite: bool
    ) -> Iterator[Callable[[Any, Rewritten], int]]:
        """Open a file of JSON lines for the results."""
        check_ending(out)
        output = JsonOutput(self, rewriting)
        if out != STANDARD:
            refuse_existing(out, force=overwrite)
        with write_bytes(out) as file:

            def write_part(part: JsonPart, rewritten: Rewritten) -> int:
                with errors_naming(self.path, place=part.place):
                    text, count = output.lines(part, rewritten)
                file.write(text)
                if out == STANDARD:  # who reads a pipe gets answers as they are made
                    file.flush()
                return count

            yield write_part
