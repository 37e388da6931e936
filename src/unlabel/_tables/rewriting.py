"""The answers of a filter to rows of a table, whatever layout the table has."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unlabel._method.run import restrict
from unlabel._plans.outcome import Outcome
from unlabel._tables.allowing import allowed_labels, check_lists
from unlabel._tables.files.writing import plain_labels
from unlabel._tables.label_columns import updated_labels
from unlabel._tables.partial import filter_partial, require_partial
from unlabel._tables.predictions import Part, Reading
from unlabel._typing import Booleans, Columns, Float64s, Floats, Label
from unlabel.allow import Allowed, BoundLists
from unlabel.answers import AnswerRule, answer_columns, check_rule
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, outcome_of_filter

OLD_LABEL, TOP_LABEL = "old_label", "top_label"
REMOVED_MASS, NOT_ALLOWED = "removed_mass", "not_allowed"
CERTAIN, ONLY_REMOVED = "certain", "only_removed"
ADDED = (OLD_LABEL, TOP_LABEL, CERTAIN, ONLY_REMOVED, REMOVED_MASS, NOT_ALLOWED)
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
    rule: AnswerRule | None = None
    allow: BoundLists | None = None
    allow_by: str | None = None  # the column with each row's list, where lists have names
    update_column: str | None = None


class Rewritten(NamedTuple):
    """New confidences of a part's rows, and the columns that change or come with them."""

    confidences: Floats
    added: dict[str, pa.Array]
    updated: dict[str, pa.Array]
    changed: Booleans  # whether the answer did
    kept: Booleans | None = None  # the rows that are written, if not all
    unknown: int = 0  # the number of rows whose answer is unknown
    only_removed: int = 0  # the number of other rows, which name removed labels only

    def as_logs(self, dtype: npt.DTypeLike) -> Rewritten:
        """Return logarithms of the confidences, in a float type."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.confidences).clip(LOG_OF_NOTHING, 0.0)
        return self._replace(confidences=logs.astype(dtype))


@dataclass(frozen=True)
class Rewriting:
    """How a filter rewrites the rows of a table, wherever they come from."""

    fitted: OutputFilter
    options: ApplyOptions

    def __post_init__(self) -> None:
        check_lists(self.options.allow, self.options.allow_by)
        self._check_rule()
        if self.options.reading.partial:
            require_partial(self.fitted)
            self._refuse_whole_row_options()
        elif self.options.reading.other_labels != "error":
            problem = "Only partial rows may name other labels than the model's."
            raise UnlabelError(problem, argument="other_labels")

    def _check_rule(self) -> None:
        options, rule = self.options, self.options.rule
        if rule is None:
            return
        if not (options.top_label or options.only_changed or options.update_column):
            problem = "A rule decides about answers, and none is written: add the top label."
            raise UnlabelError(problem, argument="rule")
        check_rule(rule, self.fitted.classes_out)

    def _refuse_whole_row_options(self) -> None:
        if self.options.allow is not None:
            problem = "Lists of allowed labels need whole rows, and these may be partial."
            raise UnlabelError(problem, argument="allow")
        if self.options.reading.normalize:
            problem = "Only whole rows can be divided by their sums, and these may be partial."
            raise UnlabelError(problem, argument="normalize")

    @cached_property
    def outcome(self) -> Outcome:
        """What becomes of the model's labels."""
        return outcome_of_filter(self.fitted)

    @property
    def needed(self) -> list[str]:
        """The columns beside the confidences that must be there."""
        names = (self.options.allow_by, self.options.update_column)
        return [name for name in names if name is not None]

    @property
    def first_sources(self) -> Columns:
        """The column of the first label that goes to each label of the result."""
        retained, merge = self.outcome.retained, self.outcome.merge
        return retained if merge is None else retained[merge.sources[merge.starts]]

    @cached_property
    def rule(self) -> AnswerRule:
        """The rule that was given, or that of the largest label."""
        return self.options.rule or AnswerRule()

    def of(self, part: Part, rows: Floats) -> Rewritten:
        """Check and filter the rows of a part, and answer them."""
        if self.options.reading.partial:
            return self._of_partial(part, rows)
        classes, allowed = self.fitted.classes_out, None
        if self.options.allow is not None:
            allowed = allowed_labels(self.options.allow, self.options.allow_by, part)
        found = self.fitted.run(rows if allowed is None else self._fine(rows))
        confidences, mass = found.confidences, found.removed_mass
        answers = answer_columns(self.rule, classes, confidences, mass, allowed)
        before, unknown = rows.argmax(axis=1), int(np.count_nonzero(answers < 0))
        rewritten = self._answered(part, before, answers, mass, allowed)
        if allowed is not None:
            confidences = confidences.copy()
            rewritten.added[NOT_ALLOWED] = pa.array(restrict(confidences, *allowed))
            confidences = confidences.astype(rows.dtype, copy=False)
        return rewritten._replace(confidences=confidences, unknown=unknown)

    def _fine(self, rows: Floats) -> Floats:
        """Return rows in a type that keeps what little the allowed labels may have."""
        is_linear = self.fitted.kind == "probabilities" and self.fitted.temperature == 1
        kind = np.promote_types(rows.dtype, np.float32 if is_linear else np.float64)
        return rows.astype(kind, copy=False)

    def _of_partial(self, part: Part, rows: Floats) -> Rewritten:
        found = filter_partial(self.fitted, rows, part.elsewhere())
        before = np.where(np.isnan(rows), -1.0, rows).argmax(axis=1)
        before[np.isnan(rows).all(axis=1)] = -1  # none of the model's labels was named
        named = np.nan_to_num(found.confidences, nan=0.0)
        classes, mass = self.fitted.classes_out, found.removed_mass
        answers = answer_columns(self.rule, classes, named, mass)
        is_unknown = answers < 0
        answers[found.only_removed] = -1
        rewritten = self._answered(part, before, answers, mass)
        if self.options.top_label or self.options.only_changed:
            rewritten.added[CERTAIN] = pa.array(found.certain)
            rewritten.added[ONLY_REMOVED] = pa.array(found.only_removed)
        return rewritten._replace(
            confidences=found.confidences,
            unknown=int(np.count_nonzero(is_unknown)),
            only_removed=int(np.count_nonzero(found.only_removed & ~is_unknown)),
        )

    def _answered(
        self,
        part: Part,
        before: Columns,
        answers: Columns,
        removed_mass: Float64s,
        allowed: Allowed | None = None,
    ) -> Rewritten:
        """Write answers, columns of the result's labels, as the options want them."""
        options = self.options
        changed = self.outcome.has_changed(before, answers) | (answers < 0)
        if self.rule.unknown is not None:
            answers = np.where(answers < 0, len(self.fitted.classes_out), answers)
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
        return Rewritten(np.empty(0), added, updated, changed, kept)

    @property
    def _answers(self) -> tuple[Label, ...]:
        """The result's labels and, behind them, unknown if it has a name."""
        unknown = self.rule.unknown
        return self.fitted.classes_out + (() if unknown is None else (unknown,))

    @cached_property
    def _labels(self) -> pa.Array:
        return pa.array(plain_labels(self._answers))

    @cached_property
    def _old_labels(self) -> pa.Array:
        return pa.array(plain_labels(self.fitted.classes_in))
