"""A plan compared with the labels of a model."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from unlabel.labels import SHORT, columns_of, known_columns, label_key, listing
from unlabel._plans.lookalikes import Lookalikes
from unlabel._plans.outcome import changes_by_column, problems
from unlabel._plans.text import WIDTH, aligned
from unlabel._typing import Label

if TYPE_CHECKING:
    from unlabel.plan import LabelPlan

Labels = tuple[Label, ...]
MOST_SHOWN = 8


@dataclass(frozen=True)
class PlanCheck:
    """The result of checking a plan against the labels of a model.

    Every label of the model is unchanged, renamed, merged, split or retired. ``str(check)`` is a
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
    retired : tuple of labels
        In the order of retirement.
    merged_into : tuple of (destination, labels)
        The labels of the result that several labels go to.
    unlisted : tuple of labels
        Labels of the model that the plan does not list.
    unknown : tuple of (label, nearest label)
        Labels that the plan lists and the model does not have. The nearest label is None
        where there are too many to compare.
    without_weights : tuple of (label, destinations)
        Splits whose weights are yet to be given.
    misspelt : tuple of (new label, old label)
        New labels that look like a label of the model that does not go there.
    other_meaning : tuple of labels
        Labels that are in the result too, but are not unchanged.
    left : tuple of labels
        The result's labels.
    problems : tuple of str
        The reasons why the plan cannot be fitted, none if it can.
    """

    unchanged: Labels
    renamed: tuple[tuple[Label, Label], ...]
    merged: tuple[tuple[Label, Label], ...]
    split: tuple[tuple[Label, Labels], ...]
    retired: Labels
    merged_into: tuple[tuple[Label, Labels], ...]
    unlisted: Labels
    unknown: tuple[tuple[Label, Label | None], ...]
    without_weights: tuple[tuple[Label, Labels], ...]
    misspelt: tuple[tuple[Label, Label], ...]
    other_meaning: Labels
    left: Labels
    problems: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Give the content as plain data, which JSON can hold."""
        return asdict(self)

    def __str__(self) -> str:
        into = f"into {len(self.merged_into):,}: " if self.merged_into else ""
        undecided = [label for label, _ in self.without_weights]
        rows: list[tuple[str, int, str]] = [
            ("unchanged", len(self.unchanged), _labels(self.unchanged)),
            ("renamed", len(self.renamed), _each(self.renamed, lambda a, b: f"{a} to {b}")),
            ("merged", len(self.merged), into + _labels([to for to, _ in self.merged_into])),
            ("split", len(self.split), _labels([label for label, _ in self.split])),
            ("retired", len(self.retired), _labels(self.retired)),
            ("left", len(self.left), _labels(self.left)),
        ]
        doubts = [
            ("not listed", len(self.unlisted), _labels(self.unlisted)),
            ("not in the model", len(self.unknown), _each(self.unknown, _with_nearest)),
            ("without weights", len(undecided), _labels(undecided)),
            ("misspelt?", len(self.misspelt), _each(self.misspelt, lambda a, b: f"{a}, like {b}")),
            ("other meaning", len(self.other_meaning), _labels(self.other_meaning)),
        ]
        rows += [row for row in doubts if row[1]]
        digits = max(len(f"{count:,}") for _, count, _ in rows)
        lines = aligned([(name, f"{count:{digits},}", text) for name, count, text in rows])
        if not self.problems:
            return "\n".join([*lines, "", "The plan can be fitted."])
        lines += ["", "The plan cannot be fitted:"]
        for problem in self.problems[:MOST_SHOWN]:
            lines += textwrap.wrap(problem, WIDTH, initial_indent="- ", subsequent_indent="  ")
        if len(self.problems) > MOST_SHOWN:
            lines.append(f"- and {len(self.problems) - MOST_SHOWN:,} more")
        return "\n".join(lines)


def check(plan: LabelPlan, classes: tuple[Label, ...]) -> PlanCheck:
    """Compare a plan, which has the model's own labels, with the labels of the model."""
    changes, columns = changes_by_column(plan, classes), columns_of(classes)
    left: dict[str, Label] = {}
    sources: dict[str, list[Label]] = {}
    goes_to: list[list[str]] = []
    for column, label in enumerate(classes):
        parts = changes.get(column, ((label, 1.0),))
        goes_to.append([label_key(to) for to, _ in parts])
        for key, (to, _) in zip(goes_to[-1], parts, strict=True):
            left.setdefault(key, classes[columns[key]] if key in columns else to)
            sources.setdefault(key, []).append(label)
    unchanged, renamed, merged, split = [], [], [], []
    for label, keys in zip(classes, goes_to, strict=True):
        if len(keys) > 1:
            split.append((label, tuple(left[key] for key in keys)))
        elif keys and len(sources[keys[0]]) > 1:
            merged.append((label, left[keys[0]]))
        elif keys and keys[0] != label_key(label):
            renamed.append((label, left[keys[0]]))
        elif keys:
            unchanged.append(label)
    is_unchanged = set(map(label_key, unchanged))
    listed = known_columns(plan, classes).tolist()
    is_listed = set(listed)
    lookalikes = Lookalikes(classes)
    return PlanCheck(
        unchanged=tuple(unchanged),
        renamed=tuple(renamed),
        merged=tuple(merged),
        split=tuple(split),
        retired=tuple(classes[column] for column, parts in changes.items() if not parts),
        merged_into=tuple((left[key], tuple(s)) for key, s in sources.items() if len(s) > 1),
        unlisted=tuple(label for c, label in enumerate(classes) if c not in is_listed),
        unknown=tuple(
            lookalikes.nearest_of([label for c, label in zip(listed, plan, strict=True) if c < 0])
        ),
        without_weights=tuple(
            (label, tuple(to for to, _ in parts))
            for label, parts in plan.parts
            if any(weight is None for _, weight in parts)
        ),
        misspelt=tuple(
            (new, old)
            for key, new in left.items()
            if key not in columns
            and (old := _lookalike_from_elsewhere(new, sources[key], lookalikes)) is not None
        ),
        other_meaning=tuple(
            label for key, label in left.items() if key in columns and key not in is_unchanged
        ),
        left=tuple(left.values()),
        problems=tuple(problems(plan, classes, changes)),
    )


def _lookalike_from_elsewhere(
    new: Label, sources: Sequence[Label], lookalikes: Lookalikes
) -> Label | None:
    near = [*lookalikes.of(new)]
    going_there = set(map(label_key, sources)) if near else set()
    return next((old for old in near if label_key(old) not in going_there), None)


def _labels(labels: Sequence[Label]) -> str:
    return listing(labels, MOST_SHOWN)


def _each(pairs: Sequence[tuple[Any, Any]], words: Callable[[str, str], str]) -> str:
    shown = "; ".join(words(SHORT.repr(a), SHORT.repr(b)) for a, b in pairs[:MOST_SHOWN])
    more = len(pairs) - MOST_SHOWN
    return shown if more <= 0 else f"{shown} and {more:,} more"


def _with_nearest(label: str, near: str) -> str:
    return label if near == "None" else f"{label} (nearest: {near})"
