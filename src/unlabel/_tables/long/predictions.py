"""Long tables: one row per id and label, with its score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from unlabel._tables.columns.layout import no_label_column, require_columns
from unlabel._tables.files.formats import Table, errors_naming, rows_at_once
from unlabel._tables.files.writing import output_format, write_table
from unlabel._tables.labels import positions_by_text
from unlabel._tables.long.output import LongOutput
from unlabel._tables.long.part import LongColumns, LongPart, labels_of_first_id, starts_of_ids
from unlabel._tables.long.seen_ids import SeenIds, id_cells
from unlabel._tables.predictions import Reading
from unlabel._tables.rewriting import Rewriting, Rewritten
from unlabel._typing import Columns, Label, Progress
from unlabel.errors import UnlabelError, located
from unlabel.labels import as_classes, as_labels, listing


@dataclass(frozen=True)
class LongPredictions:
    """A table in which the rows of each id, one per label, stand together.

    Its rows of confidences are its ids, and they are what is counted.
    """

    table: Table
    columns: LongColumns
    logs: bool = False
    guess: str = ""
    doubtful: str = ""

    @property
    def path(self) -> Path:
        """The file."""
        return self.table.path

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels of the confidences."""
        return self.columns.classes

    @property
    def layout(self) -> str:
        """Where the confidences are, in words."""
        _, label, score = self.columns.names
        return f"one row per id and label, in the columns {label!r} and {score!r}"

    def parts(self, progress: Progress) -> Iterator[LongPart]:
        """Yield the ids, some at a time; refuse one that comes back after others."""
        seen = SeenIds(None if self.table.is_pipe else self._ids_from_the_start)
        most = rows_at_once(len(self.classes))  # ids may name few of very many labels
        for chunk, done in self._chunks():
            with errors_naming(self.path):
                ids = self._ids(chunk)
                if (at := seen.add(ids)) is not None:
                    row, shown = chunk.first_row + int(chunk.starts[at]), listing([str(ids[at])])
                    raise UnlabelError(
                        f"The id {shown} comes back in row {row}, after other ids: sort the table "
                        f"by {self.columns.id!r}."
                    )
            for first in range(0, len(chunk), most):
                yield _ids_between(chunk, first, min(first + most, len(chunk)))
            progress(done)

    def _ids(self, chunk: LongPart) -> pa.Array:
        """Return the id of each row of confidences."""
        return id_cells(chunk.of_first_rows(self.columns.id), self.columns.id)

    def _ids_from_the_start(self) -> Iterator[pa.Array]:
        for chunk, _ in self._chunks():
            yield self._ids(chunk)

    def _chunks(self) -> Iterator[tuple[LongPart, float]]:
        """Yield the rows in batches of whole ids, each with the fraction read so far."""
        waiting, first_row = list[pa.RecordBatch](), 0
        for batch, done in self.table.batches():
            if not len(batch):
                continue
            joined = pa.Table.from_batches([*waiting, batch]).combine_chunks()
            [rows] = joined.to_batches()
            with errors_naming(self.path, place=_rows_from(first_row)):
                ids = id_cells(rows.column(self.columns.id), self.columns.id)
                starts = starts_of_ids(ids, self.columns.id)
            last = int(starts[-1])  # whose rows may go on in the next batch
            if last:
                yield LongPart(rows[:last], self.columns, starts, first_row), done
            waiting, first_row = [rows[last:]], first_row + last
            self._refuse_many_rows(waiting[0], first_row)
        for rows in waiting:
            yield LongPart(rows, self.columns, np.array([0, len(rows)]), first_row), 1.0

    def _refuse_many_rows(self, rows: pa.RecordBatch, first_row: int) -> None:
        """Refuse an id with more rows than there are labels, before all of them are read."""
        if len(rows) > len(self.classes):
            place = LongPart(rows, self.columns, np.array([0, len(rows)]), first_row).place(0)
            raise UnlabelError(
                f"It is the first of more than {len(self.classes)} rows of its id, and there are "
                f"{len(self.classes)} labels: give each label once.",
                row=place,
                path=self.path,
            )

    def has(self, name: str) -> bool:
        """Whether there is a column of a name beside those of labels and scores."""
        return name in self.table.schema.names and name not in self.columns.names

    def require_truth(self, name: str) -> None:
        """Refuse a table without a column of true labels of that name."""
        if name in self.columns.names:
            raise UnlabelError(
                f"It has ids, labels and scores in the columns "
                f"{listing(self.columns.names)}, none of which can hold the true labels too: "
                "choose another one.",
                path=self.path,
                argument="label_column",
            )
        if not self.has(name):
            head = self.table.head()
            part = LongPart(head, self.columns, np.arange(len(head) + 1))
            raise no_label_column(self.table, name, part, self.classes)
        require_columns(self.table.schema.names, [name], str(self.path))

    @contextmanager
    def writing(
        self, out: Path, rewriting: Rewriting, *, overwrite: bool
    ) -> Iterator[Callable[[Any, Rewritten], int]]:
        """Open a long table for the results."""
        if output_format(out, self.table) in ("npy", "npz"):
            raise UnlabelError(f"A long table does not fit into {out}: name it .csv or .parquet.")
        output = LongOutput(rewriting, self.columns)
        schema = output.schema(self.table.schema, str(self.path))
        with write_table(out, schema, overwrite=overwrite, like=self.table) as write:

            def write_part(part: LongPart, rewritten: Rewritten) -> int:
                write(output.of(part, rewritten))
                return len(part) if rewritten.kept is None else int(rewritten.kept.sum())

            yield write_part


def _ids_between(part: LongPart, first: int, end: int) -> LongPart:
    starts: Columns = part.starts[first : end + 1]
    at = int(starts[0])
    rows = part.batch[at : int(starts[-1])]
    return LongPart(rows, part.columns, starts - at, part.first_row + at)


def _rows_from(first_row: int) -> Callable[[int], str]:
    return lambda row: f"row {first_row + row}"


def open_long(
    table: Table, classes: Sequence[Label] | None, names: tuple[str, str, str], reading: Reading
) -> LongPredictions:
    """Open a long table; without `classes`, its labels are those of its first id."""
    path = str(table.path)
    for name in {name for name in names if names.count(name) > 1}:
        raise UnlabelError(
            f"The column {name!r} is named twice: name those of ids, labels and scores.",
            argument="long",
        )
    require_columns(table.schema.names, names, path)
    columns, guess = LongColumns(*names, partial=reading.partial), ""
    kind = table.schema.field(columns.label).type
    if pa.types.is_nested(kind):
        raise UnlabelError(
            f"It has {kind} in column {columns.label!r} and labels are texts or numbers: "
            "choose another one.",
            path=path,
            argument="long",
        )
    if classes is None:
        with errors_naming(table.path):
            found = labels_of_first_id((batch for batch, _ in table.batches()), columns)
            if not found:
                raise UnlabelError("There are no rows: give a table with at least one.")
            with located(row=f"the first id in column {columns.label!r}"):
                classes = as_labels(found)
        guess = f"The labels were taken to be {listing(classes)}: if not, name them."
    columns = replace(columns, classes=as_classes(classes))
    positions_by_text(columns.classes)  # refuses labels that share a text
    is_log = columns.score.lower().replace("_", "").startswith("logprob")
    return LongPredictions(table, columns, reading.logs or is_log, guess)
