"""Predictions as they come: the interface of every layout, and how a table is to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import pyarrow as pa

from unlabel._typing import Float64s, Floats, Kind, Label, Progress
from unlabel.errors import UnlabelError

if TYPE_CHECKING:
    from unlabel._tables.rewriting import Rewriting, Rewritten

TableKind = Literal["probabilities", "logits", "log-probabilities"]
TABLE_KINDS: tuple[TableKind, ...] = get_args(TableKind)
OtherLabels = Literal["error", "removed"]
Format = Literal["parquet", "feather", "csv", "tsv", "jsonl", "npy", "npz"]


@dataclass(frozen=True)
class Reading:
    """How a table is to be read, beyond what its name and its contents say."""

    format: Format | None = None  # by default what the file's ending says
    list_column: str | None = None
    key: str | None = None  # where a JSON line has its scores, such as "choices.0.scores"
    long: tuple[str, str, str] | None = None  # the columns with ids, labels and scores
    separator: str | None = None  # of a csv file
    normalize: bool = False  # divide each row by its sum first
    logs: bool = False  # whether the confidences are logarithms of probabilities
    partial: bool = False  # whether rows may name only some labels
    other_labels: OtherLabels = "error"  # whether these are refused, or count as removed


def kind_of(kind: TableKind | None) -> Kind | None:
    """Return the kind of a table's rows, as which log-probabilities are probabilities."""
    return "probabilities" if kind == "log-probabilities" else kind


def reading_of(
    kind: TableKind | None, *, long: Sequence[str] | str | None = None, **options: Any
) -> Reading:
    """Turn the options of a command or function into a `Reading`."""
    if long is not None:
        names = long.split(",") if isinstance(long, str) else [*long]
        if len({*names}) != 3 or len(names) != 3 or "" in names:
            raise UnlabelError(
                f"{long!r} does not name three columns: give those of ids, labels and scores.",
                argument="long",
            )
        options["long"] = tuple(names)
    return Reading(logs=kind == "log-probabilities", **options)


class Part(Protocol):
    """Some rows of a table."""

    def __len__(self) -> int: ...

    def confidences(self) -> Floats:
        """Read the confidences, with one column per label, NaN where a label is not named."""

    def cells(self, name: str) -> pa.Array:
        """Return the cells of a column or field beside the confidences."""

    def others(self) -> dict[str, pa.Array]:
        """Return all columns or fields beside the confidences that have one value per row."""

    def elsewhere(self) -> Float64s | None:
        """Return the mass that each row names for other labels than the model's, if it may."""

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""


class Predictions(Protocol):
    """A table of confidences that is read part by part."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels of the confidences."""

    @property
    def layout(self) -> str:
        """Where the confidences are, in words."""

    @property
    def guess(self) -> str:
        """A sentence about labels that were guessed, for messages about rows."""

    @property
    def doubtful(self) -> str:
        """A column that the guess left out and that may belong to a label."""

    @property
    def logs(self) -> bool:
        """Whether the confidences are logarithms of probabilities."""

    def parts(self, progress: Progress) -> Iterator[Part]:
        """Yield the parts that are not empty, from the start."""

    def has(self, name: str) -> bool:
        """Whether there is a column or field of a name beside the confidences."""

    def require_truth(self, name: str) -> None:
        """Refuse a table without a column or field of true labels of that name."""

    def writing(
        self, out: Path, rewriting: Rewriting, *, overwrite: bool
    ) -> AbstractContextManager[Callable[[Part, Rewritten], int]]:
        """Open a table of the same layout; parts with their results are written to it.

        The function that is given returns the number of rows that it wrote.
        """
