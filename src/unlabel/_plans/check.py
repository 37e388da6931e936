"""A plan compared with the labels of a model."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unlabel._plans.outcome import changes_by_column, matched, problems
from unlabel._plans.parts import Parts
from unlabel._printing import WIDTH, aligned
from unlabel._typing import Label
from unlabel.labels import SHORT, listing, nearest

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

Labels = tuple[Label, ...]
MOST_SHOWN = 8
MOST_COMPARISONS = 50_000  # some seconds at worst; labels beyond get no nearest one
ALIKE = 0.8  # how similar a misspelt label is, by `difflib`
DIGITS = re.compile(r"\d")  # these have to be the same, as they number things
COMPETING = "The parts of a split compete one by one for the top answer."


@dataclass(frozen=True)
class PlanCheck:
    """The result of comparing a plan with the labels of a model.

    Every label of the model is unchanged, renamed, merged, split or removed. ``str(check)`` is a
    table for people.

    Attributes
    ----------
    unchanged : tuple of labels
        Labels that go to themselves alone, and that no other label goes to.
    renamed : tuple of (label, new label)
        Labels that go to another one, where nothing else goes.
    merged : tuple of (label, destination)
        Labels with one destination that others go to as well.
    split : tuple of (label, destinations)
    removed : tuple of labels
        In the order of removal.
    merged_into : tuple of (destination, labels)
        The labels of the result that several labels go to.
    unlisted : tuple of labels
        Labels of the model that the plan does not list.
    unknown : tuple of (label, nearest label)
        Labels that the plan lists and the model does not have. The nearest label is None
        where none is near.
    misspelt : tuple of (new label, old label)
        New labels that are nearly written like a label of the model that does not go there.
    other_meaning : tuple of labels
        Labels that are in the result too, but are not unchanged.
    result : tuple of labels
        The result's labels.
    problems : tuple of str
        The reasons why the plan cannot be fitted, none if it can.
    never_answers : tuple of (label, parts)
        Splits, with the parts that can never be the top answer, as another part always has more.
    """

    unchanged: Labels
    renamed: tuple[tuple[Label, Label], ...]
    merged: tuple[tuple[Label, Label], ...]
    split: tuple[tuple[Label, Labels], ...]
    removed: Labels
    merged_into: tuple[tuple[Label, Labels], ...]
    unlisted: Labels
    unknown: tuple[tuple[Label, Label | None], ...]
    misspelt: tuple[tuple[Label, Label], ...]
    other_meaning: Labels
    result: Labels
    problems: tuple[str, ...]
    never_answers: tuple[tuple[Label, Labels], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the content as plain data that JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        into = f"into {len(self.merged_into):,}: " if self.merged_into else ""
        never = [part for _, parts in self.never_answers for part in parts]
        rows: list[tuple[str, int, str]] = [
            ("unchanged", len(self.unchanged), _labels(self.unchanged)),
            ("renamed", len(self.renamed), _each(self.renamed, "{} to {}".format)),
            ("merged", len(self.merged), into + _labels([to for to, _ in self.merged_into])),
            ("split", len(self.split), _labels([label for label, _ in self.split])),
            ("removed", len(self.removed), _labels(self.removed)),
        ]
        doubts = [
            ("not listed", len(self.unlisted), _labels(self.unlisted)),
            ("not in the model", len(self.unknown), _each(self.unknown, _with_nearest)),
            ("never answers", len(never), _labels(never)),
            ("misspelt?", len(self.misspelt), _each(self.misspelt, "{}, like {}".format)),
            ("other meaning", len(self.other_meaning), _labels(self.other_meaning)),
        ]
        rows += [row for row in doubts if row[1]]
        digits = max(len(f"{count:,}") for _, count, _ in rows)
        lines = aligned([(name, f"{count:{digits},}", text) for name, count, text in rows])
        lines += ["", *([COMPETING] if self.split else [])]
        if not self.problems:
            remain = "labels remain" if len(self.result) > 1 else "label remains"
            return "\n".join([*lines, f"The plan can be fitted: {len(self.result):,} {remain}."])
        lines.append("The plan cannot be fitted:")
        for problem in self.problems[:MOST_SHOWN]:
            lines += textwrap.wrap(problem, WIDTH, initial_indent="- ", subsequent_indent="  ")
        if len(self.problems) > MOST_SHOWN:
            lines.append(f"- and {len(self.problems) - MOST_SHOWN:,} more")
        return "\n".join(lines)


def check_of(plan: LabelPlan, classes: tuple[Label, ...]) -> PlanCheck:
    """Compare a plan with the labels of a model."""
    plan, known = matched(plan, classes), {*classes}
    changes = changes_by_column(plan, classes)
    sources: dict[Label, list[Label]] = {}  # of the result's labels, in their order
    sent: dict[Label, Parts] = {}
    for column, label in enumerate(classes):
        sent[label] = changes.get(column, ((label, 1.0),))
        for to, _ in sent[label]:
            sources.setdefault(to, []).append(label)
    one = {label: parts[0][0] for label, parts in sent.items() if len(parts) == 1}
    alone = {label: to for label, to in one.items() if len(sources[to]) == 1}
    split = {label: parts for label, parts in sent.items() if len(parts) > 1}
    unknown = [label for label in plan.changes if label not in known]
    compared = max(1, MOST_COMPARISONS // len(classes))
    return PlanCheck(
        unchanged=tuple(label for label, to in alone.items() if to == label),
        renamed=tuple((label, to) for label, to in alone.items() if to != label),
        merged=tuple((label, to) for label, to in one.items() if label not in alone),
        split=tuple((label, tuple(dict(parts))) for label, parts in split.items()),
        removed=tuple(classes[column] for column, parts in changes.items() if not parts),
        merged_into=tuple((to, tuple(each)) for to, each in sources.items() if len(each) > 1),
        unlisted=tuple(label for label in classes if label not in plan.changes),
        unknown=tuple(
            (label, nearest(label, classes) if at < compared else None)
            for at, label in enumerate(unknown)
        ),
        misspelt=tuple(
            (new, old)
            for new in [to for to in sources if to not in known][:compared]
            if (old := nearest(new, classes, ALIKE)) is not None
            and old not in sources[new]
            and DIGITS.findall(str(old)) == DIGITS.findall(str(new))
        ),
        other_meaning=tuple(to for to in sources if to in known and alone.get(to) != to),
        result=tuple(sources),
        problems=tuple(map(str, problems(plan, classes, changes))),
        never_answers=tuple(
            (label, never) for label in split if (never := _never_answers(split[label], sources))
        ),
    )


def _never_answers(parts: Parts, sources: dict[Label, list[Label]]) -> Labels:
    """Return the parts to which nothing else goes and that have less than another part.

    Of equal parts, the first in the result wins.
    """
    order = {label: at for at, label in enumerate(sources)}
    weights = {to: (weight, -order[to]) for to, weight in parts if weight is not None}
    largest = max(weights.values(), default=None)
    return tuple(to for to in weights if len(sources[to]) == 1 and weights[to] != largest)


def _labels(labels: Sequence[Label]) -> str:
    return listing(labels, MOST_SHOWN)


def _each(pairs: Sequence[tuple[Any, Any]], words: Callable[[str, str], str]) -> str:
    shown = "; ".join(words(SHORT.repr(a), SHORT.repr(b)) for a, b in pairs[:MOST_SHOWN])
    more = len(pairs) - MOST_SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _with_nearest(label: str, near: str) -> str:
    return label if near == "None" else f"{label} (nearest: {near})"
