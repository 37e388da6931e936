"""Tables whose rows are those of Arrow record batches: confidences in their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlabel._tables.columns.layout import (
    ColumnPart,
    TableColumns,
    no_label_column,
    require_columns,
)
from unlabel._tables.columns.output import ColumnOutput, target_columns
from unlabel._tables.files.formats import Table, rows_at_once
from unlabel._tables.files.writing import output_format, write_table
from unlabel._tables.rewriting import Rewriting, Rewritten
from unlabel._typing import Label, Progress
from unlabel.errors import UnlabelError


@dataclass(frozen=True)
class ColumnPredictions:
    """A table with confidences in its columns."""

    table: Table
    columns: TableColumns
    logs: bool = False

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
        return self.columns.layout

    @property
    def guess(self) -> str:
        """A sentence about labels that were guessed."""
        return self.columns.guess

    @property
    def doubtful(self) -> str:
        """A column that the guess left out and that may belong to a label."""
        return self.columns.doubtful

    def parts(self, progress: Progress) -> Iterator[ColumnPart]:
        """Yield the batches that are not empty, or parts of them if there are very many labels."""
        first_row, most = 0, rows_at_once(len(self.classes))
        for batch, done in self.table.batches():
            for start in range(0, len(batch), most):
                yield ColumnPart(batch.slice(start, most), self.columns, first_row + start)
            first_row += len(batch)
            progress(done)

    def has(self, name: str) -> bool:
        """Whether there is a column of a name."""
        return name in self.table.schema.names

    def require_truth(self, name: str) -> None:
        """Refuse a table without a column of true labels of that name."""
        if not self.has(name):
            head = ColumnPart(self.table.head(), self.columns)
            raise no_label_column(self.table, name, head, self.classes)
        require_columns(self.table.schema.names, [name], str(self.path))
        if name in self.columns.names:
            raise UnlabelError(
                f"It has confidences in column {name!r}, which cannot hold the true "
                "labels too: choose another one.",
                path=self.path,
                argument="label_column",
            )

    @contextmanager
    def writing(
        self, out: Path, rewriting: Rewriting, *, overwrite: bool
    ) -> Iterator[Callable[[Any, Rewritten], int]]:
        """Open a table for the results."""
        fitted = rewriting.fitted
        target = target_columns(fitted, self.columns, output_format(out, self.table))
        output = ColumnOutput(rewriting, self.columns, target)
        schema = output.schema(self.table.schema, str(self.path))
        with write_table(
            out, schema, overwrite=overwrite, classes=fitted.classes_out, like=self.table
        ) as write:

            def write_part(part: ColumnPart, rewritten: Rewritten) -> int:
                after = output.of(part.batch, rewritten)
                write(after)
                return len(after)

            yield write_part
