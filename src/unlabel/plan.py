"""Change plans: every label of a model has a destination."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Literal, get_args

import numpy as np

from unlabel._files import plan_file
from unlabel.labels import (
    SURROGATES,
    as_classes,
    as_labels,
    columns_of,
    known_columns,
    label_key,
    no_such_label,
)
from unlabel._plans.check import PlanCheck
from unlabel._plans.check import check as check_plan
from unlabel._plans.then import composed
from unlabel._plans.diff import Difference, PlanDiff, diff
from unlabel._plans.outcome import RETIRED, SPLIT, Outcome, outcome, sent_to_retired
from unlabel._plans.parts import Parts, as_parts
from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.validation import choice

__all__ = [
    "RETIRED",
    "SPLIT",
    "Destination",
    "Difference",
    "LabelPlan",
    "Outcome",
    "Parts",
    "PlanCheck",
    "PlanDiff",
    "Unlisted",
    "compose",
    "diff",
    "plan_for",
]

Unlisted = Literal["keep", "error", "retire"]
UNLISTED: tuple[Unlisted, ...] = get_args(Unlisted)
# None, a label, weights of labels, or the candidates of a split whose weights are not known.
Destination = Label | Mapping[Label, float] | Sequence[Label] | None


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
        A title for the change, and a note on it for others.
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
        # Not to be changed later: filters share the plan, and its hash depends on them.
        self._texts = (title, note, unlisted)
        # The first cell of a table that may lack a header, and the sentence to refuse it with.
        self._header: tuple[str, str] | None = None
        if isinstance(changes, Mapping):
            self._fill(changes.items())
        else:
            self._fill((label, None) for label in as_labels(changes, "remove"))

    @classmethod
    def of_pairs(
        cls,
        pairs: Iterable[tuple[Any, Any]],
        digest: str | None = None,
        header: tuple[str, str] | None = None,
        **texts: Any,
    ) -> LabelPlan:
        """Make a plan of labels and destinations; a split's may be pairs of labels and weights."""
        plan = cls({}, **texts)
        plan._header = header
        plan._fill(pairs)
        if digest not in (None, plan.digest):
            raise UnlabelError(f"the digest of its plan is {plan.digest}, not {digest}")
        return plan

    def _fill(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        # Pairs, since looking labels up by their own hashes may be slow: see `label_key`.
        pairs = [*pairs]
        labels = as_labels([label for label, _ in pairs], "the plan")
        self._changes: dict[str, tuple[Label, Parts]] = {
            label_key(label): (label, as_parts(label, destination))
            for label, (_, destination) in zip(labels, pairs, strict=True)
        }
        retired = {key for key, (_, parts) in self._changes.items() if not parts}
        for problem in sent_to_retired(self.parts, retired):
            raise UnlabelError(problem)

    def __getitem__(self, label: Label) -> Destination:
        try:
            parts = self._changes[label_key(label)][1]
        except KeyError:
            raise KeyError(label) from None
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
        return repr([*self._changes.values()]), *self._texts

    def __repr__(self) -> str:
        title = f" {self.title!r}" if self.title else ""
        changes = "1 change" if len(self) == 1 else f"{len(self)} changes"
        return f"<LabelPlan{title}: {changes}, unlisted={self.unlisted!r}>"

    @property
    def title(self) -> str:
        """What the change is."""
        return self._texts[0]

    @property
    def note(self) -> str:
        """What others should know of the change."""
        return self._texts[1]

    @property
    def unlisted(self) -> Unlisted:
        """What becomes of labels of the model that the plan does not list."""
        return self._texts[2]

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
        changes = [
            (match(label), tuple((match(to), weight) for to, weight in parts))
            for label, parts in self.parts
        ]
        # The labels 1, 1.0 and True differ.
        return self if repr(changes) == repr([*self.parts]) else self._with(changes)

    def named(self, title: str | None = None, note: str | None = None) -> LabelPlan:
        """Return the plan with another title or note, where one is given."""
        texts = {"title": title, "note": note}
        return self._with(self.parts, **{k: text for k, text in texts.items() if text is not None})

    def _with(self, parts: Iterable[tuple[Label, Any]], **texts: str) -> LabelPlan:
        same = {"title": self.title, "note": self.note, "unlisted": self.unlisted}
        pairs = ((label, [*to] or None) for label, to in parts)
        return LabelPlan.of_pairs(pairs, header=self._header, **same | texts)

    def outcome(self, classes: Sequence[Label]) -> Outcome:
        """Compute what the plan makes of a model's labels, and refuse a plan that does not fit."""
        return outcome(self, tuple(classes))

    def check(self, model_labels: Iterable[Any]) -> PlanCheck:
        """Check the plan against the labels of a model, without refusing it.

        Examples
        --------
        >>> plan = LabelPlan({"cat": None, "lynx": "othre", "pumma": "other"})
        >>> print(plan.check(["cat", "dog", "lynx", "puma", "other"]))
        unchanged         3  'dog', 'puma', 'other'
        renamed           1  'lynx' to 'othre'
        merged            0
        split             0
        retired           1  'cat'
        left              4  'dog', 'othre', 'puma', 'other'
        not listed        3  'dog', 'puma', 'other'
        not in the model  1  'pumma' (nearest: 'puma')
        misspelt?         1  'othre', like 'other'
        <BLANKLINE>
        The plan cannot be fitted:
        - The model has no label 'pumma': the nearest is 'puma'.
        """
        classes = as_classes(model_labels)
        return check_plan(self.matched(classes), classes)

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
        arguments = plan_file.read(path, from_column, to_column)
        with plan_file.naming(path):
            return cls.of_pairs(**arguments)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the plan as a TOML file, whole or not at all."""
        plan_file.write(self, path, overwrite=overwrite)


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


def compose(
    first: LabelPlan,
    second: LabelPlan,
    labels: Iterable[Any] | None = None,
    *,
    by_text: bool = True,
) -> LabelPlan:
    """Make one plan of two, the second of which changes the labels that the first leaves.

    Parameters
    ----------
    first, second : LabelPlan
    labels : list of labels, or mapping of indices to labels, optional
        The labels of the model. By default those that `first` lists; the result then refuses
        models that have other labels.
    by_text : bool
        Whether a text that equals ``str(label)`` of a label is that label, as in files.

    Returns
    -------
    LabelPlan
        The labels that `first` retires are retired first, then those that `second` retires.

    Examples
    --------
    >>> first = LabelPlan({"lynx": "wild cat", "puma": "wild cat", "cat": None})
    >>> second = LabelPlan({"wild cat": {"small": 0.25, "big": 0.75}})
    >>> plan = compose(first, second, ["cat", "dog", "lynx", "puma"])
    >>> plan["cat"], plan["lynx"]
    (None, {'small': 0.25, 'big': 0.75})
    """
    changes = composed(first, second, labels, by_text=by_text)
    try:
        return LabelPlan.of_pairs(
            changes,
            title="; ".join(filter(None, [first.title, second.title])),
            note="\n".join(filter(None, [first.note, second.note])),
            unlisted="error" if labels is None else "keep",
        )
    except UnlabelError as error:
        raise UnlabelError(f"The two plans cannot be one: {error}") from error
