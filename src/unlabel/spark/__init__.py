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

from unlabel._tables.allowing import allowing
from unlabel._tables.columns.output import ColumnOutput, target_columns
from unlabel._tables.rewriting import ApplyOptions, Rewriting
from unlabel._typing import InputKind, Label, Scores
from unlabel.allow import AllowLists, Missing, Unmatched
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
    update_column: str | None = None,
    unknown_above: float | None = None,
    unknown: Label | None = None,
    allow: AllowLists | None = None,
    allow_by: str | None = None,
    missing: Missing = "error",
    unmatched: Unmatched = "error",
    scores: Scores = "renormalised",
    not_allowed: bool = False,
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
        The kind of confidences, by default the kind that the filter was fitted on.
    top_label, removed_mass : bool
        Add the new top label, or the mass of the retired labels, as a column of that name.
    only_changed : bool
        Keep only rows whose top label changed, with the columns `old_label` and `top_label`.
    update_column : str, optional
        A column of labels, such as predictions, to bring up to date. The old top label becomes
        the new one; another label becomes its destination, or the new top label if it was
        retired or split, or its destination is not allowed. Other texts stay.
    unknown_above : float, optional
        The new top label is unknown if the removed mass is above this.
    unknown : label, optional
        The name for unknown, by default "unknown". Labels of other types become texts beside it.
    allow : AllowLists, optional
        Lists of the labels that rows may have.
    allow_by : str, optional
        The column with each row's list, if there is more than one list.
    missing, unmatched
        As `unlabel.AllowLists.rows` describes them.
    scores : {"renormalised", "absolute"}
        With `allow`, divide the allowed labels by their sum, or leave them as they are.
    not_allowed : bool
        Add the mass of the labels that are not allowed as a column of that name.

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
    options = ApplyOptions(
        top_label=top_label,
        removed_mass=removed_mass,
        only_changed=only_changed,
        allow=allowing(
            fitted,
            allow,
            by=allow_by,
            missing=missing,
            unmatched=unmatched,
            scores=scores,
            not_allowed=not_allowed,
        ),
        unknown_above=unknown_above,
        unknown=unknown,
        update_column=update_column,
    )
    target = target_columns(fitted, source)
    return rewritten(df, ColumnOutput(Rewriting(fitted, options), source, target))
