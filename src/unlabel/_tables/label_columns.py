"""Columns that name a model's labels, such as predictions, and go stale when the labels change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._tables.cells import NUMBER, plain
from unlabel._tables.labels import label_cells, label_positions
from unlabel._tables.predictions import Part
from unlabel._typing import Booleans, Columns, Label
from unlabel.allow import Allowed
from unlabel.errors import UnlabelError
from unlabel.filter import OutputFilter, outcome_of_filter
from unlabel.labels import is_missing, listing

TRUE_LABELS = "label"  # what `fit` and `evaluate` call them: no predictions, and never stale


def refuse_other_values(column: pa.Array, name: str, classes: Sequence[Label]) -> None:
    """Refuse to update a column none of whose values is a label of the model."""
    values = label_cells(column, name).unique().drop_null()
    named = [value for value in values.to_pylist() if not is_missing(value)]
    if named and not any(found is not None for found in label_positions(values, classes)):
        raise UnlabelError(
            f"The column {name!r} does not name labels of the model, but {str(named[0])!r}: choose "
            "another one.",
            argument="update_column",
        )


def updated_labels(
    column: pa.Array,
    name: str,
    fitted: OutputFilter,
    before: Columns,
    answers: Columns,
    labels: Iterable[Label],
    allowed: Allowed | None = None,
) -> pa.Array:
    """Bring a column of labels up to date.

    The old top label, which is `before`, becomes the new answer, an index of `labels`. So does
    a label without a single destination, or with one that is not allowed. Any other label
    becomes its destination, and texts that are not labels stay.
    """
    cells = plain(column)
    texts = labels_in_type(labels, cells.type, name)
    encoded = label_cells(column, name).dictionary_encode("encode")
    positions = label_positions(encoded.dictionary, fitted.classes_in)
    found = np.array([-1 if each is None else each for each in positions], dtype=np.intp)
    old = found[encoded.indices.to_numpy()]
    to = outcome_of_filter(fitted).columns[old]
    is_answer = (old == before) | (to < 0)
    if allowed is not None:
        is_answer |= ~allowed.lists[allowed.of_row, to]
    position = np.where(is_answer, answers, to)
    new = texts.take(pa.array(position, mask=position < 0))  # without an answer, empty
    return pc.cast(pc.if_else(pa.array(old >= 0), new, cells), column.type)


def labels_in_type(labels: Iterable[Label], kind: pa.DataType, name: str) -> pa.Array:
    """Return labels in the type of a column, which must be able to hold them."""
    texts = [*map(str, labels)]
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        return pc.cast(pc.cast(pa.array(texts, pa.string()), value_type), kind)
    except pa.ArrowException as error:
        raise UnlabelError(
            f"The column {name!r} has the type {kind} and cannot hold the labels {listing(texts)}: "
            "turn it into texts first."
        ) from error


class StaleRows:
    """Counts of the rows in which columns name labels that are no longer what they were."""

    def __init__(self, fitted: OutputFilter) -> None:
        self._names: list[str] = []
        self._rows = Counter[str]()
        after, columns = fitted.classes_out, outcome_of_filter(fitted).columns.tolist()
        fates = zip(fitted.classes_in, columns, strict=True)
        self._is_stale = {str(label): to < 0 or after[to] != label for label, to in fates}

    def find_columns(self, part: Part, updated: str | None) -> None:
        """Find the columns besides the `updated` one whose first texts are all labels.

        Columns of numbers are not found, whatever their type, as they may count anything.
        """
        self._names = [
            name
            for name, column in part.others().items()
            if name not in (updated, TRUE_LABELS) and self._holds_labels(plain(column))
        ]

    def _holds_labels(self, column: pa.Array) -> bool:
        if not pa.types.is_string(column.type):
            return False
        texts = {text for text in column.unique().to_pylist() if not is_missing(text)}
        is_name = [re.match(NUMBER, text) is None for text in texts]
        return len(texts) > 1 and any(is_name) and texts <= self._is_stale.keys()

    def count(self, part: Part, kept: Booleans | None) -> None:
        """Count the stale rows of a part, or those of them that are kept."""
        for name in self._names:
            with suppress(UnlabelError):  # of cells that are not labels, and so not stale
                column = plain(part.cells(name))
                column = column if kept is None else column.filter(pa.array(kept))
                for text, rows in zip(*column.value_counts().flatten(), strict=True):
                    self._rows[name] += rows.as_py() * self._is_stale.get(text.as_py(), False)

    def remarks(self) -> list[str]:
        """Return one sentence per column that is not up to date."""
        return [
            f"The column {name!r} still names removed or changed labels in {rows:,} "
            f"row{'s' * (rows != 1)}: name it as the column to update."
            for name, rows in self._rows.items()
            if rows
        ]
