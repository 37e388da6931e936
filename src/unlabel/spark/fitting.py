"""Fit a filter by distributed sums: two passes over the rows of each retired label."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions, types

from unlabel._labels import as_classes, is_missing
from unlabel._method.statistics import ROUNDING, away_from, label_statistics
from unlabel._set_aside import SetAside
from unlabel._tables.columns.layout import ListColumn, TableColumns, require_columns
from unlabel._tables.labels import label_positions
from unlabel._typing import INPUT_KINDS, METHODS, Float64s, InputKind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import no_reference_rows
from unlabel.plan import LabelPlan, plan_for
from unlabel.spark.batches import (
    TABLE,
    Batches,
    CheckedRows,
    arrow_schema,
    column_of,
    find_confidences,
    map_batches,
    naming_column,
    numbered,
    on_one_thread,
    row_errors,
)
from unlabel.validation import choice

# The reference rows are spread over tasks of about this many confidences.
ENTRIES_PER_TASK = 1 << 20
LABEL_TYPES = (types.StringType, types.NumericType, types.BooleanType, types.DateType)
SUMS = "sums array<double>"
COUNTS = "text string, rows bigint, position bigint"


@row_errors()
def fit(
    df: DataFrame,
    *,
    remove: Iterable[Any] | None = None,
    keep: Iterable[Any] | None = None,
    columns: str | Sequence[str] | None = None,
    classes: Iterable[Any] | None = None,
    label_column: str = "label",
    method: Method = "osr",
    input: InputKind = "probabilities",
    calibrate: bool = False,
) -> OutputFilter:
    """Fit a filter on the reference rows of a DataFrame, by sums that executors compute.

    Of rows of retained labels, only the true labels are read. Rows without a true label, and
    rows of labels that the model does not have, are set aside, and a warning counts them.

    Parameters
    ----------
    df : DataFrame
        Confidences in one column per label, or in one array column, and true labels.
    remove, keep, method, input
        As `unlabel.LabelRemover` describes them: `remove` may be a mapping or a plan.
    columns : str or list of str, optional
        The array column, or the columns of the labels in order. By default the columns
        named after `classes` or, if there are none, the only array column.
    classes : list of labels, optional
        The labels of the model, by default `columns`, or 0, 1, ... for an array column.
    label_column : str
        The column of true labels. A number, a double of Spark ML too, is the label of that
        value; a text is the label with that text.
    calibrate : bool
        Must be False: a temperature takes many passes over all rows, and a sample suffices.

    Returns
    -------
    OutputFilter
        The filter that `unlabel.LabelRemover` fits on the same rows, within 1e-12.
    """
    if calibrate:
        raise UnlabelError(
            "calibrate=True is not distributed: fit without it, and set the temperature that "
            "LabelRemover(..., calibrate=True) finds on a sample of the rows."
        )
    choice(method, METHODS, "method")
    choice(input, INPUT_KINDS, "input")
    names = None if classes is None else as_classes(classes)
    source = find_confidences(df.schema, columns, names)
    if isinstance(source, ListColumn) and names is None:
        source = replace(source, classes=tuple(range(_array_length(df, source.name))))
    names = names or source.classes
    plan = plan_for(names, remove, keep)
    removed = tuple(names[column] for column in plan.outcome(names).removed)
    # mask needs no rows, and so runs nothing; the other methods begin with no label retired.
    start = OutputFilter.mask(names, removed if method == "mask" else (), input=input)
    fitted = replace(start, method=method)
    if fitted.removed == removed:
        return replace(fitted, plan=plan)
    spellings, count = _find_references(df, label_column, source, names, removed)
    texts = [*chain.from_iterable(spellings.values())]
    references = _references(df, label_column, source, input, texts)
    tasks = math.ceil(count * len(names) / ENTRIES_PER_TASK)
    # Sorted, the cache can skip the rows of all labels but the one that is asked for.
    references = references.repartition(tasks).sortWithinPartitions("label").persist()
    try:
        for label in removed:
            rows = references.where(functions.col("label").isin(spellings[label]))
            fitted = _with_label_removed(fitted, label, rows.select("confidences"))
    finally:
        references.unpersist()
    return replace(fitted, plan=plan)


def _find_references(
    df: DataFrame,
    label_column: str,
    source: TableColumns,
    classes: Sequence[Label],
    removed: Sequence[Label],
) -> tuple[dict[Label, list[str]], int]:
    """Check all true labels in one pass; give the spellings and the count of the retired ones."""
    require_columns(df.columns, [label_column], TABLE)
    kind = df.schema[label_column].dataType
    if label_column in source.names or not isinstance(kind, LABEL_TYPES):
        wrong = f"has the type {kind.simpleString()} and true labels are texts, numbers or booleans"
        if label_column in source.names:
            wrong = "holds confidences and cannot hold the true labels too"
        raise UnlabelError(
            f"The column {label_column!r} {wrong}: choose another one with label_column='...'."
        )
    spellings: dict[Label, list[str]] = {label: [] for label in removed}
    aside = SetAside(classes)
    every_row = count = 0
    for text, rows, position in _counted_labels(df, label_column, classes):
        every_row += rows
        if text is None or position is None:
            aside.add(text, rows)
        elif classes[position] in spellings:
            spellings[classes[position]].append(text)
            count += rows
    aside.refuse_all(every_row)
    for label, written in spellings.items():
        if not written:
            raise no_reference_rows(label, aside)
    if aside.rows:
        warnings.warn(f"{aside}.", stacklevel=4)  # the line that calls `fit`
    return spellings, count


def _counted_labels(
    df: DataFrame, label_column: str, classes: Sequence[Label]
) -> list[tuple[str | None, int, int | None]]:
    """Give each text that is a label of the model, the number of its rows, and its position.

    Texts that are none may be many, so that executors count them, and name the first alone.
    """
    column = column_of(df, label_column)
    grouped = numbered(df).groupBy(column.cast("string").alias("text"))
    groups = grouped.agg(functions.count(functions.lit(1)), functions.any_value(column))

    def find_labels(batches: Batches) -> Batches:
        for batch in batches:
            batch, aside = batch.sort_by("text"), SetAside(classes)
            positions = label_positions(batch.column(2), classes)
            found = []
            for text, rows, value, position in zip(
                *batch.to_pydict().values(), positions, strict=True
            ):
                if position is None:
                    aside.add(None if is_missing(value) else text, rows)
                else:
                    found.append((text, rows, position))
            found.append((None, aside.without_label, None))
            found.append((aside.other_label, aside.of_other_labels, None))
            columns = map(pa.array, zip(*found, strict=True), (pa.string(), pa.int64(), pa.int64()))
            yield pa.RecordBatch.from_arrays([*columns], ["text", "rows", "position"])

    counted = map_batches(groups, find_labels, COUNTS).collect()
    return sorted(map(tuple, counted), key=lambda group: group[0] or "")


def _references(
    df: DataFrame, label_column: str, source: TableColumns, input: InputKind, texts: Sequence[str]
) -> DataFrame:
    """Validate the rows of retired labels, and give each as a label and an array."""
    label = column_of(df, label_column).cast("string")
    named_by = naming_column(df.schema, [*source.names, label_column])
    names = [*source.names] if named_by is None else [*source.names, named_by]
    columns = [column_of(df, name).alias(name) for name in names]
    rows = numbered(df).where(label.isin(texts)).select(*columns, label.alias(label_column))
    empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(rows.schema))
    kind = "float" if source.read(empty).dtype == np.float32 else "double"
    checked = CheckedRows(source, input, named_by, ", among its rows of retired labels")
    target = ListColumn("confidences", source.classes, fixed_size=False)

    def check(batches: Batches) -> Batches:
        for batch, confidences, _ in checked.of(batches):
            lists = target.columns(confidences)
            yield pa.RecordBatch.from_pydict({"label": batch.column(label_column), **lists})

    return map_batches(rows, check, f"label string, confidences array<{kind}>")


def _with_label_removed(fitted: OutputFilter, label: Label, rows: DataFrame) -> OutputFilter:
    """Retire one more label, in two passes over its rows as the steps so far leave them."""
    column = fitted.classes_in.index(label)
    label_first = np.argsort(fitted.retained_columns != column, kind="stable")
    present = fitted.retained_columns[label_first]

    count, total = _summed(rows, fitted, lambda advanced: advanced.take(label_first, axis=1))
    mean = total / count

    def directions(advanced: Float64s) -> Float64s:
        away = away_from(mean, advanced.take(label_first, axis=1))
        length = away.sum(axis=1, keepdims=True)
        informative = length[:, 0] > ROUNDING
        return np.asarray(away[informative] / length[informative])

    informative, total = _summed(rows, fitted, directions)
    total[0] = 0.0
    # A single row does not differ from its mean, and so stands for rows none of which does.
    share = total / informative if total.any() else label_statistics(mean[None, :])[1]
    statistics = np.zeros((2, len(fitted.classes_in)))
    statistics[:, present] = mean, share
    return OutputFilter(
        classes_in=fitted.classes_in,
        plan=LabelPlan([*fitted.removed, label]),
        means=np.vstack([fitted.means, statistics[0]]),
        shares=np.vstack([fitted.shares, statistics[1]]),
        counts=(*fitted.counts, int(count)),
        method=fitted.method,
        input=fitted.input,
    )


def _summed(
    rows: DataFrame, fitted: OutputFilter, function: Callable[[Float64s], Float64s]
) -> tuple[float, Float64s]:
    """Filter the rows, transform them by a function, and give the count and sum of the results."""
    n_labels = len(fitted.classes_in)

    def sum_rows(batches: Batches) -> Batches:
        total = np.zeros(1 + len(fitted.retained_columns))
        for batch in batches:
            lists = batch.column(0).flatten().to_numpy()
            advanced = fitted.apply_checked(lists.reshape(-1, n_labels).astype(np.float64))
            summed = function(np.asarray(advanced, dtype=np.float64))
            total[0] += len(summed)
            total[1:] += np.ascontiguousarray(summed.T).sum(axis=1)  # contiguous: pairwise
        yield _as_batch(total)

    def add_up(batches: Batches) -> Batches:
        sums = [batch.column(0).flatten().to_numpy().reshape(len(batch), -1) for batch in batches]
        yield _as_batch(np.concatenate(sums).sum(axis=0))

    # Not added up on the driver: the sum of a partition with a single row would be that row.
    sums_of_parts = rows.mapInArrow(on_one_thread(sum_rows), SUMS).repartition(1)
    [[sums]] = sums_of_parts.mapInArrow(add_up, SUMS).collect()
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
