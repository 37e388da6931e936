"""Fitting as distributed sums: two passes over the rows of each removed label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DoubleType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from unlabel._labels import as_classes, labels_to_remove, no_such_label
from unlabel._method.statistics import ROUNDING, away_from, label_statistics
from unlabel._tables.labels import MOST_SPELLINGS, is_missing, label_positions
from unlabel._tables.layout import ListColumn, TableColumns
from unlabel._typing import (
    INPUT_KINDS,
    METHODS,
    Float64s,
    InputKind,
    Label,
    Method,
)
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.spark.batches import (
    SPARK_TYPES,
    Batches,
    CheckedRows,
    arrow_schema,
    column_of,
    find_columns,
    map_batches,
    naming_column,
    numbered,
    require_column,
)
from unlabel.validation import choice

# The reference rows are spread over tasks of about this many confidences.
ENTRIES_A_TASK = 1 << 20
LABEL_TYPES = (StringType, NumericType, BooleanType, DateType)
SUMS = StructType([StructField("sums", ArrayType(DoubleType()))])


def fit_distributed(
    df: DataFrame,
    *,
    remove: Iterable[Any] | None,
    keep: Iterable[Any] | None,
    columns: str | Sequence[str] | None,
    classes: Iterable[Any] | None,
    label_column: str,
    method: Method,
    input: InputKind,
) -> OutputFilter:
    """Fit a filter; `unlabel.spark.fit` describes the arguments."""
    choice(method, METHODS, "method")
    choice(input, INPUT_KINDS, "input")
    names = None if classes is None else as_classes(classes)
    source = find_columns(df.schema, columns, names)
    if isinstance(source, ListColumn) and names is None:
        source = replace(source, classes=tuple(range(_array_length(df, source.name))))
    names = names or source.classes
    removed = labels_to_remove(names, remove, keep)
    steps = removed if method == "mask" else ()  # it needs no rows, and so runs nothing
    nothing = np.zeros((len(steps), len(names)))
    fitted = OutputFilter(
        classes_in=names,
        removed=steps,
        means=nothing,
        shares=nothing,
        counts=(0,) * len(steps),
        method=method,
        input=input,
    )
    if fitted.removed == removed:
        return fitted
    spellings, count = _find_references(df, label_column, source, names, removed)
    written = [*chain.from_iterable(spellings.values())]
    references = _references(df, label_column, source, input, written)
    tasks = math.ceil(count * len(names) / ENTRIES_A_TASK)
    # Sorted, the cache can skip the rows of all labels but the one that is asked for.
    references = references.repartition(tasks).sortWithinPartitions("label").persist()
    try:
        for label in removed:
            rows = references.where(functions.col("label").isin(spellings[label]))
            fitted = _with_label_removed(fitted, label, rows.select("confidences"))
    finally:
        references.unpersist()
    return fitted


def _find_references(
    df: DataFrame,
    label_column: str,
    source: TableColumns,
    classes: Sequence[Label],
    removed: Sequence[Label],
) -> tuple[dict[Label, list[str]], int]:
    """Find how Spark writes each removed label, and count the reference rows.

    It takes a pass over the true labels alone, which are checked, all of them.
    """
    kind = require_column(df.schema, label_column)
    if label_column in source.names:
        raise UnlabelError(
            f"The column {label_column!r} holds confidences and cannot hold the true labels too: "
            "choose another one with label_column='...'."
        )
    if not isinstance(kind, LABEL_TYPES):
        raise UnlabelError(
            f"The column {label_column!r} has the type {kind.simpleString()} and true labels are "
            "texts, numbers or booleans: choose another one with label_column='...'."
        )
    label = column_of(df, label_column)
    grouped = numbered(df).groupBy(label.cast("string").alias("text"))
    # With one more than these and the two kinds of empty cells, one is not a label of the model.
    most = MOST_SPELLINGS * len(classes) + 3
    found = grouped.agg(functions.count(functions.lit(1)), functions.any_value(label)).limit(most)
    texts, counts, values = (column.combine_chunks() for column in found.toArrow().columns)
    spellings: dict[Label, list[str]] = {of: [] for of in removed}
    without = count = 0
    unknown = []
    groups = zip(*(of.to_pylist() for of in (texts, counts, values)), strict=True)
    for (text, rows, value), position in zip(groups, label_positions(values, classes), strict=True):
        if is_missing(value) and position is None:
            without += rows
        elif position is None:
            unknown.append(text)
        elif classes[position] in spellings:
            spellings[classes[position]].append(text)
            count += rows
    if unknown:
        raise no_such_label(
            min(unknown), classes, f", and column {label_column!r} has it as a true label"
        )
    if without:
        raise UnlabelError(
            f"{without} rows have no true label in column {label_column!r}: give them one."
        )
    for of, written in spellings.items():
        if not written:
            raise UnlabelError(
                f"The label {of!r} has no reference rows: give the model's outputs on some "
                "inputs whose true label it is, or use method='mask', which needs none."
            )
    return spellings, count


def _references(
    df: DataFrame,
    label_column: str,
    source: TableColumns,
    input: InputKind,
    spellings: Sequence[str],
) -> DataFrame:
    """The validated rows of removed labels: a label and an array of confidences each."""
    text = column_of(df, label_column).cast("string")
    named_by = naming_column(df.schema, [*source.names, label_column])
    named = [*source.names] if named_by is None else [*source.names, named_by]
    rows = (
        numbered(df)
        .where(text.isin(spellings))
        .select(*[column_of(df, name).alias(name) for name in named], text.alias(label_column))
    )
    arrow = arrow_schema(rows.schema, source)
    nothing = source.read(pa.RecordBatch.from_pylist([], schema=arrow), 0)
    schema = StructType(
        [
            StructField("label", StringType()),
            StructField("confidences", ArrayType(SPARK_TYPES[pa.from_numpy_dtype(nothing.dtype)])),
        ]
    )
    checked = CheckedRows(source, input, named_by, ", among its rows of removed labels")
    target = ListColumn("confidences", source.classes, fixed_size=False)

    def check(batches: Batches) -> Batches:
        for batch, confidences in checked.of(batches):
            lists = target.columns(confidences, source.classes)
            yield pa.RecordBatch.from_pydict({"label": batch.column(label_column), **lists})

    return map_batches(rows, check, schema)


def _with_label_removed(fitted: OutputFilter, label: Label, rows: DataFrame) -> OutputFilter:
    """Fit one more label, in two passes over its rows as the steps so far leave them."""
    there = fitted.retained_columns
    column = int(np.searchsorted(there, fitted.classes_in.index(label)))

    count, total = _summed(rows, fitted, lambda advanced: advanced)
    mean = total / count

    def directions(advanced: Float64s) -> Float64s:
        away = away_from(mean, advanced, column)
        length = away.sum(axis=1, keepdims=True)
        informative = length[:, 0] > ROUNDING
        return np.asarray(away[informative] / length[informative])

    informative, total = _summed(rows, fitted, directions)
    total[column] = 0.0
    # A single row differs from its mean by nothing, and so stands for rows that all do.
    share = total / informative if total.any() else label_statistics(mean[None, :], column)[1]
    statistics = np.zeros((2, len(fitted.classes_in)))
    statistics[:, there] = mean, share
    return OutputFilter(
        classes_in=fitted.classes_in,
        removed=(*fitted.removed, label),
        means=np.vstack([fitted.means, statistics[0]]),
        shares=np.vstack([fitted.shares, statistics[1]]),
        counts=(*fitted.counts, int(count)),
        method=fitted.method,
        input=fitted.input,
    )


def _summed(
    rows: DataFrame, fitted: OutputFilter, of_rows: Callable[[Float64s], Float64s]
) -> tuple[float, Float64s]:
    """Number and sum of what a function makes of the rows that a filter gives.

    The sums of all partitions are added up by one executor: the sum of a partition that
    holds a single row of the label would be that row.
    """
    n_labels = len(fitted.classes_in)

    def sum_rows(batches: Batches) -> Batches:
        total = np.zeros(1 + len(fitted.retained_columns))
        for batch in batches:
            lists = batch.column(0).flatten().to_numpy()
            advanced = fitted.apply_checked(lists.reshape(-1, n_labels).astype(np.float64))
            summed = of_rows(np.asarray(advanced, dtype=np.float64))
            total[0] += len(summed)
            total[1:] += np.ascontiguousarray(summed.T).sum(axis=1)  # contiguous: pairwise
        yield _as_batch(total)

    def add_up(batches: Batches) -> Batches:
        sums = [batch.column(0).flatten().to_numpy().reshape(len(batch), -1) for batch in batches]
        yield _as_batch(np.concatenate(sums).sum(axis=0))

    [[sums]] = rows.mapInArrow(sum_rows, SUMS).repartition(1).mapInArrow(add_up, SUMS).collect()
    return sums[0], np.array(sums[1:])


def _as_batch(sums: Float64s) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"sums": pa.array([sums], pa.list_(pa.float64()))})


def _array_length(df: DataFrame, name: str) -> int:
    first = numbered(df).select(functions.size(column_of(df, name))).first()
    if first is None or first[0] is None or first[0] < 1:
        raise UnlabelError(
            f"The first row has no list in column {name!r} to count labels by: give classes=[...]."
        )
    return int(first[0])
