"""Fit filters on Spark DataFrames and apply them, for tables that outgrow one machine.

Rows stay on the executors, which need `unlabel` installed. A filter travels to them with
the task; a fit returns nothing to the driver but sums over all rows of a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unlabel.errors import needs_extra

with needs_extra("spark"):
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
    from pyspark.sql import DataFrame

from unlabel._tables.rewriting import ApplyOptions, Rewriting, target_columns
from unlabel._typing import InputKind
from unlabel.filter import OutputFilter, require_filter
from unlabel.spark.batches import find_confidences, rewritten, row_errors
from unlabel.spark.fitting import fit

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
        Add the new top label, or the mass of the retired labels, as a column of that name.
    only_changed : bool
        Keep only rows whose top label changed.

    Returns
    -------
    DataFrame
        The same columns with the result's labels in the place of the model's, and with the
        numbers that ``filter.apply`` gives, in the float type of the input.
    """
    require_filter(filter)
    source = find_confidences(df.schema, columns, filter.classes_in)
    # A copy travels without the values that the filter has cached.
    fitted = replace(filter.taking(input))
    options = ApplyOptions(top_label, removed_mass, only_changed)
    target = target_columns(fitted, source)
    return rewritten(df, Rewriting(fitted, source, target, options))
