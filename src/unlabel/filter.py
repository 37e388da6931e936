"""The fitted filter: immutable, framework-free, everything a deployment needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from operator import index
from typing import Any

import numpy as np

from unlabel._files import filter_file
from unlabel._method.backend import Filtered, filter_rows
from unlabel._method.chain import Recipe
from unlabel._method.literal import apply_literal, as_probabilities
from unlabel._method.split import row_blocks, split
from unlabel._method.temperature import COLDEST, HOTTEST
from unlabel._typing import (
    INPUT_KINDS,
    METHODS,
    Columns,
    Float64s,
    Floats,
    InputKind,
    Label,
    Method,
)
from unlabel.errors import UnlabelError
from unlabel.validation import (
    SUM_TOLERANCE,
    as_classes,
    as_confidences,
    as_labels,
    as_rows,
    check_rows,
    choice,
    known_columns,
    labels_to_remove,
    listing,
)


def require_filter(value: object) -> None:
    """Refuse what is not a filter: a path, or a remover that was not asked for its own."""
    if not isinstance(value, OutputFilter):
        raise UnlabelError(
            f"The filter is a {type(value).__name__}: give an OutputFilter, as remover.filter_ and "
            "OutputFilter.load(path) are."
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OutputFilter:
    """Removes labels from a classifier's confidence vectors.

    It holds statistics of labels, never a row of data. `unlabel.LabelRemover` fits one.

    Attributes
    ----------
    classes_in : tuple of labels
        The labels of the model, in the order of its outputs.
    removed : tuple of labels
        The removed labels, in the order of their removal.
    means, shares : arrays of shape (n_removed, n_labels)
        The statistics of each removed label: the mean of its reference rows, and how its
        residual is shared out; 0 for labels that are gone at its turn. All 0 with
        ``method="mask"``, which needs none.
    counts : tuple of int
        The number of reference rows of each removed label.
    method : {"osr", "mask", "literal"}
    input : {"probabilities", "logits"}
        What `apply` takes. It returns probabilities in either case.
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
    removed: tuple[Label, ...]
    means: Float64s
    shares: Float64s
    counts: tuple[int, ...]
    method: Method = "osr"
    input: InputKind = "probabilities"
    temperature: float = 1.0
    # `dataclasses.replace` hands it on: so it is noticed when steps or the order of labels change.
    _fitted: tuple[tuple[Label, ...], Columns, Float64s, Float64s] | None = None

    @classmethod
    def mask(
        cls, classes: Iterable[Any], remove: Iterable[Any], *, input: InputKind = "probabilities"
    ) -> OutputFilter:
        """Make a filter that drops labels and divides by the sum, which takes no reference rows.

        Examples
        --------
        >>> OutputFilter.mask(["cat", "dog", "fox"], ["cat"]).apply([[.6, .3, .1]]).round(3)
        array([[0.75, 0.25]])
        """
        names, removed = as_classes(classes), as_labels(remove, "remove")
        return cls(
            classes_in=names,
            removed=removed,
            means=np.zeros((len(removed), len(names))),
            shares=np.zeros((len(removed), len(names))),
            counts=(0,) * len(removed),
            method="mask",
            input=input,
        )

    def __post_init__(self) -> None:
        classes = as_classes(self.classes_in)
        self._set("classes_in", classes)
        self._set("removed", labels_to_remove(classes, self.removed, None))
        choice(self.method, METHODS, "method")
        choice(self.input, INPUT_KINDS, "input")
        if not isinstance(self.temperature, int | float) or not (
            COLDEST <= self.temperature <= HOTTEST
        ):
            raise UnlabelError(
                f"The temperature is {self.temperature!r}: it must lie between {COLDEST} and "
                f"{HOTTEST}."
            )
        if self.method == "literal" and self.temperature != 1:
            raise UnlabelError("method='literal' gives no probabilities, and has no temperature.")
        try:
            self._set("counts", tuple(map(index, self.counts)))
        except TypeError as error:
            raise UnlabelError(f"{self.counts!r} are not counts of rows.") from error
        if len(self.counts) != len(self.removed) or any(count < 0 for count in self.counts):
            raise UnlabelError(f"{self.counts!r} is not one count of rows per removed label.")
        for name in ("means", "shares"):
            statistics = np.array(getattr(self, name), dtype=np.float64, order="C")
            statistics.flags.writeable = False
            self._set(name, statistics)
        self._check_statistics()
        steps = (self.removed_columns, self.means, self.shares)
        if self._fitted is not None:
            fitted_classes, *fitted_steps = self._fitted
            places = known_columns(self.classes_in, fitted_classes)
            if ((places >= 0) & (places != np.arange(len(places)))).any():
                raise UnlabelError("The labels of a filter cannot change places: fit it anew.")
            if not all(map(np.array_equal, steps, fitted_steps)):
                raise UnlabelError(
                    "The steps of a filter were fitted one after another and cannot be changed one "
                    f"by one: fit a filter that removes {listing(self.removed)}."
                )
        self._set("_fitted", (self.classes_in, *steps))

    def _set(self, name: str, value: object) -> None:
        """Keep a value of our own in the place of what was given, while the filter is made."""
        object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy is made anew: it cannot be written to either.
        return partial(type(self), **{of.name: getattr(self, of.name) for of in fields(self)}), ()

    def __eq__(self, other: object) -> bool:
        """Whether two filters hold the same."""
        if not isinstance(other, OutputFilter):
            return NotImplemented
        return self._facts == other._facts and all(
            map(np.array_equal, (self.means, self.shares), (other.means, other.shares))
        )

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def _facts(self) -> tuple[object, ...]:
        """All but the statistics; as texts 1, 1.0 and True are three labels."""
        labels = repr((self.classes_in, self.removed))
        return labels, self.counts, self.method, self.input, self.temperature

    def __repr__(self) -> str:
        n = len(self.classes_in)
        return (
            f"<OutputFilter: {listing(self.removed) or 'nothing'} removed from {n} labels, "
            f"method={self.method!r}, input={self.input!r}, temperature={self.temperature:.4g}>"
        )

    def _check_statistics(self) -> None:
        """Refuse statistics that no reference rows could have given."""
        shape = (len(self.removed), len(self.classes_in))
        steps = np.arange(len(self.removed))
        removed_at = np.full(len(self.classes_in), len(self.removed))
        removed_at[self.removed_columns] = steps
        there = removed_at >= steps[:, None]  # the labels that each step finds
        after = removed_at > steps[:, None]  # the labels that each step leaves
        for name, statistics, at in (("mean", self.means, there), ("share", self.shares, after)):
            if statistics.shape != shape:
                raise UnlabelError(f"The {name}s have the shape {statistics.shape}, not {shape}.")
            fine = np.isfinite(statistics) & (at | (statistics == 0))
            if self.method == "osr":
                sums = statistics.sum(axis=1, keepdims=True)
                least = 1 - 1e-6 if name == "mean" else 0.0
                fine &= (statistics >= 0) & (sums > least) & (sums < 1 + 1e-6)
            elif self.method == "mask":
                fine &= statistics == 0
            else:  # the letter of the algorithm diverges, yet its squares must stay finite
                fine &= np.abs(statistics) < 1e150
            if not fine.all():
                label = self.removed[int(np.argmin(fine.all(axis=1)))]
                raise UnlabelError(
                    f"The {name} of the removed label {label!r} is not one that "
                    f"method={self.method!r} gives."
                )

    def taking(self, input: InputKind | None) -> OutputFilter:
        """Give the filter for rows of a declared kind, by default the kind it was fitted on.

        What a filter knows of its labels is the same for probabilities and for logits.
        """
        return self if input in (None, self.input) else replace(self, input=input)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels that remain, in the order of the result's columns."""
        return tuple(self.classes_in[column] for column in self.retained_columns)

    @cached_property
    def removed_columns(self) -> Columns:
        """The columns of the removed labels, in the order of their removal."""
        return known_columns(self.removed, self.classes_in)

    @cached_property
    def retained_columns(self) -> Columns:
        """The columns of the labels that remain, in ascending order."""
        retained = np.ones(len(self.classes_in), dtype=np.bool_)
        retained[self.removed_columns] = False
        return np.flatnonzero(retained)

    @cached_property
    def recipe(self) -> Recipe:
        """The steps of the method, ready to be executed by any backend."""
        steps = len(self.removed) if self.method == "osr" else 0
        return Recipe.of_steps(
            self.removed_columns, self.retained_columns, self.means[:steps], self.shares[:steps]
        )

    def apply(self, confidences: Any) -> Floats:
        """Turn vectors over the model's labels into vectors over those that remain.

        Parameters
        ----------
        confidences : array of shape (n_rows, n_labels)
            Probabilities or logits, as the filter's `input` says, in float16, float32 or
            float64. They are not written to. Logits are refused where probabilities are
            expected; the other way round nothing tells them apart, and the result is wrong.

        Returns
        -------
        array of shape (n_rows, n_labels - n_removed)
            Probabilities in the dtype of the input, computed in float64. A row's result
            does not depend on the rows beside it.
        """
        rows = as_rows(confidences, self.classes_in)
        if self.method == "literal":
            check_rows(rows, self.input)
            return self.apply_checked(rows)
        filtered = self._filter(rows, tolerance=SUM_TOLERANCE[rows.dtype])
        if filtered.all_valid:
            return filtered.rows
        check_rows(rows, self.input)
        # Sums in another order may differ by a bit, and with it what is within the tolerance.
        return self.apply_checked(rows)

    def apply_checked(self, rows: Floats) -> Floats:
        """Apply the filter to rows that were validated before."""
        if self.method == "literal":
            probabilities = as_probabilities(rows, self.input)
            result = apply_literal(probabilities, self.removed_columns, self.means, self.shares)
            return result.astype(rows.dtype)
        return self._filter(rows).rows

    def _filter(self, rows: Floats, **options: Any) -> Filtered:
        return filter_rows(
            self.recipe, rows, self.input, temperature=self.temperature, **options
        )

    def removed_mass(self, confidences: Any) -> Float64s:
        """Give the probability that each row has on the removed labels.

        Examples
        --------
        >>> from unlabel import LabelRemover
        >>> mask = LabelRemover(remove=[0, 2], method="mask").fit([[.7, .2, .1]]).filter_
        >>> mask.removed_mass([[.5, .2, .3]])
        array([0.8])
        """
        rows = as_confidences(confidences, self.input, self.classes_in)
        mass = np.empty(len(rows))
        for block, out in zip(row_blocks(rows), row_blocks(mass, rows.shape[1]), strict=True):
            masses = split(block, self.removed_columns, self.retained_columns, self.input)
            out[:] = masses.removed_mass
        return mass

    def destinations(self) -> Float64s:
        """Give what the mean vector of each removed label becomes, with ``method="osr"``.

        Returns
        -------
        array of shape (n_removed, n_labels - n_removed)
        """
        # A mean passes the steps before its own unchanged: it holds none of their labels.
        means = filter_rows(self.recipe, self.means, "probabilities", temperature=self.temperature)
        return np.asarray(means.rows, dtype=np.float64)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the filter to a safetensors file, the same bytes every time.

        The file appears whole or not at all. One that is there already is an error, unless
        `overwrite` is set.
        """
        filter_file.save(self, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OutputFilter:
        """Read a filter from a file. Nothing in the file is ever run."""
        state = filter_file.load(path)
        try:
            return cls(**state)
        except UnlabelError as error:
            raise filter_file.malformed(path, str(error).rstrip(".")) from error
