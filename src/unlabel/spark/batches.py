"""Find the confidences of a DataFrame, and read and rewrite them in batches on executors."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, functions, types
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import ArrayType, NumericType, StringType, StructType, UserDefinedType

from unlabel._tables.columns.layout import (
    ColumnPart,
    ListColumn,
    TableColumns,
    WideColumns,
    find_columns,
    require_columns,
)
from unlabel._tables.columns.output import ColumnOutput
from unlabel._typing import Floats, Kind, Label
from unlabel.errors import UnlabelError
from unlabel.labels import as_labels
from unlabel.validation import (
    ENOUGH_TO_TELL,
    check_rows,
    divided_by_sums,
    refuse_probabilities,
)

Batches = Iterator[pa.RecordBatch]

TABLE = "The DataFrame"  # its name in messages


def find_confidences(
    schema: StructType, columns: str | Sequence[str] | None, classes: Sequence[Label] | None
) -> TableColumns:
    """Find the confidences; without `classes` an array column has no labels yet."""
    if columns is None:
        source = _find_by_name(schema, classes)
    elif isinstance(columns, str):
        source = ListColumn(columns, tuple(classes or ()), fixed_size=False)
    else:
        names = as_labels(columns, "columns")
        if classes is not None and len(names) != len(classes):
            raise UnlabelError(
                f"There are {len(names)} columns and {len(classes)} labels: name one column per "
                "label, in the order of the model's labels.",
                argument="columns",
            )
        _check_order(names, classes or names)
        source = WideColumns(names)
    require_columns(schema.names, source.names, TABLE)
    is_array = isinstance(source, ListColumn)
    for name in source.names:
        kind = schema[name].dataType
        if not (_is_array(kind) if is_array else isinstance(kind, NumericType | StringType)):
            wanted = "an array of float or double" if is_array else "float or double"
            if isinstance(kind, UserDefinedType):
                wanted += " (pyspark.ml.functions.vector_to_array turns vectors into arrays)"
            raise UnlabelError(
                f"The column {name!r} has the type {kind.simpleString()} and confidences are "
                f"{wanted}.",
                argument="columns",
            )
    return source


def _check_order(names: Sequence[Label], classes: Sequence[Label]) -> None:
    texts = {*map(str, classes)}
    for name, label in zip(names, classes, strict=True):
        if str(name) != str(label) and str(name) in texts:
            problem = (
                f"The column {name!r} stands where the model has the label {label!r}: give the "
                "columns in the order of the model's labels."
            )
            raise UnlabelError(problem, argument="columns")


def _find_by_name(schema: StructType, classes: Sequence[Label] | None) -> TableColumns:
    is_named = not {str(label) for label in classes or ()}.isdisjoint(schema.names)
    if is_named or any(_is_array(field.dataType) for field in schema):
        arrow = arrow_schema(schema)
        found = find_columns(arrow, classes, None, table=TABLE, argument="columns")
        if found is not None:
            return found
    raise UnlabelError(
        "The DataFrame does not show which columns hold the confidences: name one column per "
        "label, or one array column.",
        argument="columns",
    )


def _is_array(kind: types.DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of columns that can hold confidences; other types do not matter."""
    fields = []
    for field in schema:
        is_read = _is_array(field.dataType) or isinstance(field.dataType, NumericType | StringType)
        fields.append((field.name, to_arrow_type(field.dataType) if is_read else pa.null()))
    return pa.schema(fields)


@dataclass(frozen=True)
class CheckedRows:
    """Read and check the confidences of a partition's batches."""

    source: TableColumns
    kind: Kind
    named_by: str | None = None  # the column whose value identifies a row to the user

    def of(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, Floats]]:
        """Yield batches with their rows."""
        for batch, place in placed(batches, self.named_by):
            with place:
                rows = ColumnPart(batch, self.source).confidences()
                check_rows(rows, self.kind, self.source.classes)
                refuse_many_probabilities(rows, self.kind)
            yield batch, rows


def placed(
    batches: Batches, named_by: str | None
) -> Iterator[tuple[pa.RecordBatch, AbstractContextManager[None]]]:
    """Yield a partition's batches, each with a context in which errors say where a row is."""
    first_row = 0
    for batch in batches:
        yield batch, _placed(batch, first_row, named_by)
        first_row += len(batch)


@contextmanager
def _placed(batch: pa.RecordBatch, first_row: int, named_by: str | None) -> Iterator[None]:
    try:
        yield
    except UnlabelError as error:
        task = TaskContext.get()
        where = f"partition {task.partitionId() if task else 0}"
        if isinstance(error.row, int):
            if named_by is not None:
                value = batch.column(named_by)[error.row].as_py()
                shown = repr(value[:60]) if isinstance(value, str) else str(value)
                where += f" ({named_by}={shown})"
            where += f", row {first_row + error.row}"
        error.row = where
        raise


def refuse_many_probabilities(rows: Floats, kind: Kind) -> None:
    """Raise an error for logits that are probabilities, if there are enough rows to tell."""
    if kind == "logits" and len(rows) >= ENOUGH_TO_TELL:
        refuse_probabilities(rows)


def naming_column(schema: StructType, others: Sequence[str]) -> str | None:
    """Choose the first column besides `others` whose values can be shown, most often an id."""
    unreadable = (ArrayType, types.BinaryType, types.MapType, StructType, UserDefinedType)
    names = [field.name for field in schema if not isinstance(field.dataType, unreadable)]
    return next((n for n in names if n not in others and schema.names.count(n) == 1), None)


def rewritten(df: DataFrame, output: ColumnOutput) -> DataFrame:
    """Return a DataFrame whose batches a filter rewrites."""
    rewriting, source = output.rewriting, output.source
    own = set(source.names)
    name, times = Counter(df.columns).most_common(1)[0]
    if times > 1:
        problem = f"It has {times} columns {name!r}: give each a name of its own."
        raise UnlabelError(problem, path=TABLE)
    others = {field.name: field for field in df.schema if field.name not in own}
    after = from_arrow_schema(output.schema(arrow_schema(df.schema), TABLE))
    schema = StructType([others.get(field.name, field) for field in after])
    named_by = naming_column(df.schema, source.names)
    normalize, kind = rewriting.options.reading.normalize, rewriting.fitted.kind

    def rewrite(batches: Batches) -> Batches:
        for batch, place in placed(batches, named_by):
            part = ColumnPart(batch, source)
            with place:
                rows = divided_by_sums(part.confidences()) if normalize else part.confidences()
                result = rewriting.of(part, rows)
                refuse_many_probabilities(rows, kind)
            yield output.of(batch, result)

    return map_batches(df, rewrite, schema)


def map_batches(
    df: DataFrame, function: Callable[[Batches], Batches], schema: StructType | str
) -> DataFrame:
    """Map the batches of each partition, whatever the columns are called."""
    names = df.columns

    def with_names(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return numbered(df).mapInArrow(on_one_thread(with_names), schema)


def on_one_thread(function: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """Make an executor filter on one thread, as Spark runs one task per core itself."""

    def alone(batches: Batches) -> Batches:
        os.environ.setdefault("UNLABEL_THREADS", "1")
        return function(batches)

    return alone


def numbered(df: DataFrame) -> DataFrame:
    """Name the columns by numbers: Spark takes a dot for a field of a struct, and ignores case."""
    return df.toDF(*map(str, range(len(df.columns))))


def column_of(df: DataFrame, name: str) -> Column:
    """Find a column of `numbered(df)` by its name in `df`, which must be unique."""
    return functions.col(str(df.columns.index(name)))


@contextmanager
def row_errors() -> Iterator[None]:
    """Raise an executor's error about a bad row as an `UnlabelError`, in one sentence.

    Spark runs a lazy DataFrame when an action asks for its rows, and reports an error of
    an executor with the stack traces of both machines.

    Examples
    --------
    >>> with row_errors():  # doctest: +SKIP
    ...     apply(df, fitted).write.parquet("kept.parquet")
    """
    try:
        yield
    except Exception as error:
        name = re.escape(f"{UnlabelError.__module__}.{UnlabelError.__name__}")
        message = re.search(f"{name}: (.+)", str(error))
        if message is None:
            raise
        told = re.fullmatch(r"(.+) \((\w+)=\)\.", message[1])  # as an UnlabelError writes itself
        if told is None:
            raise UnlabelError(message[1]) from None
        raise UnlabelError(f"{told[1]}.", argument=told[2]) from None
