"""Reference rows that are set aside, since reference tables live longer than labels."""

from __future__ import annotations

from collections.abc import Sequence

from unlabel.labels import SHORT, is_missing, nearest, no_such_label
from unlabel._typing import Label
from unlabel.errors import UnlabelError


class SetAside:
    """Counts rows that have no true label, or one that the model does not have.

    Examples
    --------
    >>> aside = SetAside(["cat", "dog"])
    >>> aside.add("", rows=2)
    >>> aside.add("cta", rows=1)
    >>> print(aside)
    2 rows without a true label and 1 row of labels that the model does not have, such as 'cta' \
(the nearest is 'cat'), were set aside
    """

    def __init__(self, classes: Sequence[Label]) -> None:
        self.classes = classes
        self.without_label = self.of_other_labels = 0
        self.other_label: object = None  # the first one

    def add(self, label: object, rows: int) -> None:
        """Count rows of a true label that is not the model's, or that is missing."""
        if is_missing(label):
            self.without_label += rows
            return
        if not self.of_other_labels:
            self.other_label = label
        self.of_other_labels += rows

    @property
    def rows(self) -> int:
        """The number of rows that were set aside."""
        return self.without_label + self.of_other_labels

    @property
    def counted(self) -> str:
        """The rows that were set aside, in words."""
        parts = []
        if self.without_label:
            parts.append(f"{_rows(self.without_label)} without a true label")
        if self.of_other_labels:
            near = SHORT.repr(nearest(self.other_label, self.classes))
            parts.append(
                f"{_rows(self.of_other_labels)} of labels that the model does not have, such as "
                f"{SHORT.repr(self.other_label)} (the nearest is {near}),"
            )
        return " and ".join(parts)

    def __str__(self) -> str:
        return f"{self.counted} {'was' if self.rows == 1 else 'were'} set aside"

    def refuse_all(self, rows: int) -> None:
        """Refuse that all of the rows are set aside."""
        if not 0 < rows == self.rows:
            return
        if self.of_other_labels:
            where = ", nor any other of the true labels"
            raise no_such_label(self.other_label, self.classes, where)
        raise UnlabelError("No row has a true label: give each reference row's true label.")


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"
