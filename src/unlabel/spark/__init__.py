"""Fit filters on Spark DataFrames and apply them, for tables that outgrow one machine.

Rows stay on the executors, which need `unlabel` installed. A filter travels to them with
the task; a fit returns a sample of rows to the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unlabel.errors import needs_extra

with needs_extra("spark"):
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
    from pyspark.sql import DataFrame

from unlabel._tables.columns.output import ColumnOutput, target_columns
from unlabel._tables.rewriting import ApplyOptions, Rewriting
from unlabel._typing import Kind
from unlabel.allow import bind
from unlabel.answers import AnswerRule
from unlabel.filter import OutputFilter, require_filter
from unlabel.spark.batches import find_confidences, rewritten, row_errors
from unlabel.spark.fitting import fit

__all__ = ["apply", "fit", "row_errors"]


def apply(
    df: DataFrame,
    filter: OutputFilter,
    *,
    columns: str | Sequence[str] | None = None,
    kind: Kind | None = None,
    top_label: bool = False,
    removed_mass: bool = False,
    only_changed: bool = False,
    update_column: str | None = None,
    rule: AnswerRule | None = None,
    allow: Any = None,
    allow_by: str | None = None,
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
    kind : {"probabilities", "logits"}, optional
        The kind of confidences, by default the kind that the filter was fitted on.
    top_label, removed_mass : bool
        Add the new top label, or the probability of the removed labels, as a column of that name.
    only_changed : bool
        Keep only rows whose top label changed, with the columns `old_label` and `top_label`.
    update_column : str, optional
        A column of labels, such as predictions, to bring up to date. The old top label becomes
        the new one; another label becomes its destination, or the new top label if it was
        removed or split, or its destination is not allowed. Other texts stay.
    rule : AnswerRule, optional
        When the new top label is unknown: null, unless the rule has a name for it.
    allow : labels, mapping of names to labels, or path, optional
        The labels of the result that rows may have. The column `not_allowed` has the probability
        of the others.
    allow_by : str, optional
        The column with the name of each row's list, where `allow` has names.

    Returns
    -------
    DataFrame
        The same columns with the result's labels in the place of the model's, and with the
        numbers that ``filter.apply`` gives, in the float type of the input.
    """
    require_filter(filter)
    source = find_confidences(df.schema, columns, filter.classes_in)
    # A copy travels without the values that the filter has cached.
    fitted = replace(filter, kind=kind or filter.kind)
    lists = None
    if allow is not None:
        lists = bind(allow, fitted)
    options = ApplyOptions(
        top_label=top_label,
        removed_mass=removed_mass,
        only_changed=only_changed,
        update_column=update_column,
        rule=rule,
        allow=lists,
        allow_by=allow_by,
    )
    target = target_columns(fitted, source)
    return rewritten(df, ColumnOutput(Rewriting(fitted, options), source, target))
