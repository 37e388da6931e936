"""Filters fitted on and applied to Spark DataFrames, for tables that outgrow one machine.

Rows stay on the executors, which need `unlabel` installed. A filter travels to them with
the task, and what comes back to the driver from a fit are sums over all rows of a label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

try:
    import pyarrow  # noqa: F401
    from pyspark.sql import DataFrame
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "unlabel.spark needs PySpark: pip install 'unlabel[spark]'.", name=error.name
    ) from error

from unlabel._tables.streaming import Rewriting
from unlabel._typing import InputKind, Method
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, require_filter
from unlabel.spark.batches import find_columns, rewritten
from unlabel.spark.fitting import fit_distributed

__all__ = ["apply", "fit", "row_errors"]


def apply(
    df: DataFrame,
    filter: OutputFilter,
    *,
    columns: str | Sequence[str] | None = None,
    input: InputKind | None = None,
    top_label: bool = False,
    removed_mass: bool = False,
    only_changed: bool = False,
) -> DataFrame:
    """Apply a filter to the confidences of a DataFrame.

    Nothing is computed until an action asks for rows. Wrap the action in `row_errors` to
    get an `UnlabelError` for a bad row.

    Parameters
    ----------
    df : DataFrame
        Confidences in one column per label, or in one array column; any further columns.
    filter : OutputFilter
    columns : str or list of str, optional
        The array column, or the columns in the order of ``filter.classes_in``. By default
        the columns named after the labels or, if there are none, the only array column.
    input : {"probabilities", "logits"}, optional
        What the confidences are, by default what the filter was fitted on.
    top_label, removed_mass : bool
        Add the new top label, or what the removed labels held, as a column of that name.
    only_changed : bool
        Keep only rows whose top label changed.

    Returns
    -------
    DataFrame
        The same columns without those of removed labels, and with the numbers that
        ``filter.apply`` gives, in the float type of the input.
    """
    require_filter(filter)
    source = find_columns(df.schema, columns, filter.classes_in)
    # A copy: what the filter has computed for itself need not travel.
    taking = replace(filter.taking(input))
    rewriting = Rewriting(taking, source, source, top_label, removed_mass, only_changed)
    return rewritten(df, rewriting)


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

    Rows of labels that remain are not looked at, except for their true labels.

    Parameters
    ----------
    df : DataFrame
        Confidences in one column per label, or in one array column, and true labels.
    remove, keep, method, input
        As `unlabel.LabelRemover` describes them.
    columns : str or list of str, optional
        The array column, or the columns of the labels in order. By default the columns
        named after `classes` or, if there are none, the only array column.
    classes : list of labels, optional
        The labels of the model, by default `columns`, or 0, 1, ... for an array column.
    label_column : str
        The column of true labels. Numbers are labels of that value, doubles as Spark ML
        has them too; texts are labels that are written so.
    calibrate : bool
        Must be False: a temperature takes many passes over all rows, and a sample does.

    Returns
    -------
    OutputFilter
        What `unlabel.LabelRemover` fits on the same rows, within 1e-12.
    """
    if calibrate:
        raise UnlabelError(
            "calibrate=True is not distributed: fit without it, and set the temperature that "
            "LabelRemover(..., calibrate=True) finds on a sample of the rows."
        )
    with row_errors():
        return fit_distributed(
            df,
            remove=remove,
            keep=keep,
            columns=columns,
            classes=classes,
            label_column=label_column,
            method=method,
            input=input,
        )


@contextmanager
def row_errors() -> Iterator[None]:
    """Raise what an executor says of a bad row as an `UnlabelError`, in one sentence.

    Spark runs a lazy DataFrame when an action asks for its rows, and reports what went
    wrong on an executor with the stack traces of both machines.

    Examples
    --------
    >>> with row_errors():  # doctest: +SKIP
    ...     apply(df, retired).write.parquet("kept.parquet")
    """
    try:
        yield
    except Exception as error:
        name = re.escape(f"{UnlabelError.__module__}.{UnlabelError.__name__}")
        said = re.search(f"{name}: (.+)", str(error))
        if said is None:
            raise
        raise UnlabelError(said[1]) from None
