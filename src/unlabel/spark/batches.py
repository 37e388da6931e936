"""Rows of a DataFrame: where its confidences are, and Arrow batches of them on executors."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
)

from unlabel._labels import as_labels
from unlabel._tables.layout import ListColumn, TableColumns, WideColumns
from unlabel._tables.streaming import Rewriting, read_rows
from unlabel._typing import Floats, InputKind, Label
from unlabel.errors import UnlabelError
from unlabel.validation import check_column_order, refuse_probabilities

Batches = Iterator[pa.RecordBatch]

# A single row of logits may sum to 1 by chance, and batches of one are common here.
ENOUGH_TO_TELL = 2
SPARK_TYPES: dict[pa.DataType, DataType] = {
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.int64(): LongType(),
    pa.string(): StringType(),
    pa.bool_(): BooleanType(),
}


def find_columns(
    schema: StructType, columns: str | Sequence[str] | None, classes: Sequence[Label] | None
) -> TableColumns:
    """Find the confidences; an array column has no labels yet where `classes` are not known."""
    if columns is None:
        columns = _default_columns(schema, classes)
    if isinstance(columns, str):
        kind = require_column(schema, columns)
        if not _is_array_of_numbers(kind):
            raise _wrong_type(columns, kind, "an array of float or double")
        return ListColumn(columns, tuple(classes or ()), fixed_size=False)
    names = as_labels(columns, "columns")
    if classes is not None:
        _check_names(names, classes)
    for name in names:
        kind = require_column(schema, str(name))
        if not isinstance(kind, NumericType | StringType):
            raise _wrong_type(str(name), kind, "float or double")
    return WideColumns(names)


def _check_names(names: Sequence[Label], classes: Sequence[Label]) -> None:
    """Refuse columns that are not one per label, and one with the name of another label."""
    if len(names) != len(classes):
        raise UnlabelError(
            f"There are {len(names)} columns and {len(classes)} labels: name one column per label, "
            "in the order of the model's labels."
        )
    check_column_order(names, classes)


def _default_columns(schema: StructType, classes: Sequence[Label] | None) -> str | list[str]:
    arrays = [str(field.name) for field in schema if _is_array_of_numbers(field.dataType)]
    vectors = [field for field in schema if isinstance(field.dataType, UserDefinedType)]
    named = [str(label) for label in classes or () if str(label) in schema.names]
    if not named and len(arrays) == 1:
        return arrays[0]
    floats = [name for name in named if isinstance(schema[name].dataType, FloatType | DoubleType)]
    # Counts and the like may be named after labels too, beside an array with the confidences.
    is_open = arrays and len(floats) < len(classes or ())
    if is_open or (not named and (vectors or classes is None)):
        raise UnlabelError(
            "The DataFrame does not tell which columns hold the confidences: name one column per "
            "label with columns=[...], or one array column with columns='...'."
        )
    return [str(label) for label in classes or ()]


def require_column(schema: StructType, name: str) -> DataType:
    """The type of a column, or an error that names the nearest one."""
    if schema.names.count(name) != 1:
        near = difflib.get_close_matches(name, schema.names, n=1, cutoff=0.0)
        nearest = f"; the nearest is {near[0]!r}" if near else ""
        raise UnlabelError(
            f"The DataFrame has {schema.names.count(name)} columns {name!r} and needs one{nearest}."
        )
    return schema[name].dataType


def _is_array_of_numbers(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)


def _wrong_type(name: str, kind: DataType, wanted: str) -> UnlabelError:
    how = ""
    if isinstance(kind, UserDefinedType):
        how = " (pyspark.ml.functions.vector_to_array turns vectors into arrays)"
    return UnlabelError(
        f"The column {name!r} has the type {kind.simpleString()} and confidences are {wanted}{how}."
    )


@dataclass(frozen=True)
class CheckedRows:
    """Reads the confidences of a partition's batches, and says which row is bad."""

    source: TableColumns
    input: InputKind
    named_by: str | None  # the column whose value tells a user which row it is
    among: str = ""  # which of a partition's rows are counted, if not all

    def of(self, batches: Batches) -> Iterator[tuple[pa.RecordBatch, Floats]]:
        """Batches with their validated rows."""
        first_row = 0
        for batch in batches:
            yield batch, self._read(batch, first_row)
            first_row += len(batch)

    def _read(self, batch: pa.RecordBatch, first_row: int) -> Floats:
        try:
            rows = read_rows(batch, self.source, self.input, first_row)
            if self.input == "logits" and len(rows) >= ENOUGH_TO_TELL:
                refuse_probabilities(rows)
        except UnlabelError as error:
            raise self._told(batch, first_row, error) from error
        return rows

    def _told(self, batch: pa.RecordBatch, first_row: int, error: UnlabelError) -> UnlabelError:
        task = TaskContext.get()
        where = f"Partition {task.partitionId() if task else 0}{self.among}"
        for at in range(len(batch)):
            row = batch.slice(at, 1)
            try:
                read_rows(row, self.source, self.input, first_row + at)
            except UnlabelError as of_row:
                if self.named_by is not None:
                    value = row.column(self.named_by)[0].as_py()
                    shown = repr(value[:60]) if isinstance(value, str) else str(value)
                    where += f" ({self.named_by}={shown})"
                return UnlabelError(f"{where}: {of_row}")
        return UnlabelError(f"{where}: {error}")


def naming_column(schema: StructType, others: Sequence[str]) -> str | None:
    """The first column besides `others` whose values can be shown, most often an id."""
    unreadable = (ArrayType, BinaryType, MapType, StructType, UserDefinedType)
    names = [field.name for field in schema if not isinstance(field.dataType, unreadable)]
    return next((n for n in names if n not in others and schema.names.count(n) == 1), None)


def rewritten(df: DataFrame, rewriting: Rewriting) -> DataFrame:
    """A DataFrame whose batches are rewritten by a filter."""
    source = rewriting.source
    name, times = Counter(df.columns).most_common(1)[0]
    if times > 1:
        raise UnlabelError(
            f"The DataFrame has {times} columns {name!r}: give each a name of its own."
        )
    after = rewriting.schema(arrow_schema(df.schema, source), "The DataFrame")
    kept = {field.name: field for field in df.schema if field.name not in source.names}
    schema = StructType(
        [
            kept.get(field.name) or StructField(field.name, _spark_type(field.type))
            for field in after
        ]
    )
    checked = CheckedRows(source, rewriting.fitted.input, naming_column(df.schema, source.names))

    def rewrite(batches: Batches) -> Batches:
        for batch, rows in checked.of(batches):
            yield rewriting.of(batch, rows)[0]

    return map_batches(df, rewrite, schema)


def map_batches(
    df: DataFrame, function: Callable[[Batches], Batches], schema: StructType
) -> DataFrame:
    """Map the batches of each partition, whatever the columns are called."""
    names = df.columns

    def with_names(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return numbered(df).mapInArrow(with_names, schema)


def numbered(df: DataFrame) -> DataFrame:
    """The same columns, named by their numbers.

    Spark takes a dot in a name for a field of a struct, and does not tell names apart that
    differ in case.
    """
    return df.toDF(*map(str, range(len(df.columns))))


def column_of(df: DataFrame, name: str) -> Column:
    """A column of `numbered` by its exact name in `df`, which only one has."""
    return functions.col(str(df.columns.index(name)))


def arrow_schema(schema: StructType, source: TableColumns) -> pa.Schema:
    """The Arrow types of confidences; those of other columns do not matter."""

    def arrow_type(kind: DataType) -> pa.DataType:
        if isinstance(kind, ArrayType):
            return pa.list_(arrow_type(kind.elementType))
        return pa.float32() if isinstance(kind, FloatType) else pa.float64()

    return pa.schema(
        (field.name, arrow_type(field.dataType) if field.name in source.names else pa.null())
        for field in schema
    )


def _spark_type(kind: pa.DataType) -> DataType:
    if pa.types.is_list(kind):
        return ArrayType(SPARK_TYPES[kind.value_type])
    return SPARK_TYPES[kind]
