"""The impact of a change: the answers to rows before and after it, compared and counted.

An answer is the top label, or unknown where a rule says so. It has changed if the new one is not
the destination of the old one; becoming unknown is a change. The old answer was right if its
destination is the row's new true label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from unlabel._plans.outcome import Outcome
from unlabel._typing import Booleans, Columns, Float64s, Label

Values = dict[str, Any]

MOST_PAIRS = 100
COUNTS_OF_TRUTH = (
    *("rows_of_retained_labels", "right_before", "right_after"),
    *("corrected", "regressed", "neither"),
)
SHARES = ("changed", "unknown", "corrected", "regressed")  # that a label's rows have intervals for
Z = float(ndtri(0.975))  # of 95% intervals


def wilson_intervals(counts: npt.ArrayLike, rows: npt.ArrayLike) -> tuple[Float64s, Float64s]:
    """Compute the 95% intervals of Wilson for shares of rows.

    SciPy's ``binomtest(...).proportion_ci(method="wilson")`` takes one share at a time.

    Examples
    --------
    >>> low, high = wilson_intervals([0, 5, 50], [1, 10, 100])
    >>> low.round(3), high.round(3)
    (array([0.   , 0.237, 0.404]), array([0.793, 0.763, 0.596]))
    """
    count, n = np.asarray(counts, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    centre = (count + Z**2 / 2) / (n + Z**2)
    half = Z / (n + Z**2) * np.sqrt(count * (n - count) / n + Z**2 / 4)
    low, high = np.where(count == 0, 0.0, centre - half), np.where(count == n, 1.0, centre + half)
    return low, high


@dataclass(frozen=True)
class Answers:
    """The answers to the judged rows, as columns of the model's labels and of the result's."""

    classes_in: tuple[Label, ...]
    outcome: Outcome
    before: Columns
    top: Columns
    is_unknown: Booleans | None  # None if unknown is not an answer
    true_columns: Columns | None  # the result's columns, negative where the new label is not known

    @cached_property
    def after(self) -> Columns:
        """The new answers: columns of the result's labels, and their number for unknown."""
        if self.is_unknown is None:
            return self.top
        return np.where(self.is_unknown, len(self.outcome.classes), self.top)

    @cached_property
    def changed(self) -> Booleans:
        """Whether each answer is another than the destination of the old one."""
        changed = self.outcome.has_changed(self.before, self.top)
        return changed if self.is_unknown is None else changed | self.is_unknown

    @cached_property
    def kinds(self) -> dict[str, Booleans]:
        """The rows that are of retained labels, right before, right after, and so on."""
        if self.true_columns is None:
            return {}
        judged = self.true_columns >= 0
        before = judged & (self.outcome.columns[self.before] == self.true_columns)
        after = judged & (self.after == self.true_columns)
        return {
            "rows_of_retained_labels": judged,
            "right_before": before,
            "right_after": after,
            "corrected": after & ~before,
            "regressed": before & ~after,
            "neither": judged & (before == after),
        }

    def counts(self) -> Values:
        """Count the rows of each kind; the counts without true labels, or unknown, are None."""
        kinds = {
            "rows": np.ones_like(self.changed),
            "changed": self.changed,
            "unknown": self.is_unknown,
        } | {kind: self.kinds.get(kind) for kind in COUNTS_OF_TRUTH}
        return {kind: None if of is None else int(of.sum()) for kind, of in kinds.items()}

    def pairs(self) -> tuple[list[Values], Values]:
        """Count the changed answers from one label to another, largest first, and the rest."""
        every = counted_pairs(self.before[self.changed], self.after[self.changed])
        listed = [
            {"from": self.classes_in[old], "to": self.answer(new), "rows": rows}
            for old, new, rows in every[:MOST_PAIRS]
        ]
        rest = every[MOST_PAIRS:]
        return listed, {"pairs": len(rest), "rows": sum(rows for *_, rows in rest)}

    def answer(self, column: int) -> Label | None:
        """Return the label of an answer, None if it is unknown."""
        classes = self.outcome.classes
        return classes[column] if column < len(classes) else None

    def by_label(self, labels: Sequence[Label], of_row: Columns) -> list[Values]:
        """Count the rows of each label that has any, with intervals for their shares.

        A label that is removed or split has no rows that could be corrected or regressed.
        """

        def count(kind: Booleans) -> Columns:
            return np.bincount(of_row[kind], minlength=len(labels))

        rows = count(np.ones_like(self.changed))
        present = np.flatnonzero(rows)
        every = {"changed": (self.changed, rows), "unknown": (self.is_unknown, rows)}
        if self.kinds:
            judged = count(self.kinds["rows_of_retained_labels"])
            every |= {kind: (self.kinds[kind], judged) for kind in ("corrected", "regressed")}
        entries: list[Values] = [
            {"label": labels[column], "rows": rows[column]} | dict.fromkeys(SHARES)
            for column in present.tolist()
        ]
        for name, (kind, over) in every.items():
            if kind is None:
                continue
            counts = count(kind)[present]
            intervals = wilson_intervals(counts, rows[present])
            cells = zip(entries, over[present], counts, *intervals, strict=True)
            for entry, n_over, n_rows, low, high in cells:
                if n_over:
                    entry[name] = {"rows": n_rows, "low": low, "high": high}
        return entries

    def most_common(self, groups: Columns, n_groups: int, most: int) -> list[list[Values]]:
        """Count the most common answers to the rows of each group; -1 is not a group."""
        at = np.flatnonzero(groups >= 0)
        rows = np.bincount(groups[at], minlength=n_groups).tolist()
        listed: list[list[Values]] = [[] for _ in range(n_groups)]
        for group, column, count in counted_pairs(groups[at], self.after[at]):
            if len(listed[group]) < most:
                listed[group].append(
                    {"label": self.answer(column), "rows": count, "share": count / rows[group]}
                )
        return listed


def counted_pairs(first: Columns, second: Columns) -> list[tuple[int, int, int]]:
    """Count the rows of each pair of columns, the largest count first."""
    width = int(second.max(initial=0)) + 1
    codes, rows = np.unique(first.astype(np.int64) * width + second, return_counts=True)
    order = np.argsort(-rows, kind="stable")
    columns = (*np.divmod(codes[order], width), rows[order])
    return list(zip(*(column.tolist() for column in columns), strict=True))
