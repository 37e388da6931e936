"""Checked rows, their true labels and sums over them.

Rows are processed in blocks, so that no second table of their size is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._method.run import in_chunks
from unlabel._typing import Columns, Float64s, Floats, Kind, Label
from unlabel.errors import UnlabelError
from unlabel.labels import as_classes, as_labels, known_columns, no_such_label
from unlabel.validation import as_array, check_rows, distinct_labels

Labels = Iterable[Any]


def judged_rows(
    confidences: Any, labels: Any, classes: Labels, over: Labels | None, kind: Kind
) -> tuple[Floats, Columns, Columns, int]:
    """Check rows and their true labels.

    Returns the rows, the column of each true label (-1 if it is not an output), its position in
    `over` (-1 if it is not judged) and the length of `over`.
    """
    names = as_classes(classes)
    groups = names if over is None else as_classes(over, "over")
    rows = checked_rows(confidences, kind, names)
    distinct, inverse = distinct_labels(labels)
    if len(inverse) != len(rows):
        raise UnlabelError(
            f"There are {len(rows)} rows of confidences and {len(inverse)} true labels: give one "
            "true label per row."
        )
    column, group = (known_columns(distinct, known)[inverse] for known in (names, groups))
    if len(rows) and max(column.max(), group.max()) < 0:
        raise UnlabelError(
            f"None of the true labels, such as {distinct[inverse[0]]!r}, is among the labels, such "
            f"as {names[0]!r}: write both the same way."
        )
    return rows, column, group, len(groups)


def group_means(values: npt.NDArray[Any], group: Columns, n_groups: int) -> Float64s:
    """Average the values of each group: NaN for an empty one, group -1 is left out."""
    counts = group >= 0
    total = np.bincount(group[counts], values[counts], minlength=n_groups)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.bincount(group[counts], minlength=n_groups))


def checked_rows(confidences: Any, kind: Kind, names: Sequence[Label] | None = None) -> Floats:
    """Check rows of confidences, which must have at least one column."""
    rows = as_array(confidences, names)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise UnlabelError(
            f"The confidences have the shape {rows.shape}: give rows, with a column per label."
        )
    check_rows(rows, kind, range(rows.shape[1]) if names is None else names)
    return rows


def rows_and_columns(
    confidences: Any, classes: Labels, chosen: Labels, what: str
) -> tuple[Floats, Columns]:
    """Check rows of probabilities, and find the columns of some of their labels."""
    names, labels = as_classes(classes), as_labels(chosen, what)
    columns = known_columns(labels, names)
    if (columns < 0).any():
        raise no_such_label(labels[int(np.argmin(columns))], names, argument=what)
    return checked_rows(confidences, "probabilities", names), columns


def comparable_rows(one: Any, other: Any) -> tuple[Floats, Floats]:
    """Check that two tables of probabilities can be compared."""
    a, b = checked_rows(one, "probabilities"), checked_rows(other, "probabilities")
    if a.shape != b.shape:
        raise UnlabelError(
            f"Outputs of shapes {a.shape} and {b.shape} cannot be compared: give "
            "the same rows and the same labels in the same order."
        )
    return a, b


def by_row(function: Callable[..., npt.NDArray[Any]], *tables: npt.NDArray[Any]) -> Float64s:
    """Apply a function to blocks of rows, so that intermediate arrays stay in the cache."""

    def work(rows: slice) -> npt.NDArray[Any]:
        return function(*(table[rows] for table in tables))

    blocks = in_chunks(work, tables[0].shape, copied=True)
    return np.concatenate(blocks or [function(*tables)])


def row_sums(rows: Floats) -> Float64s:
    """Sum each row in float64."""
    return np.asarray(rows.sum(axis=1, dtype=np.float64))


def normalised(rows: Floats) -> Float64s:
    """Divide each row by its sum, in float64."""
    return np.asarray(rows / row_sums(rows)[:, None])


def kl_of(
    p: Floats, q: Floats, *, epsilon: float, reduce: Callable[[Float64s], Float64s] | None = None
) -> Float64s:
    """Compute KL(p ‖ q) of each row; `reduce` turns the columns of `q` into those of `p`."""
    p, q = normalised(p), normalised(q)
    q = q if reduce is None else reduce(q)
    # scipy.special.rel_entr gives the same values and takes four times as long.
    logs = np.log(np.maximum(p, epsilon) / np.maximum(q, epsilon))
    return np.asarray(np.maximum(np.vecdot(p, logs), 0.0))


def mean_of_known(values: npt.NDArray[Any]) -> float:
    """Average the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else np.nan
