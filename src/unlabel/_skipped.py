"""Rows that are skipped, since reference tables live longer than labels."""

from __future__ import annotations

from collections.abc import Sequence

from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.labels import SHORT, is_missing, nearest, no_such_label


class SkippedRows:
    """Counts rows that have no true label, or one that the model does not have.

    Examples
    --------
    >>> skipped = SkippedRows(["cat", "dog"])
    >>> skipped.add("", rows=2)
    >>> skipped.add("cta", rows=1)
    >>> print(skipped)
    2 rows without a true label and 1 row of labels that the model does not have, such as 'cta' \
(the nearest is 'cat'), were skipped
    """

    def __init__(self, classes: Sequence[Label]) -> None:
        self.classes = classes
        self.without_label = self.of_other_labels = 0
        self.other_label: object = None  # the first one

    def add(self, label: object, rows: int) -> None:
        """Count rows of a true label that is not the model's, or that is missing."""
        if is_missing(label):
            self.without_label += rows
        else:
            self.other_label = self.other_label if self.of_other_labels else label
            self.of_other_labels += rows

    @property
    def rows(self) -> int:
        """The number of rows that were skipped."""
        return self.without_label + self.of_other_labels

    def __str__(self) -> str:
        parts = [f"{_rows(self.without_label)} without a true label"] if self.without_label else []
        if self.of_other_labels:
            near = nearest(self.other_label, self.classes)
            hint = "" if near is None else f" (the nearest is {SHORT.repr(near)})"
            parts.append(
                f"{_rows(self.of_other_labels)} of labels that the model does not have, such as "
                f"{SHORT.repr(self.other_label)}{hint},"
            )
        return f"{' and '.join(parts)} {'was' if self.rows == 1 else 'were'} skipped"

    def refuse_all(self, rows: int) -> None:
        """Raise an error if all of the rows are skipped."""
        if 0 < rows == self.rows:
            if self.of_other_labels:
                raise no_such_label(self.other_label, self.classes, argument="labels")
            problem = "No row has a true label: give each reference row's true label."
            raise UnlabelError(problem, argument="labels")


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"
