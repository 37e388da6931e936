"""Read tables of predictions, and write them with a filter applied.

Tables may have any layout that `unlabel apply` takes, and need the extra `cli`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from unlabel._labels import as_classes
from unlabel._typing import Floats, Label, Progress, Scores
from unlabel.allow import AllowLists, Missing, Unmatched
from unlabel.errors import needs_extra
from unlabel.filter import OutputFilter
from unlabel.validation import choice

with needs_extra("cli"):
    from unlabel._tables import streaming
    from unlabel._tables.allowing import allowing
    from unlabel._tables.files.streams import refuse_standard_input
    from unlabel._tables.opening import open_predictions
    from unlabel._tables.predictions import (
        TABLE_INPUTS,
        Format,
        OtherLabels,
        TableInput,
        kind_of,
        reading_of,
    )
    from unlabel._tables.rewriting import ApplyOptions
    from unlabel._tables.streaming import Applied

__all__ = ["Applied", "TableRows", "apply_table", "read"]


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table.

    Attributes
    ----------
    confidences : array of shape (n_rows, n_labels)
        Probabilities or logits; NaN where a partial row does not name a label.
    classes : tuple of labels
        The labels of the columns.
    labels : array of shape (n_rows,), or None
        The true labels, if the table has them.
    """

    confidences: Floats
    classes: tuple[Label, ...]
    labels: npt.NDArray[Any] | None = None


def read(
    path: str | os.PathLike[str],
    *,
    classes: Sequence[Label] | None = None,
    label_column: str = "label",
    input: TableInput = "probabilities",
    format: Format | None = None,
    list_column: str | None = None,
    key: str | None = None,
    long: Sequence[str] | None = None,
    separator: str | None = None,
    normalize: bool = False,
    partial: bool = False,
    progress: Progress | None = None,
) -> TableRows:
    r"""Read a whole table of predictions.

    Parameters
    ----------
    path : path
        The file; its ending is its format unless `format` is given.
    classes : list of labels, optional
        The labels of the model. By default those that the table names: in its columns, or in
        its first row.
    label_column : str
        The column or field of true labels, if there is one. Every row must have one of the
        `classes` then.
    input : {"probabilities", "logits", "log-probabilities"}
        What the table holds. Log-probabilities are turned into probabilities.
    format : {"parquet", "feather", "csv", "tsv", "jsonl", "npy", "npz"}, optional
    list_column : str, optional
        The list, struct or map column with the confidences, if there are several.
    key : str, optional
        The place of the scores in a JSON line, such as ``"choices.0.scores"``.
    long : (id, label, score), optional
        The columns of a long table, in which each row has one label of one id.
    separator : str, optional
        The separator of a csv file.
    normalize : bool
        Divide each row by its sum.
    partial : bool
        Whether rows may name only some labels.
    progress : function, optional
        Called with the fraction of the file read so far.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "predictions.csv")
    >>> _ = file.write_text("id,cat,dog\n7,.25,.75\n8,.5,.5\n")
    >>> rows = read(file, classes=["cat", "dog"])
    >>> rows.confidences
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    refuse_standard_input(path)
    choice(input, TABLE_INPUTS, "input")
    reading = reading_of(
        input,
        format=format,
        list_column=list_column,
        key=key,
        long=long,
        separator=separator,
        normalize=normalize,
        partial=partial,
    )
    known = None if classes is None else as_classes(classes)
    predictions = open_predictions(path, known, reading, label_column=label_column)
    has_truth = predictions.has(label_column)
    if has_truth:
        predictions.require_truth(label_column)
    rows, labels, _ = streaming.read_confidences(
        predictions,
        input=kind_of(input) or "probabilities",
        label_column=label_column if has_truth else None,
        progress=progress or _ignore,
        reading=reading,
    )
    return TableRows(rows, predictions.classes, labels)


def apply_table(
    filter: OutputFilter,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    top_label: bool = False,
    removed_mass: bool = False,
    only_changed: bool = False,
    update_column: str | None = None,
    unknown_above: float | None = None,
    unknown: Label | None = None,
    allow: AllowLists | None = None,
    allow_by: str | None = None,
    allow_unmatched: Unmatched = "error",
    allow_missing: Missing = "error",
    scores: Scores = "renormalised",
    not_allowed: bool = False,
    input: TableInput | None = None,
    format: Format | None = None,
    list_column: str | None = None,
    key: str | None = None,
    long: Sequence[str] | None = None,
    separator: str | None = None,
    normalize: bool = False,
    partial: bool = False,
    interval: bool = False,
    top_k: bool = False,
    other_labels: OtherLabels = "error",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Applied:
    r"""Write a table of predictions with a filter applied to it, as `unlabel apply` does.

    The table is read and written batch by batch. It appears whole or not at all.

    Parameters
    ----------
    filter : OutputFilter
    source, target : path
        The table and the one to write, in the same layout; ``"-"`` is standard input or output.
    top_label, removed_mass, not_allowed : bool
        Add the new top label, the mass of the retired labels, and the mass of labels that are
        not allowed as columns of these names.
    only_changed : bool
        Write only rows whose top label changed, with the columns ``old_label`` and ``top_label``.
    update_column : str, optional
        A column of labels, such as predictions, to bring up to date.
    unknown_above : float, optional
        The new top label is `unknown` where the retired labels had more than this.
    unknown : label, optional
        The name for it, by default ``"unknown"``.
    allow : AllowLists, optional
        Lists of allowed labels.
    allow_by : str, optional
        The column with each row's list, if there is more than one list.
    allow_unmatched, allow_missing, scores
        As in `AllowLists.rows` and `OutputFilter.apply`.
    input : {"probabilities", "logits", "log-probabilities"}, optional
        What the table holds, by default what the filter was fitted on. Log-probabilities stay
        log-probabilities.
    format, list_column, key, long, separator, normalize
        As in `read`.
    partial : bool
        Whether rows may name only some labels, as top-k answers do. Needs a mask, or a filter
        that retires nothing. A label with the score s becomes s / (1 - d), where d is what the
        row names for retired labels. With `top_label`, the column ``certain`` says whether the
        whole row would have the same answer, and ``only_retired`` whether nothing else was named.
    interval : bool
        Write the largest value too that a label of a partial row can have, with the suffix
        ``_upper``.
    top_k : bool
        Whether partial rows name the labels with the largest scores, which makes more answers
        certain and the intervals narrower.
    other_labels : {"error", "retired"}
        Whether labels in partial rows that the model does not have are refused, or count as
        retired.
    overwrite : bool
        Whether an existing file may be replaced.
    progress : function, optional
        Called with the fraction of the table read so far.

    Returns
    -------
    Applied
        The numbers of `rows` read, `changed` in their top label and `written`, and `remarks`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "old.csv").write_text("id,cat,dog,fox\n7,.5,.25,.25\n8,0,.5,.5\n")
    >>> mask = OutputFilter.mask(["cat", "dog", "fox"], ["cat"])
    >>> apply_table(mask, folder / "old.csv", folder / "new.csv", top_label=True)
    Applied(rows=2, changed=1, written=2, remarks=())
    >>> print((folder / "new.csv").read_text())
    id,dog,fox,top_label
    7,0.5,0.5,dog
    8,0.5,0.5,dog
    <BLANKLINE>
    """
    if input is not None:
        choice(input, TABLE_INPUTS, "input")
    reading = reading_of(
        input,
        format=format,
        list_column=list_column,
        key=key,
        long=long,
        separator=separator,
        normalize=normalize,
        partial=partial,
        other_labels=other_labels,
    )
    fitted = filter.taking(kind_of(input))
    options = ApplyOptions(
        reading=reading,
        top_label=top_label,
        removed_mass=removed_mass,
        only_changed=only_changed,
        overwrite=overwrite,
        allow=allowing(
            fitted,
            allow,
            by=allow_by,
            missing=allow_missing,
            unmatched=allow_unmatched,
            scores=scores,
            not_allowed=not_allowed,
        ),
        unknown_above=unknown_above,
        unknown=unknown,
        update_column=update_column,
        interval=interval,
        top_k=top_k,
    )
    return streaming.apply_table(fitted, Path(source), Path(target), options, progress or _ignore)


def _ignore(part: float) -> None:
    pass
