"""Labels in answers: outputs that give the top label, and lists of labels in parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from unlabel._typing import Columns, Floats, Label
from unlabel.filter import OutputFilter
from unlabel.labels import known_columns
from unlabel.serve.protocol import (
    BYTES,
    INTEGERS,
    JSON_ERRORS,
    NUMBERS,
    Array,
    ProtocolError,
    Tensor,
)

WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,19}")
SEPARATORS = (",", ", ", ";", "\n", "\t", " ")
NAME_IT = "name the outputs that give labels, '' if none does."
# Parameters that say which label each column is.
OF_COLUMNS = ("labels", "classes", "class_names", "id2label", "label2id")


class LabelNames:
    """The names that outputs and parameters have for the labels of a model and of its filter."""

    def __init__(self, fitted: OutputFilter, unknown: Label | None) -> None:
        self.fitted, self.unknown = fitted, unknown
        self.answers = (*fitted.classes_out, unknown)  # the column of unknown is -1
        self.old_texts = [str(label) for label in fitted.classes_in]
        self.new_texts = [str(label) for label in fitted.classes_out]
        self._texts = np.array([*self.new_texts, str(unknown)], dtype=object)
        self._old_labels = {*self.old_texts}

    def is_label_output(self, tensor: Tensor, rows: Floats) -> bool:
        """Whether an output gives the label of each row: texts that are labels of the model.

        Nobody can tell whether whole numbers are labels or counts, say: these must be named. So
        must texts of which only some are labels.
        """
        if not _fits(tensor, rows):
            return False
        if tensor.datatype in INTEGERS:
            raise ProtocolError(
                f"The output {tensor.name!r} has a whole number per row, which may be its label: "
                f"{NAME_IT}",
                argument="labels",
            )
        if tensor.datatype != BYTES:
            return False
        if self.gives_labels(tensor, rows):
            return True
        texts = {*tensor.values().flat}
        others = texts - self._old_labels
        if others != texts:
            raise ProtocolError(
                f"The output {tensor.name!r} has labels of the model and other texts, such as "
                f"{min(others)!r}: {NAME_IT}",
                argument="labels",
            )
        return False

    def gives_labels(self, tensor: Tensor, rows: Floats) -> bool:
        """Whether an output gives a text per row, all of which are labels of the model."""
        if tensor.datatype != BYTES or not _fits(tensor, rows):
            return False
        return self._old_labels.issuperset(tensor.values().flat)

    def recomputed(self, tensor: Tensor, rows: Floats, answers: Columns) -> Tensor:
        """Return an output of labels with the new answers, columns of the result's labels."""
        if not _fits(tensor, rows):
            raise ProtocolError(
                f"The output {tensor.name!r} has the shape {[*tensor.shape]} in {tensor.datatype} "
                f"and cannot be the labels of confidences of the shape {[*rows.shape]}."
            )
        if self.unknown is None and (answers < 0).any():
            raise ProtocolError(
                "A row has nothing on its allowed labels, and unknown has no name: give a rule "
                "that names it.",
                argument="rule",
            )
        if tensor.datatype == BYTES:
            new: Array = self._texts[answers]
            return tensor.changed(
                new.reshape(tensor.shape), parameters=self.renamed(tensor.parameters)
            )
        return tensor.changed(self._as_numbers(tensor, answers).reshape(tensor.shape))

    @cached_property
    def are_numbers(self) -> bool:
        """Whether all labels of the model are numbers, which then stand for themselves."""
        return all(_number(label) is not None for label in self.fitted.classes_in)

    @cached_property
    def _numbering(self) -> tuple[set[int], list[int | None]]:
        """The numbers of the model's labels, and of the answers.

        Labels that are numbers themselves stand for themselves, others for their columns in the
        model.
        """
        old = [_number(label) for label in self.fitted.classes_in]
        new = [None if label is None else _number(label) for label in self.answers]
        if self.are_numbers:
            return {number for number in old if number is not None}, new
        columns = known_columns(self.fitted.classes_out, self.fitted.classes_in).tolist()
        new[: len(columns)] = [None if column < 0 else column for column in columns]
        return {*range(len(old))}, new

    def _as_numbers(self, tensor: Tensor, answers: Columns) -> Array:
        known, names = self._numbering
        for value in tensor.values().ravel().tolist():
            if value not in known:
                raise ProtocolError(
                    f"The output {tensor.name!r} has {value}, which is not a label of the model."
                )
        dtype = np.dtype(NUMBERS[tensor.datatype])
        for column in np.unique(answers).tolist():
            number = names[column]
            if number is None or not _holds(dtype, number):
                raise ProtocolError(
                    f"The output {tensor.name!r} gives labels as {tensor.datatype} and cannot give "
                    f"{self.answers[column]!r}: name it by such a number, or ask for other outputs."
                )
        return np.array([names[column] for column in answers.tolist()], dtype=dtype)

    def renamed(self, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return parameters with the result's labels where they list the model's, if they do.

        Labels of the columns that are not the filter's, or in another order, are refused. Other
        parameters may be numbers for their own reasons.
        """
        new = {
            key: None if self.are_numbers and key not in OF_COLUMNS else self._renamed_value(value)
            for key, value in parameters.items()
        }
        for key in OF_COLUMNS:
            if new.get(key, self) is None and self._lists_others(parameters[key]):
                raise ProtocolError(
                    f"The upstream's {key!r} are other labels than those that the filter was "
                    "fitted for, or in another order: fit a filter for this model."
                )
        if all(value is None for value in new.values()):
            return None
        return {key: parameters[key] if value is None else value for key, value in new.items()}

    def _renamed_value(self, value: Any) -> Any:
        """Return the result's labels in the form of the model's, None if it has not these."""
        if isinstance(value, str):
            return self._renamed_text(value)
        if not isinstance(value, list | tuple | dict) or len(value) != len(self.old_texts):
            return None
        if isinstance(value, list | tuple):
            return [*self._like(value)] if self._are_old(value) else None
        ids = {str(number): label for number, label in enumerate(self.old_texts)}
        if self._are_old([value.get(key, value.get(int(key))) for key in ids]):
            return {str(at): label for at, label in enumerate(self._like([*value.values()]))}
        if value == {label: number for number, label in enumerate(self.old_texts)}:
            return {label: number for number, label in enumerate(self.new_texts)}
        return None

    def _lists_others(self, value: Any) -> bool:
        """Whether a value that is not the model's labels lists as many, or some of them."""
        if isinstance(value, str) and value[:1] in ("[", "{"):
            with suppress(*JSON_ERRORS):
                value = msgspec.json.decode(value)
        if isinstance(value, str):
            return any(self._are_others(value.split(separator)) for separator in SEPARATORS)
        if not isinstance(value, list | tuple | dict):
            return False
        entries = [*value, *value.values()] if isinstance(value, dict) else value
        return len(value) == len(self.old_texts) or not self._old_labels.isdisjoint(
            map(str, entries)
        )

    def _are_others(self, parts: Sequence[str]) -> bool:
        """Whether parts of a text, which may be a sentence, are a list of labels."""
        known = self._old_labels.intersection(parts)
        is_whole = len(parts) == len(self.old_texts) and bool(known)
        return len(parts) > 1 and (is_whole or known.issuperset(parts))

    def _renamed_text(self, text: str) -> str | None:
        for separator in SEPARATORS if self.old_texts else ():
            if text.startswith(self.old_texts[0]) and text.split(separator) == self.old_texts:
                return separator.join(self.new_texts)
        if text[:1] in ("[", "{"):
            try:
                new = self._renamed_value(msgspec.json.decode(text))
            except JSON_ERRORS:
                return None
            return None if new is None else msgspec.json.encode(new).decode()
        return None

    def _are_old(self, labels: Sequence[Any]) -> bool:
        return [*map(str, labels)] == self.old_texts

    def _like(self, old: Sequence[Any]) -> Sequence[Any]:
        """Return the result's labels, as texts if the old ones were."""
        are_texts = all(isinstance(label, str) for label in old)
        return self.new_texts if are_texts else self.fitted.classes_out


def _fits(tensor: Tensor, rows: Floats) -> bool:
    """Whether an output may have one label per row."""
    lead = rows.shape[:-1]
    has_labels = tensor.datatype == BYTES or tensor.datatype in NUMBERS
    return has_labels and tensor.shape in (lead, (*lead, 1))


def _number(label: Label) -> int | None:
    """Return a label as a number, if it is one."""
    if isinstance(label, str):
        return int(label) if WHOLE_NUMBER.fullmatch(label) else None
    return label


def _holds(dtype: np.dtype[Any], number: int) -> bool:
    if dtype.kind == "f":
        return True
    limits = np.iinfo(dtype)
    return bool(limits.min <= number <= limits.max)
