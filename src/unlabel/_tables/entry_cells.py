"""Entries whose labels and scores are cells of Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unlabel._tables.cells import as_floats
from unlabel._tables.entries import UNKNOWN, Entries, refuse_other_labels
from unlabel._tables.labels import label_cells, label_positions
from unlabel._typing import Columns, Label
from unlabel.errors import UnlabelError
from unlabel.labels import is_missing


def entries_of_cells(
    starts: Columns,
    labels: pa.Array,
    scores: pa.Array,
    classes: Sequence[Label],
    *,
    names: tuple[str, str],
) -> Entries:
    """Match labels to those of the model, and read their scores; both have a name for messages.

    A `UnlabelError` gives the place of the entry, not of its row.
    """
    cells, (of_labels, of_scores) = label_cells(labels, names[0]), names
    encoded = cells.dictionary_encode("encode")
    known = label_positions(encoded.dictionary, classes)
    of_value = np.array([UNKNOWN if at is None else at for at in known], dtype=np.intp)
    positions = np.asarray(of_value[encoded.indices.to_numpy()])
    for at in np.flatnonzero(positions == UNKNOWN).tolist():
        if is_missing(cells[at].as_py()):
            raise UnlabelError(f"It has no label in column {of_labels!r}: give it one.", row=at)
        alone = Entries(np.arange(len(cells) + 1), positions, np.empty(0))
        refuse_other_labels(alone, pc.cast(cells, pa.string()).to_pylist(), classes)
    values = as_floats(scores, of_scores)
    for at in np.flatnonzero(np.isnan(values)).tolist():
        raise UnlabelError(f"It has no score in column {of_scores!r}: give it one.", row=at)
    return Entries(starts, positions, values)
