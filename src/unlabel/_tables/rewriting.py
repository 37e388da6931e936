"""The answers of a filter to rows of a table, whatever layout the table has."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from unlabel._labels import as_labels
from unlabel._tables.allowing import Allowing
from unlabel._tables.label_columns import updated_labels
from unlabel._tables.predictions import Part, Reading
from unlabel._tables.writing import plain_labels
from unlabel._typing import Booleans, Columns, Floats, Label
from unlabel.allow import Allowed
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

OLD_LABEL, TOP_LABEL = "old_label", "top_label"
REMOVED_MASS, NOT_ALLOWED = "removed_mass", "not_allowed"
ADDED = (OLD_LABEL, TOP_LABEL, REMOVED_MASS, NOT_ALLOWED)
UNKNOWN = "unknown"
# The logarithm of nothing, as language models' APIs write it: JSON cannot hold infinity.
LOG_OF_NOTHING = -9999.0


@dataclass(frozen=True)
class ApplyOptions:
    """The options of `apply`, whichever engine reads and writes the table."""

    reading: Reading = field(default_factory=Reading)
    top_label: bool = False
    removed_mass: bool = False
    only_changed: bool = False
    overwrite: bool = False
    allow: Allowing | None = None
    unknown_above: float | None = None
    unknown: Label | None = None  # the answer above it, by default UNKNOWN
    update_column: str | None = None


class Rewritten(NamedTuple):
    """New confidences of a part's rows, and the columns that change or come with them."""

    confidences: Floats
    added: dict[str, pa.Array]
    updated: dict[str, pa.Array]
    changed: Booleans  # whether the answer did
    kept: Booleans | None = None  # the rows that are written, if not all
    upper: Floats | None = None  # the other ends of the confidences' intervals

    def as_logs(self) -> Rewritten:
        """Give logarithms of the confidences."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.confidences).clip(LOG_OF_NOTHING, 0.0)
        return self._replace(confidences=logs)


@dataclass(frozen=True)
class Rewriting:
    """How a filter rewrites the rows of a table, wherever they come from."""

    fitted: OutputFilter
    options: ApplyOptions

    def __post_init__(self) -> None:
        _check_unknown(self.options, self.fitted)

    @property
    def needed(self) -> list[str]:
        """The columns beside the confidences that must be there."""
        allow = self.options.allow
        names = (None if allow is None else allow.by, self.options.update_column)
        return [name for name in names if name is not None]

    @property
    def first_sources(self) -> Columns:
        """The column of the first label that goes to each label of the result."""
        outcome = self.fitted.outcome
        if outcome.merge is None:
            return outcome.retained
        return outcome.retained[outcome.merge.sources[outcome.merge.starts]]

    def allowed(self, part: Part) -> Allowed | None:
        """Find the labels that each row of a part may have, if not all."""
        allow = self.options.allow
        return None if allow is None else allow.of_rows(part)

    def of(self, part: Part, rows: Floats, allowed: Allowed | None = None) -> Rewritten:
        """Rewrite a part with its validated `rows`."""
        options, allow = self.options, self.options.allow
        filtered = self.fitted.filter_checked(
            rows,
            with_mass=options.removed_mass or options.unknown_above is not None,
            allowed=allowed,
            absolute=allow is not None and allow.scores == "absolute",
        )
        before, answers = rows.argmax(axis=1), _top(filtered.rows, allowed)
        changed = self.fitted.has_changed(before, answers)
        if options.unknown_above is not None and filtered.removed_mass is not None:
            is_unknown = filtered.removed_mass > options.unknown_above
            answers[is_unknown] = len(self.fitted.classes)
            changed |= is_unknown
        updated, name = {}, options.update_column
        if name is not None:
            updated[name] = updated_labels(
                part.cells(name), name, self.fitted, before, answers, self._answers, allowed
            )
        added = {}
        if options.only_changed:
            added[OLD_LABEL] = self._old_labels.take(pa.array(before))
        if options.top_label or options.only_changed:
            added[TOP_LABEL] = self._labels.take(pa.array(answers))
        if options.removed_mass:
            added[REMOVED_MASS] = pa.array(filtered.removed_mass)
        if allow is not None and allow.not_allowed:
            added[NOT_ALLOWED] = pa.array(filtered.not_allowed)
        kept = changed if options.only_changed else None
        return Rewritten(filtered.rows, added, updated, changed, kept)

    @property
    def _answers(self) -> tuple[Label, ...]:
        """The result's labels and, behind them, unknown if it may be the answer."""
        if self.options.unknown_above is None:
            return self.fitted.classes
        return *self.fitted.classes, _unknown(self.options)

    @cached_property
    def _labels(self) -> pa.Array:
        return pa.array(plain_labels(self._answers))

    @cached_property
    def _old_labels(self) -> pa.Array:
        return pa.array(plain_labels(self.fitted.classes_in))


def _top(rows: Floats, allowed: Allowed | None) -> Columns:
    """Find the top label of each row; it is an allowed one even if all of them have nothing."""
    top: Columns = rows.argmax(axis=1)
    if allowed is not None:
        nothing = np.flatnonzero(rows.max(axis=1, initial=0.0) == 0)
        top[nothing] = allowed.lists[allowed.of_row[nothing]].argmax(axis=1)
    return top


def _unknown(options: ApplyOptions) -> Label:
    return UNKNOWN if options.unknown is None else options.unknown


def _check_unknown(options: ApplyOptions, fitted: OutputFilter) -> None:
    """Refuse a threshold or a name for unknown that cannot be meant."""
    above = options.unknown_above
    if above is None:
        if options.unknown is not None:
            raise UnlabelError(
                "unknown (--unknown) is the answer above a removed mass: give that with "
                "unknown_above (--unknown-above)."
            )
        return
    if not 0 <= above <= 1:
        raise UnlabelError(
            f"unknown_above (--unknown-above) is {above}: give a probability, from 0 to 1."
        )
    if not (options.top_label or options.only_changed or options.update_column):
        raise UnlabelError(
            "unknown_above (--unknown-above) changes answers and none is written: add top_label "
            "(--top-label)."
        )
    [unknown] = as_labels([_unknown(options)], "unknown")
    if not str(unknown) or str(unknown) in map(str, fitted.classes):
        which = f"{unknown!r} is a label of the result" if str(unknown) else "Unknown has no name"
        raise UnlabelError(f"{which}: give another name with unknown (--unknown).")
