"""Read tables of predictions, and write them with a filter applied.

Tables may have any layout that `unlabel apply` takes, and need the extra `cli`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt

from unlabel._typing import Floats, Label, Progress
from unlabel.allow import bind
from unlabel.answers import AnswerRule
from unlabel.errors import needs_extra
from unlabel.filter import OutputFilter
from unlabel.labels import as_classes
from unlabel.validation import choice

with needs_extra("cli"):
    from unlabel._tables import streaming
    from unlabel._tables.files.streams import refuse_standard_input
    from unlabel._tables.opening import open_predictions
    from unlabel._tables.predictions import (
        TABLE_KINDS,
        Format,
        OtherLabels,
        TableKind,
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
    kind: TableKind = "probabilities",
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
    kind : {"probabilities", "logits", "log-probabilities"}
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
    choice(kind, TABLE_KINDS, "kind")
    reading = reading_of(
        kind,
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
        kind=kind_of(kind) or "probabilities",
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
    rule: AnswerRule | None = None,
    allow: Any = None,
    allow_by: str | None = None,
    kind: TableKind | None = None,
    format: Format | None = None,
    list_column: str | None = None,
    key: str | None = None,
    long: Sequence[str] | None = None,
    separator: str | None = None,
    normalize: bool = False,
    partial: bool = False,
    other_labels: OtherLabels = "error",
    force: bool = False,
    progress: Progress | None = None,
) -> Applied:
    r"""Write a table of predictions with a filter applied to it, as `unlabel apply` does.

    The table is read and written batch by batch. It appears whole or not at all.

    Parameters
    ----------
    filter : OutputFilter
    source, target : path
        The table and the one to write, in the same layout; ``"-"`` is standard input or output.
    top_label, removed_mass : bool
        Add the new top label, and the probability of the removed labels, as columns of these names.
    only_changed : bool
        Write only rows whose top label changed, with the columns ``old_label`` and ``top_label``.
    update_column : str, optional
        A column of labels, such as predictions, to bring up to date.
    rule : AnswerRule, optional
        When the new top label is unknown: an empty cell, unless the rule has a name for it.
    allow : labels, mapping of names to labels, or path, optional
        The labels of the result that rows may have. The column ``not_allowed`` has the probability
        of the others.
    allow_by : str, optional
        The column with the name of each row's list, where `allow` has names.
    kind : {"probabilities", "logits", "log-probabilities"}, optional
        What the table holds, by default what the filter was fitted on. Log-probabilities stay
        log-probabilities.
    format, list_column, key, long, separator, normalize
        As in `read`.
    partial : bool
        Whether rows may name only some labels, which are assumed to be those with the largest
        scores, as in top-k answers. Needs probabilities, and a mask without a temperature or a
        filter that removes nothing. A label of the result with the score s becomes s / (1 - d),
        where d is what the row names for removed labels. With `top_label`, the column ``certain``
        says whether the whole row would have the same largest label, and ``only_removed`` whether
        nothing but removed labels was named, which leaves no answer.
    other_labels : {"error", "removed"}
        Whether labels in partial rows that the model does not have are an error, or count as
        removed.
    force : bool
        Whether an existing file may be replaced.
    progress : function, optional
        Called with the fraction of the table read so far.

    Returns
    -------
    Applied
        The numbers of `rows` read, `changed` in their top label, `written` and answered with
        `unknown`, and `remarks`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "old.csv").write_text("id,cat,dog,fox\n7,.5,.25,.25\n8,0,.5,.5\n")
    >>> mask = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
    >>> apply_table(mask, folder / "old.csv", folder / "new.csv", top_label=True)
    Applied(rows=2, changed=1, written=2, unknown=0, remarks=())
    >>> print((folder / "new.csv").read_text())
    id,dog,fox,top_label
    7,0.5,0.5,dog
    8,0.5,0.5,dog
    <BLANKLINE>
    """
    if kind is not None:
        choice(kind, TABLE_KINDS, "kind")
    reading = reading_of(
        kind,
        format=format,
        list_column=list_column,
        key=key,
        long=long,
        separator=separator,
        normalize=normalize,
        partial=partial,
        other_labels=other_labels,
    )
    fitted = replace(filter, kind=kind_of(kind) or filter.kind)
    lists = None
    if allow is not None:
        lists = bind(allow, fitted)
    options = ApplyOptions(
        reading=reading,
        top_label=top_label,
        removed_mass=removed_mass,
        only_changed=only_changed,
        overwrite=force,
        rule=rule,
        allow=lists,
        allow_by=allow_by,
        update_column=update_column,
    )
    return streaming.apply_table(fitted, Path(source), Path(target), options, progress or _ignore)


def _ignore(part: float) -> None:
    pass
