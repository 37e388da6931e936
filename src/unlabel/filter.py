"""The fitted filter: immutable, framework-free, everything a deployment needs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property, partial
from operator import index
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unlabel._files import filter_file
from unlabel._joining import joined
from unlabel._method.recipe import Recipe
from unlabel._method.run import Filtered, restrict, run
from unlabel._method.statistics import check_statistics
from unlabel._method.temperature import COLDEST, HOTTEST
from unlabel._plans.outcome import Outcome, matched, outcome_of
from unlabel._typing import KINDS, METHODS, Float64s, Floats, Kind, Label, Method
from unlabel.allow import Allowed, allowed_rows
from unlabel.answers import AnswerRule, answer_columns, answer_labels
from unlabel.errors import UnlabelError
from unlabel.fitting import fit_filter
from unlabel.labels import as_classes, listing
from unlabel.plan import LabelPlan
from unlabel.validation import as_array, bad_row, choice


def require_filter(value: object) -> None:
    """Raise an error for anything but a filter, such as a path."""
    if not isinstance(value, OutputFilter):
        raise UnlabelError(
            f"The filter is a {type(value).__name__}: give an OutputFilter, such as "
            "OutputFilter.load(path)"
        )


class FilteredRows(NamedTuple):
    """What one pass of `OutputFilter.run` finds, with the leading dimensions of its input."""

    confidences: Floats  # over the result's labels
    removed_mass: Float64s  # the probability of the removed labels in the calibrated outputs
    not_allowed: Float64s  # the probability of labels of the result that are not allowed


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OutputFilter:
    """A fitted filter that changes the labels of a classifier's confidence vectors.

    It holds statistics per label, never a row of data.

    Attributes
    ----------
    classes_in : tuple of labels
        The labels of the model, in the order of its outputs.
    plan : LabelPlan
        The destinations of the labels. Also accepts a mapping or a list of labels to remove.
    means, shares : arrays of shape (n_removed, n_labels)
        The statistics of each removed label: the mean of its reference rows, and how its
        residual is shared out, which sums to at most 1. They are 0 for labels removed in earlier
        steps. With ``method="mask"``, which needs none, they have no rows.
    counts : tuple of int
        The number of reference rows of each removed label; a label without any is masked.
    method : {"osr", "mask"}
    kind : {"probabilities", "logits"}
        The kind of rows that `apply` takes. It returns probabilities for either kind.
    temperature : float
        What the model's outputs are calibrated with, before anything else; 1 leaves them.

    Examples
    --------
    >>> from unlabel import LabelPlan
    >>> plan = LabelPlan({"cat": None, "lynx": "wild cat"})
    >>> masked = OutputFilter.from_plan(plan, classes=["cat", "dog", "lynx"])
    >>> masked.classes_out
    ('dog', 'wild cat')
    >>> masked.apply([[.6, .3, .1]]).round(3)
    array([[0.75, 0.25]])
    """

    classes_in: tuple[Label, ...]
    plan: LabelPlan
    means: Float64s
    shares: Float64s
    counts: tuple[int, ...]
    method: Method = "osr"
    kind: Kind = "probabilities"
    temperature: float = 1.0

    @classmethod
    def fit(
        cls,
        confidences: Any,
        labels: Any = None,
        *,
        classes: Iterable[Any] | None = None,
        plan: Any = None,
        remove: Iterable[Any] | None = None,
        keep: Iterable[Any] | None = None,
        kind: Kind = "probabilities",
        method: Method = "osr",
        calibrate: bool = False,
        allow_chance: bool = False,
    ) -> OutputFilter:
        """Fit a filter on the model's outputs for rows whose labels are known.

        Parameters
        ----------
        confidences : array of shape (..., n_labels)
            The model's outputs on reference inputs, preferably ones that it was not trained on.
        labels : array of shape (...), optional
            Their true labels. Rows of removed labels are their reference rows, of which 100 per
            label are enough and 500 are used; `calibrate` uses rows of labels that stay. A
            removed label without rows is masked. A mask needs no labels.
        classes : list of labels, or mapping of indices to labels, optional
            The labels of the model, in the order of its outputs. By default 0 to n - 1.
        plan : LabelPlan, mapping, or list of labels to remove
            The change of labels. Or give one of `remove` and `keep`.
        remove, keep : lists of labels
            The labels to remove, in that order, or those to retain.
        kind : {"probabilities", "logits"}
            What the confidences are; log-probabilities are logits.
        method : {"osr", "mask"}
            "osr" is the method; "mask" drops the removed labels and divides by the sum.
        calibrate : bool
            Whether to fit one temperature, by a robust log-loss, on the rows of labels that stay:
            at least 50, of which 20,000 are used. It comes before everything else.
        allow_chance : bool
            Whether to accept confidences that are no better than chance on the rows of labels
            that stay, which is how labels in a wrong order look.

        Warns
        -----
        UserWarning
            If a removed label has few reference rows or none, if the model seems to have been
            trained on them, or if rows were skipped since they have no label that is known.

        Examples
        --------
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> names, truth = ["cat", "dog", "fox"], np.repeat([0, 1, 2], 100)
        >>> confidences = rng.dirichlet([.5, .5, .5], 300) / 2 + np.eye(3)[truth] / 2
        >>> labels = np.array(names)[truth]
        >>> fitted = OutputFilter.fit(confidences, labels, classes=names, remove=["cat"])
        >>> fitted.classes_out
        ('dog', 'fox')
        >>> fitted.apply([[.6, .3, .1]]).round(2)
        array([[0.75, 0.25]])
        """
        fit = fit_filter(
            confidences,
            labels,
            classes=classes,
            plan=plan,
            remove=remove,
            keep=keep,
            kind=kind,
            method=method,
            calibrate=calibrate,
            allow_chance=allow_chance,
        )
        for remark in fit.remarks:
            warnings.warn(remark, stacklevel=2)
        return cls(**fit.state)

    @classmethod
    def from_plan(
        cls, plan: Any, *, classes: Iterable[Any], kind: Kind = "probabilities"
    ) -> OutputFilter:
        """Make a filter without reference rows: removed labels are masked.

        Examples
        --------
        >>> masked = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
        >>> masked.apply([[.6, .3, .1]]).round(3)
        array([[0.75, 0.25]])
        """
        names = as_classes(classes)
        plan = plan if isinstance(plan, LabelPlan) else LabelPlan(plan)
        counts = (0,) * len(outcome_of(plan, names).removed)
        none = np.zeros((0, len(names)))
        state: dict[str, Any] = {"classes_in": names, "plan": plan, "counts": counts}
        return cls(**state, means=none, shares=none, method="mask", kind=kind)

    def __post_init__(self) -> None:
        classes = as_classes(self.classes_in)
        self._set("classes_in", classes)
        plan = self.plan if isinstance(self.plan, LabelPlan) else LabelPlan(self.plan)
        self._set("plan", matched(plan, classes))
        choice(self.method, METHODS, "method")
        choice(self.kind, KINDS, "kind")
        given = self.temperature
        if not (isinstance(given, int | float) and COLDEST <= given <= HOTTEST):
            raise UnlabelError(
                f"The temperature is {given!r}: give a number from {COLDEST} to {HOTTEST}"
            )
        self._set("temperature", float(given))
        try:
            self._set("counts", tuple(map(index, self.counts)))
        except TypeError as error:
            raise UnlabelError(f"{self.counts!r} are not counts of rows") from error
        if len(self.counts) != len(self.removed) or any(count < 0 for count in self.counts):
            raise UnlabelError(f"{self.counts!r} is not one count of rows per removed label")
        for name in ("means", "shares"):
            statistics = np.array(getattr(self, name), dtype=np.float64, order="C")
            statistics.flags.writeable = False
            self._set(name, statistics)
        check_statistics(self.method, self.means, self.shares, self._outcome.removed, classes)

    def _set(self, name: str, value: object) -> None:
        """Replace a value that was given, while the frozen filter is being made."""
        object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling runs `__post_init__` again, so that a copy's arrays are read-only too.
        return partial(
            type(self), **{each.name: getattr(self, each.name) for each in fields(self)}
        ), ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OutputFilter):
            return NotImplemented
        return self._settings == other._settings and all(
            map(np.array_equal, (self.means, self.shares), (other.means, other.shares))
        )

    def __hash__(self) -> int:
        return hash(self._settings)

    @property
    def _settings(self) -> tuple[object, ...]:
        return self.classes_in, self.plan, self.counts, self.method, self.kind, self.temperature

    def __repr__(self) -> str:
        return (
            f"<OutputFilter: {listing(self.removed) or 'nothing'} removed from "
            f"{len(self.classes_in)} labels, {len(self.classes_out)} remain, "
            f"method={self.method!r}, kind={self.kind!r}, temperature={self.temperature:.4g}>"
        )

    @property
    def classes_out(self) -> tuple[Label, ...]:
        """The labels of the result's columns."""
        return self._outcome.classes

    @cached_property
    def removed(self) -> tuple[Label, ...]:
        """The removed labels, in the order in which they are removed."""
        return tuple(self.classes_in[column] for column in self._outcome.removed)

    @cached_property
    def _outcome(self) -> Outcome:
        return outcome_of(self.plan, self.classes_in)

    @cached_property
    def _recipe(self) -> Recipe:
        outcome = self._outcome
        steps = (self.means, self.shares)
        return Recipe.of_steps(
            outcome.removed, outcome.retained, *steps, outcome.merge, self.temperature
        )

    def run(self, confidences: Any, *, allow: Any = None, allow_by: Any = None) -> FilteredRows:
        """Check and filter rows, in one pass.

        Parameters
        ----------
        confidences : array of shape (..., n_labels)
            Probabilities or logits, as the filter's `kind` says, in float16, float32 or
            float64. They are not written to. Logits are refused where probabilities are
            expected; probabilities given as logits cannot be detected, and their result is
            wrong.
        allow : labels, boolean array, mapping of names to labels, or path, optional
            The labels of the result that rows may have: the same for all rows, or one boolean
            per row and label, or named lists (in a file: csv, tsv or JSON).
        allow_by : array of names, optional
            The name of each row's list, where `allow` has names.

        Returns
        -------
        FilteredRows
            ``confidences``, probabilities in the dtype of the input, computed in float64, which
            do not depend on the rows beside them; and, in float64, each row's ``removed_mass``
            and ``not_allowed``. Where the allowed labels have nothing they share the row
            equally, and all of its mass is not allowed.

        Examples
        --------
        >>> masked = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox", "wolf"])
        >>> found = masked.run([[.2, .4, .2, .2]], allow=["dog", "fox"])
        >>> found.confidences.round(3), found.removed_mass, found.not_allowed
        (array([[0.667, 0.333, 0.   ]]), array([0.2]), array([0.25]))
        """
        rows, allowed, found = self._filtered(confidences, allow, allow_by)
        out, not_allowed = _restricted(rows, allowed, found)
        lead = rows.shape[:-1]
        return FilteredRows(out, found.removed_mass.reshape(lead), not_allowed.reshape(lead))

    def apply(self, confidences: Any, *, allow: Any = None, allow_by: Any = None) -> Floats:
        """Turn vectors over the model's labels into vectors over the result's labels.

        This is `run` for those who need the confidences alone.

        Examples
        --------
        >>> masked = OutputFilter.from_plan({"fox": "dog"}, classes=["cat", "dog", "fox"])
        >>> masked.apply([[.2, .5, .3]])
        array([[0.2, 0.8]])
        """
        found = self._filtered(confidences, allow, allow_by, masses=False)
        return _restricted(*found, masses=False)[0]

    def answer(
        self,
        confidences: Any,
        rule: AnswerRule | None = None,
        *,
        allow: Any = None,
        allow_by: Any = None,
    ) -> npt.NDArray[np.object_]:
        """Answer each row with a label of the result, or with unknown.

        Parameters
        ----------
        confidences, allow, allow_by
            As in `run`.
        rule : AnswerRule, optional
            When a row's answer is unknown, which is None unless the rule names it.

        Returns
        -------
        array of objects, of the leading shape of the confidences

        Examples
        --------
        >>> from unlabel import AnswerRule
        >>> masked = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox"])
        >>> masked.answer([[.2, .5, .3], [.8, .1, .1]], AnswerRule(max_removed_mass=.5))
        array(['dog', None], dtype=object)
        """
        rule = AnswerRule() if rule is None else rule
        rows, allowed, found = self._filtered(confidences, allow, allow_by)
        columns = answer_columns(rule, self.classes_out, found.rows, found.removed_mass, allowed)
        return answer_labels(rule, self.classes_out, columns).reshape(rows.shape[:-1])

    def _filtered(
        self, confidences: Any, allow: Any, allow_by: Any, *, masses: bool = True
    ) -> tuple[Floats, Allowed | None, Filtered]:
        """Return the array that was given, what its rows may have, and its rows filtered."""
        given = as_array(confidences, self.classes_in, self.classes_out)
        rows, dtype, allowed = given.reshape(-1, len(self.classes_in)), given.dtype, None
        if allow is not None or allow_by is not None:
            allowed = allowed_rows(allow, allow_by, self, given.shape[:-1])
            # Keeps what little the allowed labels may have.
            is_linear = self.kind == "probabilities" and self.temperature == 1
            dtype = np.promote_types(dtype, np.float32 if is_linear else np.float64)
        found = run(self._recipe, rows, self.kind, dtype, masses=masses)
        if found.first_bad >= 0:
            raise bad_row(rows, found.first_bad, self.kind, self.classes_in)
        return given, allowed, found

    def then(self, second: OutputFilter) -> OutputFilter:
        """Return one filter that does what this one and then a second one do.

        Only filters that can be joined exactly are. The second must not be calibrated, and then
        either the second only merges, renames and splits; or both are masks without splits; or
        both only remove labels by OSR. Rows of which nothing is left are the exception: masks that
        merge may share those out differently.

        Parameters
        ----------
        second : OutputFilter
            A filter for the labels that this one gives, which takes probabilities.

        Examples
        --------
        >>> first = OutputFilter.from_plan({"cat": None}, classes=["cat", "dog", "fox", "wolf"])
        >>> both = first.then(OutputFilter.from_plan({"fox": "dog"}, classes=first.classes_out))
        >>> both.classes_out
        ('dog', 'wolf')
        >>> both.apply([[.2, .4, .2, .2]])
        array([[0.75, 0.25]])
        """
        require_filter(second)
        return joined(self, second)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the filter to a safetensors file, the same bytes every time.

        The file is written whole or not at all, and replaces one of the same name.
        """
        filter_file.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OutputFilter:
        """Load a filter from a file, without ever running code from it."""
        return filter_file.load(path, cls)


def _restricted(
    given: Floats, allowed: Allowed | None, found: Filtered, *, masses: bool = True
) -> tuple[Floats, Float64s]:
    """Return filtered rows in the shape and type of those given, and what was not allowed."""
    out, not_allowed = found.rows, np.zeros(len(found.rows) if masses else 0)
    if allowed is not None:
        not_allowed = restrict(out, *allowed, masses=masses)
        out = out.astype(given.dtype, copy=False)
    return out.reshape(*given.shape[:-1], out.shape[1]), not_allowed


def outcome_of_filter(fitted: OutputFilter) -> Outcome:
    """Return what becomes of the labels of a filter's model."""
    return fitted._outcome


def recipe_of(fitted: OutputFilter) -> Recipe:
    """Return the steps of the method, ready to be executed by any backend."""
    return fitted._recipe
