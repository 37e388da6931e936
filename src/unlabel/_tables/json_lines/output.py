"""Results in JSON lines: in the place and the form of the model's own scores."""

from __future__ import annotations

from itertools import compress
from pathlib import Path as File
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from unlabel._tables.entries import Entries
from unlabel._tables.files.formats import format_of
from unlabel._tables.files.streams import STANDARD
from unlabel._tables.json_lines.fields import unquoted
from unlabel._tables.json_lines.objects import LabelFields
from unlabel._tables.json_lines.scores import Answer
from unlabel._tables.labels import positions_by_text
from unlabel._tables.rewriting import Rewriting, Rewritten
from unlabel.errors import UnlabelError
from unlabel.labels import listing

if TYPE_CHECKING:
    from unlabel._tables.json_lines.predictions import JsonPart, JsonPredictions


class JsonOutput:
    """How results go into lines."""

    def __init__(self, predictions: JsonPredictions, rewriting: Rewriting) -> None:
        self._predictions, self._form = predictions, predictions.form
        fitted = rewriting.fitted
        texts = [*positions_by_text(fitted.classes_out)]
        self._labels = np.array(texts, dtype=object)
        if predictions.names_numbers:
            self._labels[:] = [*map(unquoted, texts)]
        self._places: dict[str, list[str]] = {}
        for column, text in zip(rewriting.first_sources.tolist(), texts, strict=True):
            self._places.setdefault(str(fitted.classes_in[column]), []).append(text)
        # The names of the fields that scores get, where those stand among the others.
        self._scores = {*texts} if isinstance(self._form, LabelFields) else set[str]()
        self._encoder = msgspec.json.Encoder()
        for name in rewriting.needed:
            predictions.require(name)
        update = predictions.updated = rewriting.options.update_column
        if update is not None and predictions.is_own(update):
            raise UnlabelError(
                f"It has scores in field {update!r}: choose a field of labels.",
                path=predictions.path,
                argument="update_column",
            )

    def lines(self, part: JsonPart, rewritten: Rewritten) -> tuple[bytes, int]:
        """Write a part with its result; give the text and the number of its lines."""
        fields = part.fields
        self._refuse_existing(part, rewritten)
        for name, column in rewritten.updated.items():
            old = part.cells(name).to_pylist()
            fields.update(self._predictions.path_of(name), column.to_pylist(), old)
        self._form.write(fields, self._answer(part, rewritten))
        lines = fields.lines
        for name, column in rewritten.added.items():
            for line, value in zip(lines, column.to_pylist(), strict=True):
                line[name] = value
        if rewritten.kept is not None:
            lines = [*compress(lines, rewritten.kept)]
        return self._encoder.encode_lines(lines), len(lines)

    def _answer(self, part: JsonPart, rewritten: Rewritten) -> Answer:
        rows = rewritten.confidences
        entries = Entries.of(rows, part.descending())
        return Answer(
            entries.starts.tolist(),
            self._labels[entries.labels].tolist(),
            entries.scores.tolist(),
            self._places,
        )

    def _refuse_existing(self, part: JsonPart, rewritten: Rewritten) -> None:
        """Refuse a line that has a field of a new name already, or no fields at all."""
        lines, added, scores = part.fields.lines, {*rewritten.added}, self._scores
        if not added | scores:
            return
        if not isinstance(lines[0], dict):
            raise UnlabelError(
                f"It is a list, which has no place for {listing([*rewritten.added])}: write "
                'objects such as {"scores": [...]}.',
                row=0,
            )
        replaced = {*self._form.labels} if isinstance(self._form, LabelFields) else set[str]()
        others = set[str]().union(*lines) - replaced
        for name in others & (added | scores) or added & scores:
            row = next((row for row, line in enumerate(lines) if name in line), 0)
            raise UnlabelError(f"It has a field {name!r} already: rename it first.", row=row)


def check_ending(out: File) -> None:
    """Refuse an output that is not named as JSON lines."""
    if out != STANDARD and format_of(out) != "jsonl":
        raise UnlabelError(
            "It is not named as JSON lines, which the predictions are: give it the ending "
            ".jsonl or .ndjson.",
            path=out,
        )
