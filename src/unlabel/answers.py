"""One rule for answers: from a filtered row to a label, or to unknown."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from unlabel._files.atomic import whole_file
from unlabel._files.text_file import parse_toml, quoted, read_text
from unlabel._method.masses import NOTHING
from unlabel._plans.outcome import REMOVED, outcome_of
from unlabel._skipped import SkippedRows
from unlabel._typing import Booleans, Columns, Float64s, Floats, Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import as_labels, known_columns, no_such_label
from unlabel.validation import distinct_labels

if TYPE_CHECKING:
    from unlabel.allow import Allowed
    from unlabel.filter import OutputFilter

KEYS = ("min_confidence", "max_removed_mass", "unknown", "min_confidence_by_label")
# A share of correct answers is not read off fewer rows.
LEAST_ANSWERED = 100


@dataclass(frozen=True)
class AnswerRule:
    """When a filtered row is answered with its largest label, and when with unknown.

    Parameters
    ----------
    min_confidence : float or mapping
        The confidence that an answer needs, before an allow-list divides by the rest. A mapping
        has one per label; that of ``None`` is for all others.
    max_removed_mass : float
        The most probability on removed labels; above it the answer is unknown.
    unknown : label, optional
        What stands for unknown, by default None.

    Examples
    --------
    >>> from unlabel import OutputFilter
    >>> masked = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
    >>> rule = AnswerRule(min_confidence={None: .6, "fox": .9})
    >>> masked.answer([[0, .7, .3], [0, .55, .45], [0, .2, .8]], rule).tolist()
    ['dog', None, None]
    """

    min_confidence: float | Mapping[Label | None, float] = 0.0
    max_removed_mass: float = 1.0
    unknown: Label | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = self.min_confidence
        shares = given if isinstance(given, Mapping) else {None: given}
        for share in shares.values():
            _check_share(share, "min_confidence")
        _check_share(self.max_removed_mass, "max_removed_mass")
        if isinstance(given, Mapping):
            names = as_labels([name for name in given if name is not None], "min_confidence")
            by_label = {name: given[name] for name in (*([None] if None in given else []), *names)}
            object.__setattr__(self, "min_confidence", by_label)
        if self.unknown is not None:
            object.__setattr__(self, "unknown", as_labels([self.unknown], "unknown")[0])

    def __hash__(self) -> int:
        given = self.min_confidence
        least = frozenset(given.items()) if isinstance(given, Mapping) else given
        return hash((least, self.max_removed_mass, self.unknown))

    @classmethod
    def fit(
        cls,
        confidences: Any,
        labels: Any,
        filter: OutputFilter,
        *,
        target_accuracy: float | None = None,
        target_loss: float | None = None,
    ) -> AnswerRule:
        """Choose thresholds on rows that nothing was fitted on.

        Parameters
        ----------
        confidences, labels : arrays
            The model's outputs, and true labels of the model or of the result.
        filter : OutputFilter
        target_loss : float, optional
            The largest share of rows of labels that stay which `max_removed_mass` may answer
            with unknown. It is chosen first.
        target_accuracy : float, optional
            The share of correct answers that the smallest `min_confidence` is to reach, with at
            least 100 rows answered.

        Examples
        --------
        >>> import numpy as np
        >>> from unlabel import OutputFilter
        >>> masked = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
        >>> sure, torn = [[0, .9, .1]] * 150, [[0, .6, .4]] * 50
        >>> labels = ["dog"] * 150 + ["fox"] * 50
        >>> AnswerRule.fit(sure + torn, labels, masked, target_accuracy=.95).min_confidence
        0.9
        """
        if target_accuracy is None and target_loss is None:
            raise UnlabelError("Nothing to choose thresholds for: give a target accuracy or loss")
        found = filter.run(confidences)
        width = found.confidences.shape[-1]
        rows, mass = found.confidences.reshape(-1, width), found.removed_mass.ravel()
        skipped = SkippedRows(filter.classes_in)
        truth, correct = _judged(filter, labels, rows.argmax(axis=1), skipped)
        if skipped.rows:
            warnings.warn(f"{skipped}.", stacklevel=2)
        rows, mass, correct = rows[truth], mass[truth], correct[truth]
        if len(rows) == 0:
            raise UnlabelError("No row has a true label that stays: give rows that have one")
        rule = cls()
        if target_loss is not None:
            _check_share(target_loss, "target_loss")
            lost = int(target_loss * len(mass))
            limit = float(np.sort(mass)[::-1][lost]) if lost < len(mass) else 0.0
            rule = cls(max_removed_mass=min(limit, 1.0))
        if target_accuracy is None:
            return rule
        _check_share(target_accuracy, "target_accuracy")
        answered = mass <= rule.max_removed_mass
        threshold = _threshold(rows.max(axis=1)[answered], correct[answered], target_accuracy)
        return cls(min_confidence=threshold, max_removed_mass=rule.max_removed_mass)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AnswerRule:
        """Read a rule from a TOML file."""
        text, _ = read_text(path)
        with located(path):
            content = parse_toml(text)
            for key in content:
                if key not in KEYS:
                    raise UnlabelError(f"The key {key!r} is not known: use {', '.join(KEYS)}.")
            by_label = content.pop("min_confidence_by_label", None)
            if isinstance(by_label, dict):
                content["min_confidence"] = {None: content.get("min_confidence", 0.0)} | by_label
            elif by_label is not None:
                raise UnlabelError("Its min_confidence_by_label is not a table.")
            return cls(**content)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rule as a TOML file, whole or not at all."""
        given = self.min_confidence
        by_label = dict(given) if isinstance(given, Mapping) else {None: given}
        lines = [f"min_confidence = {float(by_label.pop(None, 0.0))!r}"]
        lines.append(f"max_removed_mass = {float(self.max_removed_mass)!r}")
        if self.unknown is not None:
            is_int = isinstance(self.unknown, int)
            lines.append(f"unknown = {self.unknown if is_int else quoted(self.unknown)}")
        lines += ["", "[min_confidence_by_label]"] if by_label else []
        lines += [f"{quoted(name)} = {float(share)!r}" for name, share in by_label.items()]
        with whole_file(path) as part:
            part.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")


def can_abstain(rule: AnswerRule) -> bool:
    """Whether any row could be answered with unknown."""
    return rule != AnswerRule(unknown=rule.unknown)


def check_rule(rule: AnswerRule, classes: Sequence[Label]) -> None:
    """Raise an error for a rule that does not fit the labels of a result."""
    if not isinstance(rule, AnswerRule):
        problem = f"The rule is a {type(rule).__name__}: give an AnswerRule."
        raise UnlabelError(problem, argument="rule")
    _least(rule, classes)
    if rule.unknown is not None and rule.unknown in classes:
        raise UnlabelError(
            f"{rule.unknown!r} stands for unknown and is a label of the result: choose another.",
            argument="unknown",
        )


def answer_labels(
    rule: AnswerRule, classes: Sequence[Label], columns: Columns
) -> npt.NDArray[np.object_]:
    """Return the labels of answers, given as columns of the result, -1 for unknown."""
    check_rule(rule, classes)
    names = np.empty(len(classes) + 1, dtype=object)
    names[:-1], names[-1] = classes, rule.unknown
    return names[columns]


def answer_columns(
    rule: AnswerRule,
    classes: Sequence[Label],
    rows: Floats,
    removed_mass: Float64s,
    allowed: Allowed | None = None,
) -> Columns:
    """Answer filtered rows, which no allow-list has divided, with columns, -1 for unknown."""
    check_rule(rule, classes)
    if allowed is not None:
        rows = np.where(allowed.lists[allowed.of_row], rows, 0.0)
    columns = rows.argmax(axis=1)
    largest = rows[np.arange(len(rows)), columns]
    least = _least(rule, classes)[columns].astype(rows.dtype)  # .7 of float32 is its .7
    is_known = (largest >= least) & (removed_mass <= rule.max_removed_mass)
    if allowed is not None:
        is_known &= rows.sum(axis=1) > NOTHING
    return np.where(is_known, columns, -1)


def _least(rule: AnswerRule, classes: Sequence[Label]) -> Float64s:
    """Return the confidence that each label of a result needs."""
    given = rule.min_confidence
    if not isinstance(given, Mapping):
        return np.full(len(classes), float(given))
    least = np.full(len(classes), float(given.get(None, 0.0)))
    column_of = {str(label): column for column, label in enumerate(classes)}
    for name, share in given.items():
        if name is not None and str(name) not in column_of:  # in a file labels are texts
            raise no_such_label(name, classes, owner="filter's result")
        if name is not None:
            least[column_of[str(name)]] = share
    return least


def _judged(
    filter: OutputFilter, labels: Any, answers: Columns, skipped: SkippedRows
) -> tuple[Booleans, Booleans]:
    """Return which rows have a label that stays, and which answers are correct."""
    outcome = outcome_of(filter.plan, filter.classes_in)
    distinct, positions = distinct_labels(np.ravel(np.asanyarray(labels, dtype=object)))
    if len(positions) != len(answers):
        raise UnlabelError(f"{len(answers)} rows have {len(positions)} true labels: give one each")
    old, new = (known_columns(distinct, each) for each in (filter.classes_in, filter.classes_out))
    for at in np.flatnonzero((old < 0) & (new < 0)).tolist():
        skipped.add(distinct[at], int(np.count_nonzero(positions == at)))
    old, new = old[positions], new[positions]
    is_old = old >= 0
    correct = np.where(is_old, ~outcome.has_changed(old, answers), new == answers)
    return np.where(is_old, outcome.columns[old] != REMOVED, new >= 0), correct


def _threshold(confidences: Floats, correct: Booleans, target: float) -> float:
    """Return the smallest threshold at which enough of the answered rows are correct."""
    order = np.argsort(confidences, kind="stable")[::-1]
    values, answered = confidences[order], np.arange(1, len(order) + 1)
    shares = np.cumsum(correct[order]) / answered
    is_last = np.append(values[1:] != values[:-1], True)  # rows of one confidence go together
    may_be = np.flatnonzero(is_last & (answered >= LEAST_ANSWERED))
    good = may_be[shares[may_be] >= target]
    if good.size:
        return 0.0 if good[-1] == len(order) - 1 else float(values[good[-1]])
    if not may_be.size:
        raise UnlabelError(
            f"{len(order)} rows could be answered, and a threshold needs {LEAST_ANSWERED}: give "
            "more rows of labels that stay"
        )
    raise UnlabelError(
        f"No threshold makes {target:.4g} of the answers correct: the best is "
        f"{shares[may_be].max():.4g}, with at least {LEAST_ANSWERED} rows answered",
        argument="target_accuracy",
    )


def _check_share(value: object, argument: str) -> None:
    is_number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= 1):  # type: ignore[operator]
        raise UnlabelError(
            f"The value {value!r} is not a share: give a number from 0 to 1", argument=argument
        )
