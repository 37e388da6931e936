"""Change plans: every label of a model has a destination."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from unlabel._files import plan_file
from unlabel._labels import (
    SURROGATES,
    as_labels,
    columns_of,
    known_columns,
    label_key,
    listing,
    no_such_label,
)
from unlabel._method.merge import Merge
from unlabel._typing import Columns, Label
from unlabel.errors import UnlabelError
from unlabel.validation import choice

Unlisted = Literal["keep", "error", "retire"]
UNLISTED: tuple[Unlisted, ...] = get_args(Unlisted)
# None, a label, weights of labels, or the candidates of a split whose weights are not known.
Destination = Label | Mapping[Label, float] | Sequence[Label] | None
# The labels that a label's confidence goes to, with their weights: none for a retired label.
Parts = tuple[tuple[Label, float | None], ...]
# By how much weights that people wrote may miss a sum of 1.
WEIGHT_TOLERANCE = 1e-6


class LabelPlan(Mapping[Label, Destination]):
    """A change of labels: a mapping from labels to destinations.

    Destinations are of the old labels, all at once, so labels can be swapped and nothing chains.

    Parameters
    ----------
    changes : mapping, or list of labels to retire
        The destination of each label: None if it is retired; a label, old or new, that its
        confidence is added to; or a mapping of labels to weights that sum to 1, which split it.
        A list of labels is a split whose weights are yet to be given.
    title, note : str
        What the change is, and what others should know of it.
    unlisted : {"keep", "error", "retire"}, default "keep"
        What becomes of labels of the model that the plan does not list.

    Notes
    -----
    Files hold labels as texts. So a text in a plan that is not a label of the model, but equals
    ``str(label)`` of one, is that label.

    Examples
    --------
    >>> plan = LabelPlan({"cat": None, "lynx": "other", "puma": "other", "colour": "color"})
    >>> plan["lynx"]
    'other'
    >>> plan.outcome(["cat", "dog", "lynx", "puma", "colour"]).classes
    ('dog', 'other', 'color')
    """

    def __init__(
        self,
        changes: Mapping[Any, Any] | Iterable[Any],
        *,
        title: str = "",
        note: str = "",
        unlisted: Unlisted = "keep",
    ) -> None:
        choice(unlisted, UNLISTED, "unlisted")
        for name, text in (("title", title), ("note", note)):
            if not isinstance(text, str) or SURROGATES.search(text):
                raise UnlabelError(f"The {name} of the plan is {text!r}: give a text.")
        self.title, self.note, self.unlisted = title, note, unlisted
        if isinstance(changes, Mapping):
            self._fill(changes.items())
        else:
            self._fill((label, None) for label in as_labels(changes, "remove"))

    @classmethod
    def of_pairs(
        cls, pairs: Iterable[tuple[Any, Any]], digest: str | None = None, **texts: Any
    ) -> LabelPlan:
        """Make a plan of labels and destinations; a split's may be pairs of labels and weights."""
        plan = cls({}, **texts)
        plan._fill(pairs)
        if digest not in (None, plan.digest):
            raise UnlabelError(f"the digest of its plan is {plan.digest}, not {digest}")
        return plan

    def _fill(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        # Pairs, since looking labels up by their own hashes may be slow: see `label_key`.
        pairs = [*pairs]
        labels = as_labels([label for label, _ in pairs], "the plan")
        self._changes: dict[str, tuple[Label, Parts]] = {
            label_key(label): (label, _parts(label, destination))
            for label, (_, destination) in zip(labels, pairs, strict=True)
        }
        self.refuse_destinations({key for key, (_, parts) in self._changes.items() if not parts})

    def __getitem__(self, label: Label) -> Destination:
        parts = self._changes[label_key(label)][1]
        if len(parts) < 2:
            return parts[0][0] if parts else None
        weights = [weight for _, weight in parts]
        if None in weights:
            return tuple(to for to, _ in parts)
        return dict(parts)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Label]:
        return (label for label, _ in self._changes.values())

    def __len__(self) -> int:
        return len(self._changes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelPlan):
            return NotImplemented
        return self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[str, ...]:
        return repr([*self._changes.values()]), self.title, self.note, self.unlisted

    def __repr__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        return f"<LabelPlan{title}: {len(self)} changes, unlisted={self.unlisted!r}>"

    @property
    def parts(self) -> Iterator[tuple[Label, Parts]]:
        """Each label, with the labels that it goes to and their weights: none if it is retired."""
        return iter(self._changes.values())

    @property
    def digest(self) -> str:
        """The SHA-256 of the changes as texts, the same in every file that holds them."""
        changes = [[str(label), [[str(to), w] for to, w in parts]] for label, parts in self.parts]
        content = json.dumps([self.unlisted, changes], ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    def refuse_destinations(self, retired: Set[str]) -> None:
        """Refuse destinations that are retired labels, given by their keys."""
        for label, parts in self.parts:
            for to, _ in parts:
                if label_key(to) in retired:
                    raise UnlabelError(
                        f"The plan sends {label!r} to {to!r}, which it retires: send it elsewhere, "
                        f"or do not retire {to!r}."
                    )

    def matched(self, classes: Sequence[Label], *, by_text: bool = True) -> LabelPlan:
        """Return the plan with the model's own labels in the place of equal ones and of texts."""
        names, column_of = tuple(classes), columns_of(tuple(classes))
        texts = {str(label): label for label in names if not isinstance(label, str)}

        def match(label: Label) -> Label:
            column = column_of.get(label_key(label))
            if column is not None and isinstance(names[column], bool) == isinstance(label, bool):
                return names[column]
            return texts.get(label, label) if by_text and isinstance(label, str) else label

        if not texts:
            return self
        return self._with(
            (match(label), [(match(to), weight) for to, weight in parts])
            for label, parts in self.parts
        )

    def named(self, title: str | None = None, note: str | None = None) -> LabelPlan:
        """Return the plan with another title or note, where one is given."""
        texts = {"title": title, "note": note}
        return self._with(self.parts, **{k: text for k, text in texts.items() if text is not None})

    def _with(self, parts: Iterable[tuple[Label, Any]], **texts: str) -> LabelPlan:
        same = {"title": self.title, "note": self.note, "unlisted": self.unlisted}
        return LabelPlan.of_pairs(((label, [*to] or None) for label, to in parts), **same | texts)

    def outcome(self, classes: Sequence[Label]) -> Outcome:
        """Work out what becomes of a model's labels, or say why the plan does not fit them."""
        return _outcome(self, tuple(classes))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        from_column: str | None = None,
        to_column: str | None = None,
    ) -> LabelPlan:
        """Read a plan from a .toml, .json, .csv or .tsv file, or labels to retire from a .txt file.

        Parameters
        ----------
        path : path
        from_column, to_column : str, optional
            The columns of a csv or tsv file, by default ``from`` and ``to``, or the only two.
        """
        return cls(**plan_file.read(path, from_column, to_column))

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the plan as a TOML file, whole or not at all."""
        plan_file.write(self, path, overwrite=overwrite)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What becomes of a model's labels by a plan."""

    removed: Columns  # (k,): the columns of the retired labels, in the order of retirement
    retained: Columns  # (n - k,): the other columns, in ascending order
    classes: tuple[Label, ...]  # the result's labels
    merge: Merge | None  # None if the retained labels are the result's, perhaps renamed
    # (n,): the result's column of each label of the model, RETIRED or SPLIT if there is not one
    columns: Columns


RETIRED, SPLIT = -1, -2


def plan_for(
    classes: Sequence[Label], remove: Iterable[Any] | None, keep: Iterable[Any] | None
) -> LabelPlan:
    """Make the plan that `remove` or `keep` says, with the model's own labels."""
    if (remove is None) == (keep is None):
        raise UnlabelError("Give either remove=[...] (--remove) or keep=[...] (--keep).")
    if remove is not None:
        plan = remove if isinstance(remove, LabelPlan) else LabelPlan(remove)
        return plan.matched(classes, by_text=plan is remove)
    # Retained labels stay in the model's order, so a set will do.
    kept = as_labels(tuple(keep) if isinstance(keep, Set) else keep, "keep")  # type: ignore[arg-type]
    columns = known_columns(kept, classes)
    if (columns < 0).any():
        raise no_such_label(kept[int(np.argmin(columns))], classes)
    retired = np.delete(np.arange(len(classes)), columns).tolist()
    return LabelPlan([classes[column] for column in retired])


def _parts(label: Label, destination: Any) -> Parts:
    """Check a destination, and give the labels that it consists of."""
    if destination is None:
        return ()
    where = f"the destination of {label!r}"
    if not isinstance(destination, Mapping | list | tuple):
        return ((as_labels([destination], where)[0], 1.0),)
    if not destination:
        raise UnlabelError(f"The plan names nothing as {where}: to retire it, give None.")
    given = [*(destination.items() if isinstance(destination, Mapping) else destination)]
    pairs = [each if isinstance(each, tuple) else (each, None) for each in given]
    labels, weights = as_labels([to for to, _ in pairs], where), [weight for _, weight in pairs]
    if all(weight is None for weight in weights):
        return tuple((to, None if len(labels) > 1 else 1.0) for to in labels)
    for to, weight in zip(labels, weights, strict=True):
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not (is_number and 0 < weight <= 1 + WEIGHT_TOLERANCE):
            raise UnlabelError(
                f"The plan sends {label!r} to {to!r} with the weight {weight!r}: give a number "
                "above 0 and up to 1."
            )
    if abs(math.fsum(weights) - 1) > WEIGHT_TOLERANCE:
        raise UnlabelError(
            f"The weights of {label!r} sum to {math.fsum(weights):.6g}: make them sum to 1."
        )
    return tuple(zip(labels, map(float, weights), strict=True))


def _outcome(plan: LabelPlan, classes: tuple[Label, ...]) -> Outcome:
    listed = known_columns(plan, classes)
    if (listed < 0).any():
        raise no_such_label([*plan][int(np.argmin(listed))], classes)
    parts = dict(zip(listed.tolist(), (to for _, to in plan.parts), strict=True))
    unlisted = [column for column in range(len(classes)) if column not in parts]
    if unlisted and plan.unlisted == "error":
        others = listing([classes[column] for column in unlisted])
        raise UnlabelError(f"The plan does not list {others}: list every label of the model.")
    if plan.unlisted == "retire":
        parts |= dict.fromkeys(unlisted, ())
        plan.refuse_destinations({label_key(classes[column]) for column in unlisted})
    removed = np.array([column for column, to in parts.items() if not to], dtype=np.intp)
    if len(removed) == len(classes):
        raise UnlabelError(f"All {len(classes)} labels would be retired: at least one must remain.")
    retained = np.delete(np.arange(len(classes)), removed)
    columns = np.full(len(classes), RETIRED)
    if len(removed) == len(parts):  # nothing is renamed, merged or split
        columns[retained] = np.arange(len(retained))
        return Outcome(removed, retained, tuple(classes[c] for c in retained), None, columns)
    numbers: dict[str, int] = {}
    names: list[Label] = []
    entries: list[tuple[int, int, float]] = []
    known = columns_of(classes)
    for source, column in enumerate(retained.tolist()):
        to = parts.get(column, ((classes[column], 1.0),))
        weights = [weight for _, weight in to if weight is not None]
        if len(weights) < len(to):
            candidates = listing([label for label, _ in to])
            raise UnlabelError(
                f"The plan splits {classes[column]!r} among {candidates} without weights: give "
                "each of them a weight."
            )
        for (label, _), weight in zip(to, weights, strict=True):
            key = label_key(label)
            if key not in numbers:
                numbers[key] = len(names)
                names.append(classes[known[key]] if key in known else label)
            entries.append((source, numbers[key], weight / math.fsum(weights)))
        columns[column] = numbers[label_key(to[0][0])] if len(to) == 1 else SPLIT
    sources, targets, shares = zip(*entries, strict=True)
    merge = Merge.of_entries(np.array(sources), np.array(targets), np.array(shares))
    return Outcome(removed, retained, tuple(names), merge, columns)
