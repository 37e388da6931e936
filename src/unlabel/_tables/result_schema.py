"""Record batches with results, and their schema, which is known before the first row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from unlabel._tables.columns.layout import require_columns
from unlabel._tables.predictions import Part
from unlabel._tables.rewriting import ADDED, Rewriting, Rewritten
from unlabel.errors import UnlabelError

NamedColumn = tuple[pa.Field, pa.Array]


def named(name: str, column: pa.Array) -> NamedColumn:
    """Name a column."""
    return pa.field(name, column.type), column


def batch_of(columns: Sequence[NamedColumn], like: pa.RecordBatch) -> pa.RecordBatch:
    """Make a batch of columns, with the metadata of another one."""
    schema = pa.schema([field for field, _ in columns], like.schema.metadata)
    return pa.RecordBatch.from_arrays([column for _, column in columns], schema=schema)


def result_schema(
    rewriting: Rewriting,
    empty: Part,
    write: Callable[[Rewritten], pa.RecordBatch],
    *,
    names: Sequence[str],
    own: Iterable[str],
    table: str,
) -> pa.Schema:
    """Return the schema of a result; refuse a table without a column that is needed.

    A table that has an added column already is refused, too. `names` are the columns of the
    table, and `own` those that results have besides the added ones.
    """
    require_columns(names, rewriting.needed, table)
    # An empty part goes the way of all others, so that the schemas cannot differ.
    rewritten = rewriting.of(empty, empty.confidences())
    schema = write(rewritten).schema
    times = Counter(schema.names)
    for name in (*ADDED, *own):
        if times[name] > 1:
            raise UnlabelError(f"It has a column {name!r} already: rename it first.", path=table)
    return schema
