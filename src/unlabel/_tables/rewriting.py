"""The answers of a filter to rows of a table, whatever layout the table has."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from unlabel._labels import as_labels
from unlabel._partial import filter_partial, require_partial
from unlabel._tables.allowing import Allowing
from unlabel._tables.files.writing import plain_labels
from unlabel._tables.label_columns import updated_labels
from unlabel._tables.predictions import UPPER, Part, Reading
from unlabel._typing import Booleans, Columns, Float64s, Floats, Label
from unlabel.allow import Allowed
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter

OLD_LABEL, TOP_LABEL = "old_label", "top_label"
REMOVED_MASS, NOT_ALLOWED = "removed_mass", "not_allowed"
CERTAIN, ONLY_RETIRED = "certain", "only_retired"
ADDED = (
    *(OLD_LABEL, TOP_LABEL, CERTAIN, ONLY_RETIRED),
    *(REMOVED_MASS, f"{REMOVED_MASS}{UPPER}", NOT_ALLOWED),
)
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
    interval: bool = False  # whether both ends of the result of partial rows are written
    top_k: bool = False  # whether partial rows name the labels with the largest scores


class Rewritten(NamedTuple):
    """New confidences of a part's rows, and the columns that change or come with them."""

    confidences: Floats
    added: dict[str, pa.Array]
    updated: dict[str, pa.Array]
    changed: Booleans  # whether the answer did
    kept: Booleans | None = None  # the rows that are written, if not all
    upper: Floats | None = None  # the upper ends of confidences that are lower ends
    unanswered: int = 0  # the number of rows that name retired labels only, and are not unknown

    def as_logs(self) -> Rewritten:
        """Give logarithms of the confidences."""
        upper = None if self.upper is None else _logs(self.upper)
        return self._replace(confidences=_logs(self.confidences), upper=upper)


def _logs(confidences: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(confidences).clip(LOG_OF_NOTHING, 0.0))


@dataclass(frozen=True)
class Rewriting:
    """How a filter rewrites the rows of a table, wherever they come from."""

    fitted: OutputFilter
    options: ApplyOptions

    def __post_init__(self) -> None:
        _check_unknown(self.options, self.fitted)
        _check_partial(self.options, self.fitted)

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
        if self.options.reading.partial:
            return self._of_partial(part, rows)
        options, allow = self.options, self.options.allow
        filtered = self.fitted.filter_checked(
            rows,
            with_mass=options.removed_mass or options.unknown_above is not None,
            allowed=allowed,
            absolute=allow is not None and allow.scores == "absolute",
        )
        before, answers = rows.argmax(axis=1), _top(filtered.rows, allowed)
        rewritten = self._answered(
            part, filtered.rows, before, answers, filtered.removed_mass, allowed
        )
        if allow is not None and allow.not_allowed:
            rewritten.added[NOT_ALLOWED] = pa.array(filtered.not_allowed)
        return rewritten

    def _of_partial(self, part: Part, rows: Floats) -> Rewritten:
        options = self.options
        found = filter_partial(self.fitted, rows, part.elsewhere(), largest=options.top_k)
        before = np.where(np.isnan(rows), -1.0, rows).argmax(axis=1)
        before[np.isnan(rows).all(axis=1)] = -1  # none of the model's labels was named
        rewritten = self._answered(part, found.lower, before, found.top.copy(), found.removed_mass)
        added, only_retired, certain = rewritten.added, found.top < 0, found.certain
        unanswered = only_retired
        if options.unknown_above is not None:
            is_unknown = found.removed_mass > options.unknown_above
            cannot_be = found.removed_mass_upper <= options.unknown_above
            certain, unanswered = is_unknown | (certain & cannot_be), only_retired & ~is_unknown
        if options.top_label or options.only_changed:
            added[CERTAIN], added[ONLY_RETIRED] = pa.array(certain), pa.array(only_retired)
        if options.removed_mass and options.interval:
            added[f"{REMOVED_MASS}{UPPER}"] = pa.array(found.removed_mass_upper)
        return rewritten._replace(
            upper=found.upper if options.interval else None,
            unanswered=int(unanswered.sum()),
        )

    def _answered(
        self,
        part: Part,
        confidences: Floats,
        before: Columns,
        answers: Columns,
        removed_mass: Float64s | None,
        allowed: Allowed | None = None,
    ) -> Rewritten:
        """Give answers, columns of the result's labels, as the options want them."""
        options = self.options
        changed = self.fitted.has_changed(before, answers) | (answers < 0)
        if options.unknown_above is not None and removed_mass is not None:
            is_unknown = removed_mass > options.unknown_above
            answers[is_unknown] = len(self.fitted.classes)
            changed |= is_unknown
        updated, name = {}, options.update_column
        if name is not None:
            updated[name] = updated_labels(
                part.cells(name), name, self.fitted, before, answers, self._answers, allowed
            )
        added = {}
        if options.only_changed:
            added[OLD_LABEL] = self._old_labels.take(pa.array(before, mask=before < 0))
        if options.top_label or options.only_changed:
            added[TOP_LABEL] = self._labels.take(pa.array(answers, mask=answers < 0))
        if options.removed_mass:
            added[REMOVED_MASS] = pa.array(removed_mass)
        kept = changed if options.only_changed else None
        return Rewritten(confidences, added, updated, changed, kept)

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


def _check_partial(options: ApplyOptions, fitted: OutputFilter) -> None:
    """Refuse filters and options that need whole rows, and options that need partial ones."""
    if options.reading.partial:
        require_partial(fitted)
        if options.allow is not None:
            raise UnlabelError("Lists of allowed labels need whole rows: leave out --partial.")
        if options.reading.normalize:
            raise UnlabelError("Only whole rows can be divided by their sums: leave out --partial.")
        return
    for option, is_given in (
        ("interval (--interval)", options.interval),
        ("top_k (--top-k)", options.top_k),
        ("other_labels (--other-labels)", options.reading.other_labels != "error"),
    ):
        if is_given:
            raise UnlabelError(f"{option} is for partial rows: add partial (--partial).")


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
