"""Scores in JSON objects, by the names of labels, and in lists, by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any, ClassVar

import numpy as np
from msgspec import Raw

from unlabel._tables.entries import Entries
from unlabel._tables.json_lines.faults import fault, may_repeat
from unlabel._tables.json_lines.fields import (
    Decoder,
    Fields,
    Path,
    named,
    refuse_repeats,
    together,
    value_at,
)
from unlabel._tables.json_lines.scores import FLOATS, LISTS, Answer, Named, Positions
from unlabel._typing import Label
from unlabel.errors import UnlabelError

OBJECTS, UNDECODED = Decoder(dict[str, float]), Decoder(dict[str, Raw])


@dataclass(frozen=True)
class ScoreObject:
    """An object with a score per label."""

    words: ClassVar[str] = "objects with a score per label"
    sorts: ClassVar[bool] = True
    path: Path

    @property
    def own(self) -> set[Path]:
        """The places of the scores."""
        return {self.path}

    def labels_in(self, line: Any) -> list[Label]:
        """Return the labels that a decoded line names."""
        return list(value_at(line, self.path))

    def read(self, fields: Fields, positions: Positions) -> Named:
        """Read the scores of all lines."""
        values = fields.required(self.path)
        text = together(values)
        try:
            objects = OBJECTS.rows(values, named(self.path), text)
        except UnlabelError:  # of a score, as a rule: say it of its label
            undecoded = UNDECODED.rows(values, named(self.path), text)
            scores = [*chain.from_iterable(map(dict.values, undecoded))]
            return _named(undecoded, scores, positions, self.path)
        if may_repeat(text, objects, ()):
            refuse_repeats(values, self.path)
        scores = [*chain.from_iterable(map(dict.values, objects))]
        labels = [*chain.from_iterable(objects)]
        return Named.of([*map(len, objects)], labels, scores, positions)

    def write(self, fields: Fields, answer: Answer) -> None:
        """Put new scores in their place."""
        fields.put(self.path, _objects(answer))


@dataclass(frozen=True)
class LabelFields:
    """Scores in the fields of a line that are named after labels, among other fields."""

    words: ClassVar[str] = "a field per label"
    sorts: ClassVar[bool] = False
    path: ClassVar[Path] = ()
    labels: tuple[str, ...]

    @property
    def own(self) -> set[Path]:
        """The places of the scores."""
        return {(label,) for label in self.labels}

    def labels_in(self, line: Any) -> list[Label]:
        """Return the labels that a decoded line names."""
        return [label for label in self.labels if label in line]

    def read(self, fields: Fields, positions: Positions) -> Named:
        """Read the scores of all lines."""
        lines = fields.lines
        found = [[label for label in self.labels if label in line] for line in lines]
        pairs = zip(lines, found, strict=True)
        scores = [line[label] for line, labels in pairs for label in labels]
        return _named(found, scores, positions)

    def write(self, fields: Fields, answer: Answer) -> None:
        """Put each new score where that of the first label that goes there stood."""
        own, places, lines = {*self.labels}, answer.places, []
        for line, scores in zip(fields.lines, _objects(answer), strict=True):
            new = {}
            for name, value in line.items():
                if name not in own:
                    new[name] = value
                    continue
                for label in places.get(name, ()):
                    if label in scores:
                        new[label] = scores[label]
            for name, value in scores.items():  # labels without a place here
                new.setdefault(name, value)
            lines.append(new)
        fields.lines = lines


@dataclass(frozen=True)
class ScoreList:
    """A list with a score per label, in the order of the labels."""

    words: ClassVar[str] = "lists of scores"
    sorts: ClassVar[bool] = False
    path: Path
    count: int  # of the labels

    @property
    def own(self) -> set[Path]:
        """The places of the scores."""
        return {self.path}

    def labels_in(self, line: Any) -> list[Label]:
        """Number the labels, which such lists do not name."""
        return [*range(len(value_at(line, self.path)))]

    def read(self, fields: Fields, positions: Positions) -> Named:
        """Read the scores of all lines."""
        rows = LISTS.rows(fields.required(self.path), named(self.path))
        for row, scores in enumerate(rows):
            if len(scores) != self.count:
                raise UnlabelError(
                    f"It has {len(scores)} scores and there are {self.count} labels: give one "
                    "score per label.",
                    row=row,
                )
        starts = np.arange(len(rows) + 1) * self.count
        labels = np.tile(np.arange(self.count), len(rows))
        scores = np.array(rows, dtype=np.float64).reshape(-1)
        return Named(Entries(starts, labels, scores), ())

    def write(self, fields: Fields, answer: Answer) -> None:
        """Put new scores in their place."""
        fields.put(self.path, answer.per_line(answer.scores))


def _named(
    labels: Sequence[Any], scores: Sequence[Raw], positions: Positions, path: Path = ()
) -> Named:
    """Decode the scores of each line's labels."""
    lengths, names = [*map(len, labels)], [*chain.from_iterable(labels)]
    try:
        values = FLOATS.rows(scores)
    except UnlabelError as error:  # the row is the entry's: say it of the line and the label
        at = int(error.row or 0)
        row = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
        why = fault(error.__cause__, scores[at], named((*path, names[at])))
        raise UnlabelError(why, row=row) from error
    return Named.of(lengths, names, values, positions)


def _objects(answer: Answer) -> list[dict[Any, float]]:
    """Make an object of each line's scores."""
    entries = zip(answer.labels, answer.scores, strict=True)
    return [dict(islice(entries, end - start)) for start, end in pairwise(answer.starts)]
