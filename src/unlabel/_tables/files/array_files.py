"""Read npy and npz files as Arrow record batches.

The rows of an npy file become one list column, ``confidences``. An npz file has one array of
two dimensions, which becomes a list column; arrays with one entry per row, which become further
columns; and optionally ``classes``, the names of the labels in the order of the array's columns.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa

from unlabel._typing import Label
from unlabel.errors import UnlabelError, located
from unlabel.labels import as_labels

# An npz file is read whole, so its unpacked size is limited.
MAX_NPZ_BYTES = 1 << 30
NOT_NPY = "It does not hold an npy array: give it the ending of its format."
NUMERIC_KINDS = "biuf"  # NumPy's codes for booleans, integers and floats


@dataclass(frozen=True)
class ArrayFile:
    """The arrays of a file, which all have one entry or one row per row of the table."""

    arrays: dict[str, np.ndarray[Any, Any]]
    shape: tuple[int, int]  # of the confidences: rows and labels
    classes: tuple[Label, ...] | None

    @property
    def schema(self) -> pa.Schema:
        """The columns that the arrays become."""
        return self._batch(0, 0).schema

    def read(self, step: int) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield batches of `step` rows, each with the fraction of the file read so far."""
        count = self.shape[0]
        for start in range(0, count, step):
            end = min(start + step, count)
            yield self._batch(start, end), end / count

    def _batch(self, start: int, end: int) -> pa.RecordBatch:
        rows = {name: array[start:end] for name, array in self.arrays.items()}
        return pa.record_batch(
            {name: list_column(a) if a.ndim == 2 else _values(a) for name, a in rows.items()}
        )


def list_column(rows: np.ndarray[Any, Any]) -> pa.FixedSizeListArray:
    """Turn the rows of an array into a list column."""
    return pa.FixedSizeListArray.from_arrays(_values(rows.reshape(-1)), rows.shape[1])


def _values(array: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


def open_npy(path: Path) -> ArrayFile:
    """Open the one array of an npy file, whose rows stay on disk."""
    with _array_errors("the array"):
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(rows, np.ndarray):
        raise UnlabelError(NOT_NPY)
    return _checked({"confidences": rows})


def open_npz(path: Path) -> ArrayFile:
    """Read the arrays of an npz file."""
    with ZipFile(path) as archive:
        members = archive.infolist()
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise UnlabelError("It has two arrays of the same name: save it again.")
    size = sum(member.file_size for member in members)
    if size > MAX_NPZ_BYTES:
        raise UnlabelError(
            f"It unpacks to {size >> 20} MiB and npz files are read whole: save it as npy or "
            "parquet, which are streamed."
        )
    arrays = {}
    with _array_errors("it"):
        archive = np.load(path, allow_pickle=False)
    with archive:
        for name in archive.files:
            with _array_errors(repr(name)):
                arrays[name] = archive[name]
            if not isinstance(arrays[name], np.ndarray):
                raise UnlabelError(f"It has a file {name!r} that is not an array: remove it.")
    return _checked(arrays, arrays.pop("classes", None))


@contextmanager
def _array_errors(what: str) -> Iterator[None]:
    """Explain errors of reading an array, above all of Python objects, which need pickle.

    Python may warn about the syntax of a damaged header before NumPy refuses it.
    """
    with warnings.catch_warnings(action="ignore"):
        try:
            yield
        except ValueError as error:
            if "pickled" in str(error):  # said of any file that is neither npy nor npz
                raise UnlabelError(NOT_NPY) from error
            if not re.search("Object arrays|Python objects", str(error)):
                raise
            raise UnlabelError(
                f"There are Python objects in {what}: save numbers as float32 or float64, and "
                "texts with .astype(str)."
            ) from error


def _checked(
    arrays: dict[str, np.ndarray[Any, Any]], names: np.ndarray[Any, Any] | None = None
) -> ArrayFile:
    """Refuse arrays that are not confidences with further columns."""
    matrices = [array for array in arrays.values() if array.ndim == 2]
    if len(matrices) != 1:
        raise UnlabelError(
            f"It has {len(matrices)} arrays of two dimensions: give one, rows by labels."
        )
    kind = matrices[0].dtype
    if kind.kind not in NUMERIC_KINDS or kind.itemsize > 8:
        raise UnlabelError(f"It has confidences of type {kind}: save them as float64.")
    count, labels = matrices[0].shape
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or len(array) != count:
            raise UnlabelError(
                f"It has an array {name!r} of shape {array.shape} beside {count} rows of "
                "confidences: give one entry per row."
            )
    if names is not None and names.shape != (labels,):
        raise UnlabelError(
            f"It has 'classes' of shape {names.shape} beside {labels} columns of confidences: "
            "give one name per column."
        )
    with located(row="the array 'classes'"):
        classes = None if names is None else as_labels(names.tolist())
    return ArrayFile(arrays, (count, labels), classes)
