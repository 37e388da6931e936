"""The forms that scores have in JSON lines, read and written in place.

Label names and score names are looked for among the constants below. In a list of entries,
each entry is written with its label and its score alone; whatever else stood in it, such as
the ``bytes`` of a language model's token, described the old entry and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec import Raw

from unlabel._tables.entries import Entries
from unlabel._tables.json_lines.faults import colons, may_repeat
from unlabel._tables.json_lines.fields import (
    Decoder,
    Fields,
    Path,
    named,
    refuse_repeats,
    together,
    value_at,
)
from unlabel._typing import Columns, Label
from unlabel.errors import UnlabelError

# The names of labels and of scores, one by one and in lists.
LABELS, LISTS_OF_LABELS = ("label", "token", "class"), ("labels", "tokens", "classes")
SCORES = ("score", "probability", "confidence")
LISTS_OF_SCORES = ("scores", "probabilities", "confidences")
LOGS, LISTS_OF_LOGS = ("logprob", "logProbability"), ("logprobs", "token_logprobs")
JsonLabel = str | int | float | bool
FLOATS = Decoder(float)
LISTS = Decoder(list[float])
NAMES = Decoder(list[JsonLabel])
NAME = Decoder(JsonLabel)
UNDECODED = Decoder(list[dict[str, Raw]])

Positions = Callable[[Sequence[Label]], Columns]  # of labels among the model's, -1 for others


class Named(NamedTuple):
    """The entries of some lines, and their labels as they are named there."""

    entries: Entries
    labels: Sequence[Label]

    @classmethod
    def of(
        cls,
        lengths: Sequence[int],
        labels: Sequence[Label],
        scores: Sequence[float],
        positions: Positions,
    ) -> Named:
        """Look up the labels of lines with so many entries each."""
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.intp)])
        return cls(Entries(starts, positions(labels), np.array(scores, dtype=np.float64)), labels)


class Answer(NamedTuple):
    """New entries of some lines: labels as they are to be named, and scores."""

    starts: list[int]
    labels: list[Label]
    scores: list[float]
    places: dict[str, list[str]]  # the result's labels by the model's label whose place they take

    def per_line(self, values: list[Any]) -> list[Sequence[Any]]:
        """Divide values of entries among the lines."""
        count = self.starts[1]
        if count and self.starts == [*range(0, len(values) + 1, count)]:  # as whole rows have
            return [*zip(*[iter(values)] * count, strict=True)]
        return [values[start:end] for start, end in pairwise(self.starts)]


class Form(Protocol):
    """A form of scores at a path."""

    words: ClassVar[str]  # for people
    sorts: ClassVar[bool]  # whether labels may stand in descending order of their scores

    @property
    def path(self) -> Path:
        """The place of the scores."""

    @property
    def own(self) -> set[Path]:
        """The places of the labels and the scores."""

    def labels_in(self, line: Any) -> list[Label]:
        """Return the labels that a decoded line names."""

    def read(self, fields: Fields, positions: Positions) -> Named:
        """Read the scores of all lines."""

    def write(self, fields: Fields, answer: Answer) -> None:
        """Put new scores in their place."""


@dataclass(frozen=True)
class EntryList:
    """A list of objects, each with a label and its score, as text-classification gives it."""

    words: ClassVar[str] = "lists of labels with scores"
    sorts: ClassVar[bool] = True
    path: Path
    label: str
    score: str
    order: tuple[str, ...]  # of the names in an entry

    @property
    def own(self) -> set[Path]:
        """The places of the labels and the scores."""
        return {self.path}

    def labels_in(self, line: Any) -> list[Label]:
        """Return the labels that a decoded line names."""
        return [entry[self.label] for entry in value_at(line, self.path)]

    @cached_property
    def _entry(self) -> type[msgspec.Struct]:
        # Its attributes are not named like the fields, which may be words of Python. Entries are
        # not parts of cycles, so gc need not look at them.
        kinds: dict[str, tuple[str, Any]] = {
            self.label: ("label", JsonLabel),
            self.score: ("score", float),
        }
        return msgspec.defstruct(
            "Entry",
            [kinds[name] for name in self.order],
            rename={kinds[name][0]: name for name in self.order},
            gc=False,
        )

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(list[self._entry])  # type: ignore[name-defined]

    def read(self, fields: Fields, positions: Positions) -> Named:
        """Read the scores of all lines."""
        values = fields.required(self.path)
        text = together(values)
        rows = self._decoder.rows(values, named(self.path), text)
        entries = [*chain.from_iterable(rows)]
        labels = [entry.label for entry in entries]
        if colons(text) != 2 * len(entries):  # with others in them, or colons in labels
            objects = [*chain.from_iterable(UNDECODED.rows(values))]
            if may_repeat(text, objects):
                refuse_repeats(values, self.path)
        scores = [entry.score for entry in entries]
        return Named.of([*map(len, rows)], labels, scores, positions)

    def write(self, fields: Fields, answer: Answer) -> None:
        """Put new scores in their place."""
        parts: dict[str, list[Any]] = {self.label: answer.labels, self.score: answer.scores}
        columns = [parts[name] for name in self.order]
        fields.put(self.path, answer.per_line([*map(self._entry, *columns)]))


@dataclass(frozen=True)
class TwoFields:
    """Labels and scores in two fields of an object."""

    sorts: ClassVar[bool] = True
    place: Path  # of the object
    label: str
    score: str

    @property
    def path(self) -> Path:
        """The place of the scores."""
        return *self.place, self.score

    @property
    def own(self) -> set[Path]:
        """The places of the labels and the scores."""
        return {(*self.place, self.label), self.path}


@dataclass(frozen=True)
class Pair(TwoFields):
    """A label and its score in two fields of an object: a top answer alone."""

    words: ClassVar[str] = "a label and its score"

    def labels_in(self, line: Any) -> list[Label]:
        """Return the labels that a decoded line names."""
        return [value_at(line, (*self.place, self.label))]

    def read(self, fields: Fields, positions: Positions) -> Named:
        """Read the scores of all lines."""
        scores = FLOATS.rows(fields.required(self.path), named(self.path))
        at = (*self.place, self.label)
        labels = NAME.rows(fields.required(at), named(at))
        return Named.of([1] * len(scores), labels, scores, positions)

    def write(self, fields: Fields, answer: Answer) -> None:
        """Put the top label and its score in their place, null if there is none."""
        rows = [
            max(range(start, end), key=answer.scores.__getitem__, default=None)
            for start, end in pairwise(answer.starts)
        ]

        def picked(values: list[Any]) -> Iterator[Any]:
            return (None if at is None else values[at] for at in rows)

        fields.put((*self.place, self.label), picked(answer.labels))
        fields.put(self.path, picked(answer.scores))


@dataclass(frozen=True)
class TwoLists(TwoFields):
    """A list of labels beside a list of their scores, as zero-shot classification gives them."""

    words: ClassVar[str] = "lists of labels and of scores"

    def labels_in(self, line: Any) -> list[Label]:
        """Return the labels that a decoded line names."""
        return list(value_at(line, (*self.place, self.label)))

    def read(self, fields: Fields, positions: Positions) -> Named:
        """Read the scores of all lines."""
        at = (*self.place, self.label)
        scores = LISTS.rows(fields.required(self.path), named(self.path))
        labels = NAMES.rows(fields.required(at), named(at))
        lengths = [*map(len, labels)]
        others = [*map(len, scores)]
        if lengths != others:
            row = next(row for row, count in enumerate(lengths) if count != others[row])
            raise UnlabelError(
                f"It has {lengths[row]} entries in {named(at)!r} and {others[row]} in "
                f"{named(self.path)!r}: give one score per label.",
                row=row,
            )
        return Named.of(
            lengths, [*chain.from_iterable(labels)], [*chain.from_iterable(scores)], positions
        )

    def write(self, fields: Fields, answer: Answer) -> None:
        """Put new scores in their place."""
        fields.put((*self.place, self.label), answer.per_line(answer.labels))
        fields.put(self.path, answer.per_line(answer.scores))
