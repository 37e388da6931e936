"""Fitting as distributed sums: two passes over the rows of each removed label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import ArrayType, DoubleType, StringType, StructField, StructType

from unlabel.columns import ListColumn, TableColumns
from unlabel.filter import OutputFilter
from unlabel.osr import ROUNDING, away_from, label_statistics
from unlabel.parts import Float64s
from unlabel.spark.rows import (
    SPARK_TYPES,
    Batches,
    CheckedRows,
    arrow_schema,
    find_columns,
    map_batches,
    naming_column,
    require_column,
)
from unlabel.validation import (
    INPUT_KINDS,
    METHODS,
    InputKind,
    Label,
    Method,
    UnlabelError,
    as_classes,
    choice,
    labels_to_remove,
    no_such_label,
)

# The reference rows are spread over tasks of about this many confidences.
ENTRIES_A_TASK = 1 << 20
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
    count = _count_references(df, label_column, source, names, removed)
    references = _references(df, label_column, source, input, removed)
    tasks = math.ceil(count * len(names) / ENTRIES_A_TASK)
    # Sorted, the cache can skip the rows of all labels but the one that is asked for.
    references = references.repartition(tasks).sortWithinPartitions("label").persist()
    try:
        for label in removed:
            fitted = _with_label_removed(fitted, label, references)
    finally:
        references.unpersist()
    return fitted


def _count_references(
    df: DataFrame,
    label_column: str,
    source: TableColumns,
    classes: Sequence[Label],
    removed: Sequence[Label],
) -> int:
    """Count the reference rows in a pass over the true labels alone, which are checked."""
    require_column(df.schema, label_column)
    if label_column in source.names:
        raise UnlabelError(
            f"The column {label_column!r} holds confidences and cannot hold the true labels too: "
            "choose another one with label_column='...'."
        )
    text = _column(label_column).cast("string")
    reference = functions.when(text.isin([_text(label) for label in removed]), text)
    unknown = functions.when(~text.isin([_text(label) for label in classes]), text)
    found = df.groupBy(reference.alias("label")).agg(
        functions.count(functions.lit(1)), functions.min(unknown), functions.count_if(text.isNull())
    )
    counts = {}
    for label, count, unknown_label, without in found.collect():
        if unknown_label is not None:
            raise no_such_label(
                unknown_label, classes, f", and column {label_column!r} has it as a true label"
            )
        if without:
            raise UnlabelError(
                f"{without} rows have no true label in column {label_column!r}: give them one."
            )
        counts[label] = count
    for label in removed:
        if _text(label) not in counts:
            raise UnlabelError(
                f"The label {label!r} has no reference rows: give the model's outputs on some "
                "inputs whose true label it is, or use method='mask', which needs none."
            )
    return sum(counts[_text(label)] for label in removed)


def _text(label: Label) -> str:
    """A label as Spark writes it."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def _references(
    df: DataFrame,
    label_column: str,
    source: TableColumns,
    input: InputKind,
    removed: Sequence[Label],
) -> DataFrame:
    """The validated rows of removed labels: a label and an array of confidences each."""
    text = _column(label_column).cast("string")
    named_by = naming_column(df.schema, [*source.names, label_column])
    named = [*source.names] if named_by is None else [*source.names, named_by]
    rows = df.where(text.isin([_text(label) for label in removed])).select(
        *[_column(name) for name in named], text.alias(label_column)
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


def _with_label_removed(fitted: OutputFilter, label: Label, references: DataFrame) -> OutputFilter:
    """Fit one more label, in two passes over its rows as the steps so far leave them."""
    rows = references.where(functions.col("label") == _text(label)).select("confidences")
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
    first = df.select(functions.size(_column(name))).first()
    if first is None or first[0] is None or first[0] < 1:
        raise UnlabelError(
            f"The first row has no list in column {name!r} to count labels by: give classes=[...]."
        )
    return int(first[0])


def _column(name: str) -> Column:
    """A column by its exact name: a dot in it would be taken for a field of a struct."""
    quoted = name.replace("`", "``")
    return functions.col(f"`{quoted}`")
