"""What the metrics share: rows with their true labels, and sums over them.

Rows are worked on block by block, so that no second table of their size is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._labels import as_classes, as_labels, known_columns, no_such_label
from unlabel._method.split import row_blocks
from unlabel._typing import Columns, Float64s, Floats, InputKind, Label
from unlabel.errors import UnlabelError
from unlabel.validation import as_confidences, check_columns, column_names, distinct_labels

Labels = Iterable[Any]


def judged_rows(
    confidences: Any, labels: Any, classes: Labels, over: Labels | None, kind: InputKind
) -> tuple[Floats, Columns, Columns, int]:
    """Rows, the column of each one's true label, its place in `over`, and the length of `over`.

    The column is -1 where the label is not among the outputs, the place where it is not judged.
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
    column, group = (known_columns(distinct, of)[inverse] for of in (names, groups))
    if len(rows) and max(column.max(), group.max()) < 0:
        raise UnlabelError(
            f"None of the true labels, such as {distinct[inverse[0]]!r}, is among the labels, such "
            f"as {names[0]!r}: write both alike."
        )
    return rows, column, group, len(groups)


def group_means(values: npt.NDArray[Any], group: Columns, n_groups: int) -> Float64s:
    """Mean of each group's values, NaN for an empty one; group -1 does not count."""
    counts = group >= 0
    total = np.bincount(group[counts], values[counts], minlength=n_groups)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.bincount(group[counts], minlength=n_groups))


def checked_rows(
    confidences: Any, kind: InputKind, names: tuple[Label, ...] | None = None
) -> Floats:
    """Rows of confidences with at least one column."""
    rows = as_confidences(confidences, kind, names)
    if rows.shape[1] == 0:
        raise UnlabelError("The confidences have no columns: give one per label.")
    return rows


def rows_and_columns(
    confidences: Any, classes: Labels, chosen: Labels, what: str
) -> tuple[Floats, Columns]:
    """Rows of probabilities, and the columns of some labels."""
    names, labels = as_classes(classes), as_labels(chosen, what)
    columns = known_columns(labels, names)
    if (columns < 0).any():
        raise no_such_label(labels[int(np.argmin(columns))], names)
    return checked_rows(confidences, "probabilities", names), columns


def comparable_rows(one: Any, other: Any, *, same_rows: bool = True) -> tuple[Floats, Floats]:
    """Rows of probabilities that can be compared."""
    check_columns(column_names(other), column_names(one))
    a, b = checked_rows(one, "probabilities"), checked_rows(other, "probabilities")
    if a.shape[1] != b.shape[1] or (same_rows and len(a) != len(b)):
        raise UnlabelError(
            f"Outputs of shapes {a.shape} and {b.shape} cannot be compared: give "
            f"{'the same rows and ' * same_rows}the same labels in the same order."
        )
    return a, b


def by_row(of: Callable[..., npt.NDArray[Any]], *tables: npt.NDArray[Any]) -> Float64s:
    """Work on rows block by block, so that what is built on the way stays in the cache."""
    blocks = zip(*(row_blocks(table, tables[0].shape[1]) for table in tables), strict=True)
    return np.concatenate([of(*block) for block in blocks] or [of(*tables)])


def row_sums(rows: Floats) -> Float64s:
    """Sums of rows in float64."""
    return np.asarray(rows.sum(axis=1, dtype=np.float64))


def normalised(rows: Floats) -> Float64s:
    """Rows divided by their sums, in float64."""
    return np.asarray(rows / row_sums(rows)[:, None])


def mean_of_known(values: npt.NDArray[Any]) -> float:
    """Mean of what there is, NaN when there is nothing."""
    there = values[~np.isnan(values)]
    return float(there.mean()) if there.size else np.nan
