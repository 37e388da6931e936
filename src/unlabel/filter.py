"""The fitted filter: immutable, framework-free, everything a deployment needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from unlabel._files import filter_file
from unlabel._joining import joined
from unlabel._labels import as_classes, known_columns, listing
from unlabel._method.backend import Filtered, filter_rows
from unlabel._method.chain import Recipe
from unlabel._method.literal import apply_literal, as_probabilities
from unlabel._method.restrict import restrict
from unlabel._method.split import row_blocks, split
from unlabel._method.statistics import check_statistics
from unlabel._method.temperature import COLDEST, HOTTEST
from unlabel._row_sums import SUM_TOLERANCE
from unlabel._typing import (
    INPUT_KINDS,
    METHODS,
    SCORES,
    Columns,
    Float64s,
    Floats,
    InputKind,
    Label,
    Method,
    Scores,
)
from unlabel.allow import Allowed, as_allowed
from unlabel.errors import UnlabelError
from unlabel.plan import SPLIT, LabelPlan, Outcome, plan_for
from unlabel.validation import as_rows, check_rows, choice

# Where this much of a row is not allowed, the rest may be too little for float32.
NEARLY_ALL = 1 - 1e-6


def require_filter(value: object) -> None:
    """Refuse anything but a filter, such as a path or a fitted remover."""
    if not isinstance(value, OutputFilter):
        raise UnlabelError(
            f"The filter is a {type(value).__name__}: give an OutputFilter, such as "
            "remover.filter_ or OutputFilter.load(path)."
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OutputFilter:
    """A fitted filter that changes the labels of a classifier's confidence vectors.

    It holds statistics per label, never a row of data. `unlabel.LabelRemover` fits one.

    Attributes
    ----------
    classes_in : tuple of labels
        The labels of the model, in the order of its outputs.
    plan : LabelPlan
        The destinations of the labels. A mapping, or a list of labels to retire, will do too.
    means, shares : arrays of shape (n_removed, n_labels)
        The statistics of each retired label: the mean of its reference rows, and how its
        residual is shared out. They are 0 for labels retired in earlier steps. With
        ``method="mask"``, which needs none, they have no rows.
    counts : tuple of int
        The number of reference rows of each retired label.
    method : {"osr", "mask", "literal"}
    input : {"probabilities", "logits"}
        The kind of rows that `apply` takes. It returns probabilities for either kind.
    temperature : float
        The temperature of the result, 1 for a filter that was not calibrated.

    Examples
    --------
    >>> from unlabel import LabelRemover
    >>> confidences = [[.7, .2, .1], [.6, .1, .3], [.1, .8, .1]]
    >>> remover = LabelRemover(remove=["cat"], classes=["cat", "dog", "fox"])
    >>> retired = remover.fit(confidences, ["cat", "cat", "dog"]).filter_
    >>> retired.classes
    ('dog', 'fox')
    >>> retired.apply([[.6, .3, .1]]).round(3)
    array([[0.75, 0.25]])
    """

    classes_in: tuple[Label, ...]
    plan: LabelPlan
    means: Float64s
    shares: Float64s
    counts: tuple[int, ...]
    method: Method = "osr"
    input: InputKind = "probabilities"
    temperature: float = 1.0
    outcome: Outcome = field(init=False)
    # `dataclasses.replace` passes it on, which shows if it changed the steps or the label order.
    _fitted: tuple[tuple[Label, ...], Columns, Float64s, Float64s] | None = None

    @classmethod
    def mask(
        cls, classes: Iterable[Any], remove: Iterable[Any], *, input: InputKind = "probabilities"
    ) -> OutputFilter:
        """Make a filter that drops labels and divides by the sum, without reference rows.

        `remove` may be a mapping of labels to destinations, or a `LabelPlan`.

        Examples
        --------
        >>> OutputFilter.mask(["cat", "dog", "fox"], ["cat"]).apply([[.6, .3, .1]]).round(3)
        array([[0.75, 0.25]])
        """
        names = as_classes(classes)
        return cls._mask(names, plan_for(names, remove, None), input)

    @classmethod
    def _mask(cls, names: tuple[Label, ...], plan: LabelPlan, input: InputKind) -> OutputFilter:
        none = np.zeros((0, len(names)))
        return cls(
            classes_in=names,
            plan=plan,
            means=none,
            shares=none,
            counts=(0,) * len(plan.outcome(names).removed),
            method="mask",
            input=input,
        )

    def __post_init__(self) -> None:
        classes = as_classes(self.classes_in)
        self._set("classes_in", classes)
        # A text of a label is not taken for the label here: that is for those who read plans.
        plan = self.plan if isinstance(self.plan, LabelPlan) else LabelPlan(self.plan)
        self._set("plan", plan.matched(classes, by_text=False))
        self._set("outcome", self.plan.outcome(classes))
        choice(self.method, METHODS, "method")
        choice(self.input, INPUT_KINDS, "input")
        given = self.temperature
        if not (isinstance(given, int | float) and COLDEST <= given <= HOTTEST):
            raise UnlabelError(f"The temperature is {given!r}: give {COLDEST} to {HOTTEST}.")
        if self.method == "literal" and given != 1:
            raise UnlabelError("method='literal' does not give probabilities: use temperature=1.")
        if self.method == "literal" and self.has_destinations:
            raise UnlabelError("method='literal' only retires labels: use method='osr'.")
        try:
            self._set("counts", tuple(map(index, self.counts)))
        except TypeError as error:
            raise UnlabelError(f"{self.counts!r} are not counts of rows.") from error
        if len(self.counts) != len(self.removed) or any(count < 0 for count in self.counts):
            raise UnlabelError(f"{self.counts!r} is not one count of rows per retired label.")
        means, shares = (
            np.array(statistics, dtype=np.float64, order="C")
            for statistics in (self.means, self.shares)
        )
        check_statistics(self.method, means, shares, self.removed_columns, classes)
        for name, statistics in (("means", means), ("shares", shares)):
            # The zeros of a mask, one per retired label and label, could fill the memory.
            kept = statistics[:0].copy() if self.method == "mask" else statistics
            kept.flags.writeable = False
            self._set(name, kept)
        steps = (self.removed_columns, self.means, self.shares)
        if self._fitted is not None:
            fitted_classes, *fitted_steps = self._fitted
            places = known_columns(self.classes_in, fitted_classes)
            if ((places >= 0) & (places != np.arange(len(places)))).any():
                raise UnlabelError("The labels of a filter cannot change places: fit a new filter.")
            if not all(map(np.array_equal, steps, fitted_steps)):
                raise UnlabelError(
                    "The steps of a filter depend on one another and cannot be changed: fit a new "
                    f"filter that removes {listing(self.removed)}."
                )
        self._set("_fitted", (self.classes_in, *steps))

    def _set(self, name: str, value: object) -> None:
        """Replace a value that was given, while the frozen filter is being made."""
        object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling runs `__post_init__` again, so that a copy's arrays are read-only too.
        state = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return partial(type(self), **state), ()

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
        labels = repr(self.classes_in)  # the labels 1, 1.0 and True differ
        return labels, self.plan, self.counts, self.method, self.input, self.temperature

    def __repr__(self) -> str:
        n = len(self.classes_in)
        return (
            f"<OutputFilter: {listing(self.removed) or 'nothing'} removed from {n} labels, "
            f"{len(self.classes)} left, method={self.method!r}, input={self.input!r}, "
            f"temperature={self.temperature:.4g}>"
        )

    def taking(self, input: InputKind | None) -> OutputFilter:
        """Return the filter for rows of a declared kind, by default the kind it was fitted on."""
        # The statistics of labels are the same for probabilities and for logits.
        return self if input in (None, self.input) else replace(self, input=input)

    def as_mask(self) -> OutputFilter:
        """Return the mask with the same plan, not calibrated."""
        return self._mask(self.classes_in, self.plan, self.input)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels of the result's columns."""
        return self.outcome.classes

    @cached_property
    def removed(self) -> tuple[Label, ...]:
        """The retired labels, in the order in which they are retired."""
        return tuple(self.classes_in[column] for column in self.removed_columns)

    @property
    def note(self) -> str:
        """The note of the plan."""
        return self.plan.note

    @property
    def has_destinations(self) -> bool:
        """Whether labels are renamed, merged or split, beside those that are retired."""
        stay = known_columns(self.classes, self.classes_in)
        return self.outcome.merge is not None or not np.array_equal(stay, self.retained_columns)

    @property
    def has_splits(self) -> bool:
        """Whether any label is split."""
        return bool((self.outcome.columns == SPLIT).any())

    @property
    def removed_columns(self) -> Columns:
        """The columns of the retired labels, in the order in which they are removed."""
        return self.outcome.removed

    @property
    def retained_columns(self) -> Columns:
        """The columns of the labels that are not retired, in ascending order."""
        return self.outcome.retained

    @cached_property
    def recipe(self) -> Recipe:
        """The steps of the method, ready to be executed by any backend."""
        steps = len(self.removed) if self.method == "osr" else 0
        return Recipe.of_steps(
            self.removed_columns,
            self.retained_columns,
            self.means[:steps],
            self.shares[:steps],
            self.outcome.merge,
        )

    def has_changed(self, before: Columns, after: Columns) -> npt.NDArray[np.bool_]:
        """Tell which answers changed, given columns of the model's labels and of the result's.

        An answer has changed if the new one is not the destination of the old one.
        """
        to = self.outcome.columns[before]
        changed = to != after
        merge = self.outcome.merge
        if merge is not None and (to == SPLIT).any():
            parts = self.retained_columns[merge.sources] * len(self.classes) + merge.targets
            at = np.flatnonzero(to == SPLIT)
            changed[at] = ~np.isin(before[at] * len(self.classes) + after[at], parts)
        return np.asarray(changed)

    def apply(
        self, confidences: Any, *, allow: Any = None, scores: Scores = "renormalised"
    ) -> Floats:
        """Turn vectors over the model's labels into vectors over the result's labels.

        Parameters
        ----------
        confidences : array of shape (..., n_labels)
            Probabilities or logits, as the filter's `input` says, in float16, float32 or
            float64. They are not written to. Logits are refused where probabilities are
            expected; probabilities given as logits cannot be detected, and their result is
            wrong.
        allow : list of labels, boolean array, or `AllowLists.rows`, optional
            The labels of the result that all rows, or each row, may have. A boolean array has
            the shape of the result.
        scores : {"renormalised", "absolute"}
            With `allow`, divide the allowed labels by their sum, or leave them as they are. The
            others are 0 either way. Where the allowed labels have nothing, they share a
            renormalised row equally.

        Returns
        -------
        array of shape (..., number of `classes`)
            Probabilities in the dtype of the input, computed in float64. A row's result
            does not depend on the rows beside it.

        Examples
        --------
        >>> mask = OutputFilter.mask(["cat", "dog", "fox", "wolf"], ["cat"])
        >>> mask.apply([[.2, .4, .2, .2]], allow=["dog", "fox"]).round(3)
        array([[0.667, 0.333, 0.   ]])
        >>> mask.apply([[.2, .4, .2, .2]], allow=["dog", "fox"], scores="absolute")
        array([[0.5 , 0.25, 0.  ]])
        """
        rows = as_rows(confidences, self.classes_in, any_shape=True)
        flat = rows.reshape(-1, rows.shape[-1])
        choice(scores, SCORES, "scores")
        options: dict[str, Any] = {"absolute": scores == "absolute", "with_not_allowed": False}
        if allow is not None:
            options["allowed"] = as_allowed(allow, self.classes, self.removed, rows.shape[:-1])
        filtered = self.filter_valid(flat, **options)
        return filtered.rows.reshape(*rows.shape[:-1], len(self.classes))

    def filter_valid(self, rows: Floats, **options: Any) -> Filtered:
        """Validate rows and apply the filter in one pass; `filter_checked` has the options."""
        if self.method == "literal":
            check_rows(rows, self.input, self.classes_in)
        filtered = self.filter_checked(rows, tolerance=SUM_TOLERANCE[rows.dtype], **options)
        if filtered.all_valid:
            return filtered
        check_rows(rows, self.input, self.classes_in)
        # Sums in another order may differ by a bit, and with it what is within the tolerance.
        return self.filter_checked(rows, **options)

    def not_allowed_mass(self, confidences: Any, allow: Any) -> Float64s:
        """Return the probability that the result of each row has on labels that are not allowed.

        Examples
        --------
        >>> mask = OutputFilter.mask(["cat", "dog", "fox", "wolf"], ["cat"])
        >>> mask.not_allowed_mass([[.2, .4, .2, .2]], ["dog", "fox"])
        array([0.25])
        """
        rows, shape = self._as_checked_rows(confidences)
        allowed = as_allowed(allow, self.classes, self.removed, shape)
        return np.asarray(self.filter_checked(rows, allowed=allowed).not_allowed).reshape(shape)

    def apply_checked(self, rows: Floats, **options: Any) -> Floats:
        """Apply the filter to rows that were validated before; `filter_rows` has the options."""
        return self.filter_checked(rows, **options).rows

    def filter_checked(
        self,
        rows: Floats,
        *,
        with_mass: bool = False,
        allowed: Allowed | None = None,
        absolute: bool = False,
        with_not_allowed: bool = True,
        **more: Any,
    ) -> Filtered:
        """Apply the filter to rows that were validated before, and give their masses too."""
        if allowed is not None:
            more["with_mass"] = with_mass
            return self._filter_allowed(rows, allowed, absolute, with_not_allowed, **more)
        if self.method == "literal":
            probabilities = as_probabilities(rows, self.input)
            result = apply_literal(probabilities, self.removed_columns, self.means, self.shares)
            mass = self.removed_mass(rows) if with_mass else None
            return Filtered(result.astype(rows.dtype), mass, all_valid=True)
        return self._filter(rows, with_mass=with_mass, **more)

    def _filter_allowed(
        self, rows: Floats, allowed: Allowed, absolute: bool, with_not_allowed: bool, **options: Any
    ) -> Filtered:
        if self.method == "literal":
            raise UnlabelError("method='literal' does not give probabilities: leave out `allow`.")
        # A coarser type would lose what little the allowed labels may have.
        dtype = np.promote_types(rows.dtype, np.float32).type
        filtered = self._filter(rows, dtype=dtype, **options)
        is_exact = self.input == "probabilities" or dtype == np.float64
        not_allowed = restrict(
            filtered.rows,
            allowed.lists,
            allowed.of_row,
            absolute=absolute,
            with_mass=with_not_allowed or not is_exact,
        )
        if not is_exact and not_allowed is not None:
            # In float32, the exponentials of logits far below the others would be 0.
            far = np.flatnonzero(not_allowed > NEARLY_ALL)
            for block in row_blocks(far[:, None], rows.shape[1]):
                at = block[:, 0]
                exact = self._filter(rows[at].astype(np.float64)).rows
                restrict(exact, allowed.lists, allowed.of_row[at], absolute=absolute)
                filtered.rows[at] = exact
        result = filtered.rows.astype(rows.dtype, copy=False)
        return filtered._replace(rows=result, not_allowed=not_allowed)

    def _filter(self, rows: Floats, **options: Any) -> Filtered:
        return filter_rows(self.recipe, rows, self.input, temperature=self.temperature, **options)

    def removed_mass(self, confidences: Any) -> Float64s:
        """Return the probability that each row has on the retired labels.

        Examples
        --------
        >>> from unlabel import LabelRemover
        >>> mask = LabelRemover(remove=[0, 2], method="mask").fit([[.7, .2, .1]]).filter_
        >>> mask.removed_mass([[.5, .2, .3]])
        array([0.8])
        """
        rows, shape = self._as_checked_rows(confidences)
        mass = np.empty(len(rows))
        for block, out in zip(row_blocks(rows), row_blocks(mass, rows.shape[1]), strict=True):
            masses = split(block, self.removed_columns, self.retained_columns, self.input)
            out[:] = masses.removed_mass
        return mass.reshape(shape)

    def _as_checked_rows(self, confidences: Any) -> tuple[Floats, tuple[int, ...]]:
        """Return valid rows, and the shape of the array that they are the last dimension of."""
        rows = as_rows(confidences, self.classes_in, any_shape=True)
        flat = rows.reshape(-1, rows.shape[-1])
        check_rows(flat, self.input, self.classes_in)
        return flat, rows.shape[:-1]

    def filtered_means(self) -> Float64s:
        """Return the filtered mean vector of each retired label, for ``method="osr"``.

        Returns
        -------
        array of shape (n_removed, number of `classes`)
        """
        # A mean passes the steps before its own unchanged: it holds none of their labels.
        means = filter_rows(self.recipe, self.means, "probabilities", temperature=self.temperature)
        return np.asarray(means.rows, dtype=np.float64)

    def then(self, second: OutputFilter) -> OutputFilter:
        """Return one filter that does what this one and then a second one do.

        Only filters that can be joined exactly are. This one must not be calibrated, and then
        either the second only merges, renames and splits; or both are masks without splits; or
        both only retire labels by OSR. Rows of which nothing is left are the exception: masks that
        merge may share those out differently.

        Parameters
        ----------
        second : OutputFilter
            A filter for the labels that this one gives, which takes probabilities.

        Examples
        --------
        >>> first = OutputFilter.mask(["cat", "dog", "fox", "wolf"], ["cat"])
        >>> both = first.then(OutputFilter.mask(first.classes, {"fox": "dog"}))
        >>> both.classes
        ('dog', 'wolf')
        >>> both.apply([[.2, .4, .2, .2]])
        array([[0.75, 0.25]])
        """
        require_filter(second)
        return joined(self, second)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the filter to a safetensors file, the same bytes every time.

        The file is written whole or not at all. An existing file is an error unless
        `overwrite` is set.
        """
        filter_file.save(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OutputFilter:
        """Load a filter from a file, without ever running code from it."""
        state = filter_file.load(path)
        try:
            if isinstance(state["plan"], dict):
                state["plan"] = LabelPlan.of_pairs(**state["plan"])
            return cls(**state)
        except UnlabelError as error:
            raise filter_file.malformed(path, str(error).rstrip(".")) from error
