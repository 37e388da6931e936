"""Change plans: every label of a model has a destination."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from unlabel._files import plan_file
from unlabel._plans.check import PlanCheck, check_of
from unlabel._plans.diff import PlanDiff, diff_of
from unlabel._plans.outcome import matched, sent_to_removed
from unlabel._plans.parts import Destination, as_destination, parts_of
from unlabel._plans.then import composed
from unlabel._typing import Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import SURROGATES, as_classes, as_labels, known_columns, no_such_label
from unlabel.validation import choice

__all__ = ["UNLISTED", "Destination", "LabelPlan", "PlanCheck", "PlanDiff", "Unlisted"]

Unlisted = Literal["keep", "error", "remove"]
UNLISTED: tuple[Unlisted, ...] = get_args(Unlisted)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LabelPlan:
    """A change of labels: labels of a model and their destinations.

    Destinations are of the old labels, all at once, so labels can be swapped and nothing chains.

    Attributes
    ----------
    changes : mapping
        The destination of each label: None if it is removed; a label, old or new, that its
        confidence is added to; or a mapping of labels to weights that sum to 1, which split it.
        A list of labels is a split whose weights are yet to be given. In place of the mapping,
        a list gives labels to remove.
    unlisted : {"keep", "error", "remove"}, default "keep"
        What becomes of labels of the model that the plan does not list.
    title, note : str
        A title for the change, and a note on it for others.

    Notes
    -----
    Labels are told apart by their text: ``"8"`` in a plan is the label 8 of a model that has it.

    Examples
    --------
    >>> plan = LabelPlan({"cat": None, "lynx": "other", "puma": "other", "colour": "color"})
    >>> plan.changes["lynx"]
    'other'
    >>> plan.check(["cat", "dog", "lynx", "puma", "colour"]).result
    ('dog', 'other', 'color')
    """

    changes: Mapping[Label, Destination]
    unlisted: Unlisted
    title: str
    note: str

    def __init__(
        self,
        changes: Mapping[Any, Any] | Sequence[Any],
        *,
        unlisted: Unlisted = "keep",
        title: str = "",
        note: str = "",
    ) -> None:
        choice(unlisted, UNLISTED, "unlisted")
        for name, text in (("title", title), ("note", note)):
            if not isinstance(text, str) or SURROGATES.search(text):
                raise UnlabelError(f"The value {text!r} is not text: give a string.", argument=name)
        if hasattr(changes, "items"):  # a mapping, or a Series of pandas
            changes = dict(changes.items())
        else:
            changes = dict.fromkeys(as_labels(changes, "changes"))
        labels = as_labels([*changes], "changes")
        sent = dict(zip(labels, map(as_destination, labels, changes.values()), strict=True))
        # Read-only, as filters share the plan.
        values = {"changes": MappingProxyType(sent), "unlisted": unlisted}
        for name, value in (values | {"title": title, "note": note}).items():
            object.__setattr__(self, name, value)
        removed = {str(label) for label, to in sent.items() if to is None}
        for problem in sent_to_removed(parts_of(self), removed):
            raise UnlabelError(problem, argument="changes")

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, LabelPlan) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __reduce__(self) -> tuple[Any, ...]:
        texts = {"unlisted": self.unlisted, "title": self.title, "note": self.note}
        changes = {
            label: dict(to) if isinstance(to, Mapping) else to for label, to in self.changes.items()
        }
        return partial(LabelPlan, **texts), (changes,)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        changes = "1 change" if len(self.changes) == 1 else f"{len(self.changes)} changes"
        return f"<LabelPlan{title}: {changes}, unlisted={self.unlisted!r}>"

    @property
    def _content(self) -> tuple[object, ...]:
        return tuple(parts_of(self)), self.unlisted, self.title, self.note

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LabelPlan:
        """Read a plan from a .toml or .json file."""
        arguments = plan_file.read(path)
        try:
            return cls(**arguments)
        except UnlabelError as error:
            place = f"the key {error.argument!r}" if error.row is None else error.row
            error.path, error.row, error.argument = path, place, None
            raise

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as a .toml file, whole or not at all."""
        plan_file.write(self, path)

    def check(self, classes: Iterable[Any]) -> PlanCheck:
        """Compare the plan with the labels of a model, whether it fits them or not.

        Examples
        --------
        >>> plan = LabelPlan({"cat": None, "lynx": "othre", "pumma": "other"})
        >>> print(plan.check(["cat", "dog", "lynx", "puma", "other"]))
        unchanged         3  'dog', 'puma', 'other'
        renamed           1  'lynx' to 'othre'
        merged            0
        split             0
        removed           1  'cat'
        not listed        3  'dog', 'puma', 'other'
        not in the model  1  'pumma' (nearest: 'puma')
        misspelt?         1  'othre', like 'other'
        <BLANKLINE>
        The plan cannot be fitted:
        - The model has no label 'pumma': the nearest is 'puma'.
        """
        return check_of(self, as_classes(classes))

    def diff(self, other: LabelPlan) -> PlanDiff:
        """Compare the plan with another one.

        Examples
        --------
        >>> print(LabelPlan({"cat": None, "lynx": "other"}).diff(LabelPlan({"lynx": "cat"})))
        - 'cat'   removed
        ~ 'lynx'  'other' -> 'cat'
        1 dropped, 1 changed, 0 added.
        """
        return diff_of(self, other)

    def then(self, second: LabelPlan, *, classes: Iterable[Any] | None = None) -> LabelPlan:
        """Return one plan for this one and a second one that changes the labels it leaves.

        Labels that this plan removes are removed first, then those that the second removes.

        Parameters
        ----------
        second : LabelPlan
        classes : list of labels, or mapping of indices to labels, optional
            The labels of the model. By default those that this plan lists; the result then
            refuses models that have other labels.

        Examples
        --------
        >>> first = LabelPlan({"lynx": "wild cat", "puma": "wild cat", "cat": None})
        >>> second = LabelPlan({"wild cat": {"small": 0.25, "big": 0.75}})
        >>> both = first.then(second, classes=["cat", "dog", "lynx", "puma"])
        >>> both.changes["cat"], dict(both.changes["lynx"])
        (None, {'small': 0.25, 'big': 0.75})
        """
        changes = composed(self, second, None if classes is None else as_classes(classes))
        with located(row="the two plans cannot be one"):
            return LabelPlan(
                changes,
                title="; ".join(filter(None, [self.title, second.title])),
                note="\n".join(filter(None, [self.note, second.note])),
                unlisted="error" if classes is None else "keep",
            )


def plan_for(
    classes: Sequence[Label], *, plan: Any = None, remove: Any = None, keep: Any = None
) -> LabelPlan:
    """Return the plan that one of `plan`, `remove` and `keep` names, with the model's own labels.

    `plan` may be a mapping of labels to destinations or a list of labels to remove, and `keep` a
    set, as labels that are kept stay in the model's order.

    Examples
    --------
    >>> plan_for(["cat", "dog", "fox"], keep={"dog"})
    <LabelPlan: 2 changes, unlisted='keep'>
    """
    if sum(given is not None for given in (plan, remove, keep)) != 1:
        raise UnlabelError("Give one of a plan, labels to remove and labels to keep.")
    if isinstance(plan, str | os.PathLike):
        problem = "The plan is a path: give its content, LabelPlan.load(path)."
        raise UnlabelError(problem, argument="plan")
    if plan is not None:
        return matched(plan if isinstance(plan, LabelPlan) else LabelPlan(plan), classes)
    argument, given = ("remove", remove) if keep is None else ("keep", keep)
    labels = as_labels([*given] if keep is not None and isinstance(given, Set) else given, argument)
    chosen = [*matched(LabelPlan(labels), classes).changes]
    columns = known_columns(chosen, classes)
    if (columns < 0).any():
        raise no_such_label(chosen[int(np.argmin(columns))], classes, argument=argument)
    kept = {*chosen}
    return LabelPlan(chosen if keep is None else [c for c in classes if c not in kept])
