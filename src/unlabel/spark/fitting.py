"""Fit a filter on a sample of a DataFrame's rows, chosen by hash, as on one machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions, types

from unlabel._method.sampling import row_hashes, text_hashes
from unlabel._plans.outcome import REMOVED, Outcome, outcome_of
from unlabel._skipped import SkippedRows
from unlabel._tables.columns.layout import ListColumn, TableColumns, require_columns
from unlabel._tables.files.array_files import list_column
from unlabel._tables.labels import true_labels
from unlabel._typing import KINDS, METHODS, Columns, Floats, Kind, Label, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter
from unlabel.fitting import MOST_CALIBRATED, MOST_REFERENCES, fit_filter
from unlabel.labels import as_classes, label_array
from unlabel.plan import plan_for
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

LABEL_TYPES = (types.StringType, types.NumericType, types.BooleanType, types.DateType)
# Enough rows of labels that stay to tell confidences from chance.
ENOUGH_STAYING = 500


@row_errors()
def fit(
    df: DataFrame,
    *,
    plan: Any = None,
    remove: Iterable[Any] | None = None,
    keep: Iterable[Any] | None = None,
    columns: str | Sequence[str] | None = None,
    classes: Iterable[Any] | None = None,
    label_column: str = "label",
    method: Method = "osr",
    kind: Kind = "probabilities",
    calibrate: bool = False,
    allow_chance: bool = False,
) -> OutputFilter:
    """Fit a filter on the reference rows of a DataFrame.

    Executors choose at most 500 rows of each removed label, and with `calibrate` 20,000 rows of
    labels that stay, by the hash of their numbers: however the rows are distributed, it is the
    same rows, and the same filter that `unlabel.OutputFilter.fit` fits on all of them. Rows
    without a true label, and rows of labels that the model does not have, are skipped, and a
    warning counts them.

    Parameters
    ----------
    df : DataFrame
        Confidences in one column per label, or in one array column, and true labels.
    plan, remove, keep, method, kind, calibrate, allow_chance
        As `unlabel.OutputFilter.fit` describes them.
    columns : str or list of str, optional
        The array column, or the columns of the labels in order. By default the columns
        named after `classes` or, if there are none, the only array column.
    classes : list of labels, optional
        The labels of the model, by default `columns`, or 0, 1, ... for an array column.
    label_column : str
        The column of true labels. A number, a double of Spark ML too, is the label of that
        value; a string is the label with that text.
    """
    choice(method, METHODS, "method")
    choice(kind, KINDS, "kind")
    names = None if classes is None else as_classes(classes)
    source = find_confidences(df.schema, columns, names)
    if isinstance(source, ListColumn) and names is None:
        source = replace(source, classes=tuple(range(_array_length(df, source.name))))
    names = names or source.classes
    plan = plan_for(names, plan=plan, remove=remove, keep=keep)
    outcome = outcome_of(plan, names)
    if not calibrate and (method == "mask" or not len(outcome.removed)):
        return replace(OutputFilter.from_plan(plan, classes=names, kind=kind), method=method)
    _check_label_column(df, label_column, source)
    sample = Sample.of(outcome, names, MOST_CALIBRATED if calibrate else ENOUGH_STAYING)
    chosen = _collected(df, CheckedRows(source, kind), label_column, sample)
    skipped = SkippedRows(names)
    is_row = chosen["position"].to_numpy() >= 0
    for count in chosen.filter(~is_row).sort_by("other").to_pylist():
        skipped.add(count["other"], count["hash"])
    chosen = chosen.filter(is_row).sort_by("hash")
    skipped.refuse_all(len(chosen) + skipped.rows)
    entries = chosen["confidences"].combine_chunks().flatten()
    rows = entries.to_numpy(zero_copy_only=False).reshape(len(chosen), len(names))
    fitted = fit_filter(
        rows,
        label_array(names)[chosen["position"].to_numpy()],
        classes=names,
        plan=plan,
        kind=kind,
        method=method,
        calibrate=calibrate,
        allow_chance=allow_chance,
        skipped=skipped,
    )
    for remark in fitted.remarks:
        warnings.warn(remark, stacklevel=3)  # the line that calls `fit`
    return OutputFilter(**fitted.state)


@dataclass(frozen=True, eq=False)
class Sample:
    """A choice of rows by hash: at most so many of each removed label, and of all that stay.

    Its batches have the position of each row's true label, the row's hash and its confidences.
    Rows of position -1 are counts of skipped rows instead: a number, and one of their labels.
    """

    classes: tuple[Label, ...]
    new_labels: tuple[Label, ...]  # true labels that are known and say nothing about the model's
    groups: Columns  # of each position; the last is that of counts
    limits: Columns  # of each group

    @classmethod
    def of(cls, outcome: Outcome, classes: tuple[Label, ...], staying: int) -> Sample:
        """Plan the choice of rows for an outcome, with a limit to all labels that stay."""
        n = len(classes)
        groups = np.append(np.where(outcome.columns == REMOVED, np.arange(n), n), n + 1)
        limits = np.full(n + 2, MOST_REFERENCES)
        limits[n:] = staying, np.iinfo(np.intp).max
        new_labels = tuple(label for label in outcome.classes if label not in {*classes})
        return cls(classes, new_labels, groups, limits)

    def read(self, batches: Iterator[tuple[pa.RecordBatch, Floats]], label_column: str) -> Batches:
        """Yield the rows of labels that the model has, and then counts of all others."""
        skipped, hashes = SkippedRows(self.classes), text_hashes(self.classes)
        for batch, rows in batches:
            known = (*self.classes, *self.new_labels)
            positions = true_labels(batch.column(label_column), label_column, known, skipped)
            at = np.flatnonzero((positions >= 0) & (positions < len(self.classes)))
            mixed = row_hashes(rows[at], hashes[positions[at]]).view(np.int64)
            lists = list_column(rows[at])
            lists = lists.cast(pa.list_(lists.type.value_type))
            yield _batch(positions[at], mixed, lists, pa.nulls(len(at), pa.string()))
            nothing = pa.nulls(2, lists.type)
        if skipped.rows:
            counts = np.array([skipped.without_label, skipped.of_other_labels])
            others = pa.array([None, str(skipped.other_label)], pa.string())
            counted = _batch(np.array([-1, -1]), counts, nothing, others)
            yield counted.filter(pa.array(counts > 0))

    def choose(self, batches: Batches) -> Batches:
        """Yield the rows of each group with the lowest hashes."""
        kept: list[pa.RecordBatch] = []
        enough = 2 * int(np.minimum(self.limits, self.limits[-2] + MOST_REFERENCES).sum())
        for batch in batches:
            kept.append(batch)
            if sum(map(len, kept)) > enough:
                kept = self._lowest(kept)
        yield from self._lowest(kept) if kept else []

    def _lowest(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        table = pa.Table.from_batches(batches)
        groups = self.groups[table["position"].to_numpy()]
        order = np.lexsort((table["hash"].to_numpy().view(np.uint64), groups))
        ordered = groups[order]
        rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        chosen = table.take(order[rank < self.limits[ordered]])
        return [*chosen.combine_chunks().to_batches()]


def _batch(positions: Columns, hashes: Any, lists: pa.Array, others: pa.Array) -> pa.RecordBatch:
    columns = pa.array(positions, pa.int64()), pa.array(hashes, pa.int64()), lists, others
    return pa.RecordBatch.from_arrays([*columns], ["position", "hash", "confidences", "other"])


def _collected(df: DataFrame, checked: CheckedRows, label_column: str, sample: Sample) -> pa.Table:
    """Choose rows on the executors, among each partition's and then among the chosen ones."""
    wanted = [*checked.source.names, label_column]
    named_by = naming_column(df.schema, wanted)
    wanted += [] if named_by is None else [named_by]
    rows = numbered(df).select(*(column_of(df, name).alias(name) for name in wanted))
    empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(rows.schema))
    number = "float" if checked.source.read(empty).dtype == np.float32 else "double"
    schema = f"position long, hash long, confidences array<{number}>, other string"
    checked = replace(checked, named_by=named_by)

    def choose(batches: Batches) -> Batches:
        return sample.choose(sample.read(checked.of(batches), label_column))

    chosen = map_batches(rows, choose, schema).repartition(1)
    return chosen.mapInArrow(on_one_thread(sample.choose), schema).toArrow()


def _check_label_column(df: DataFrame, name: str, source: TableColumns) -> None:
    require_columns(df.columns, [name], TABLE)
    kind = df.schema[name].dataType
    if name in source.names:
        problem = f"The column {name!r} holds confidences and cannot hold the true labels too."
        raise UnlabelError(problem, argument="label_column")
    if not isinstance(kind, LABEL_TYPES):
        problem = f"The column {name!r} has the type {kind.simpleString()}: give true labels."
        raise UnlabelError(problem, argument="label_column")


def _array_length(df: DataFrame, name: str) -> int:
    first = numbered(df).select(functions.size(column_of(df, name))).first()
    if first is None or first[0] is None or first[0] < 1:
        problem = f"The first row has no list in column {name!r} to count labels by: name them."
        raise UnlabelError(problem, argument="classes")
    return int(first[0])
