"""Labels that are named row by row, each with its score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unlabel._typing import Booleans, Columns, Floats, Label
from unlabel.errors import UnlabelError
from unlabel.labels import no_such_label

UNKNOWN = -1  # the position of a label that the model does not have


@dataclass(frozen=True, eq=False)
class Entries:
    """The labels that rows name, with their scores: those of row i from ``starts[i]`` on.

    Examples
    --------
    >>> entries = Entries(np.array([0, 2, 3]), np.array([1, 0, 1]), np.array([.7, .3, .6]))
    >>> entries.rows(["cat", "dog"], partial=True)
    array([[0.3, 0.7],
           [nan, 0.6]])
    """

    starts: Columns  # behind those of all rows, the number of entries
    labels: Columns  # positions among the labels of the model
    scores: Floats

    @property
    def of_row(self) -> Columns:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def only(self, kept: Booleans) -> Entries:
        """Leave out entries."""
        counts = np.bincount(self.of_row[kept], minlength=len(self.starts) - 1)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return Entries(starts, self.labels[kept], self.scores[kept])

    def added_up(self, *, are_logs: bool) -> Entries:
        """Add up the scores of a label that a row names several times."""
        order = np.lexsort((self.labels, self.of_row))
        row, label = self.of_row[order], self.labels[order]
        is_new = np.ones(len(order), dtype=np.bool_)
        is_new[1:] = (np.diff(row) != 0) | (np.diff(label) != 0)
        if is_new.all():
            return self
        add = np.logaddexp if are_logs else np.add
        firsts = np.flatnonzero(is_new)
        counts = np.bincount(row[firsts], minlength=len(self.starts) - 1)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return Entries(starts, label[firsts], add.reduceat(self.scores[order], firsts))

    def rows(self, classes: Sequence[Label], *, partial: bool = False) -> Floats:
        """Return one column per label, NaN where a partial row does not name it.

        A label that is named twice is refused, and unless rows may be partial, one that is missing.
        """
        of_row, n = self.of_row, len(classes)
        rows = np.full((len(self.starts) - 1, n), np.nan, dtype=self.scores.dtype)
        rows[of_row, self.labels] = self.scores
        for at in np.flatnonzero(np.isnan(self.scores)).tolist():
            label = classes[int(self.labels[at])]
            raise UnlabelError(
                f"It has no score for the label {label!r}: give it one.", row=int(of_row[at])
            )
        times = np.bincount(of_row * n + self.labels, minlength=rows.size)
        for at in np.flatnonzero(times > 1).tolist():
            row, label = divmod(at, n)
            raise UnlabelError(
                f"It names the label {classes[label]!r} twice: give it one score.", row=row
            )
        if not partial:
            for at in np.flatnonzero(times == 0).tolist():
                row, label = divmod(at, n)
                raise UnlabelError(
                    f"It does not name the label {classes[label]!r}: give the scores of "
                    "all labels, or say that rows are partial.",
                    argument="partial",
                    row=row,
                )
        return rows

    @classmethod
    def of(cls, rows: Floats, descending: Booleans) -> Entries:
        """Name every label that is not NaN, in the order of the labels or from the largest on."""
        order = np.tile(np.arange(rows.shape[1]), (len(rows), 1))
        if descending.any():
            order[descending] = np.argsort(-rows[descending], axis=1, kind="stable")
        scores = np.take_along_axis(rows, order, axis=1)
        is_named = ~np.isnan(scores)
        starts = np.concatenate([[0], np.cumsum(is_named.sum(axis=1))])
        return cls(starts, order[is_named], scores[is_named])

    def descending(self) -> Booleans:
        """Return which rows name no label before one with a larger score."""
        row, result = self.of_row, np.ones(len(self.starts) - 1, dtype=np.bool_)
        rises = (np.diff(self.scores) > 0) & (row[1:] == row[:-1])
        result[row[1:][rises]] = False
        return result


def refuse_other_labels(entries: Entries, texts: Sequence[Label], classes: Sequence[Label]) -> None:
    """Refuse labels that the model does not have; `texts` are the labels as they are named."""
    for at in np.flatnonzero(entries.labels == UNKNOWN).tolist():
        raise no_such_label(texts[at], classes, row=int(entries.of_row[at]))
