"""Tables of confidences read from npy, npz, csv and parquet, batch by batch.

Whatever the format, a table is a stream of Arrow record batches. In an npy file the rows
are one list column, ``confidences``. An npz file has one array of two dimensions, which
becomes a list column; arrays of one entry per row, which become further columns; and
optionally ``classes``, the names of the labels in the order of the array's columns.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from unlabel._files.atomic import require_file
from unlabel._labels import as_labels
from unlabel._tables.csv_input import CsvFile, not_utf_8, refuse_other_separators
from unlabel._typing import Label
from unlabel.errors import UnlabelError

Batches = Iterator[tuple[pa.RecordBatch, float]]

BATCH_ROWS = 1 << 15
BATCH_ENTRIES = 1 << 22  # fewer rows, where there are so many labels that a batch would be large
# What the readers of parquet's columns hold in all, a small piece of each column at a time.
PARQUET_BUFFERS = 1 << 26
# An npz file is read whole, so what it may unpack to is limited.
MAX_NPZ_BYTES = 1 << 30
NUMBERS = "biuf"  # NumPy's kinds of plain numbers


@dataclass(frozen=True)
class Table:
    """A table that can be read batch by batch."""

    path: Path
    schema: pa.Schema
    read: Callable[[], Batches]
    classes: tuple[Label, ...] | None = None  # where the file itself names the labels

    def batches(self) -> Batches:
        """Read the table from its start: batches, each with the part of the file read so far."""
        with _told(self.path):
            yield from self.read()

    def head(self) -> pa.RecordBatch:
        """The first rows, for finding out what the columns hold."""
        for batch, _ in self.batches():
            if len(batch):
                return batch
        raise UnlabelError(f"{self.path} has no rows: give a table with at least one.")


def open_table(path: str | os.PathLike[str]) -> Table:
    """Open a table for reading; its format is the file's ending."""
    path = Path(path)
    opener = by_ending(path, OPENERS)
    table: Table = opener(require_file(path))
    if not table.schema.names:
        raise UnlabelError(f"{path} has no columns: give a table with a header.")
    return table


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into a sentence that names the file.

    Only calls into NumPy, zipfile and Arrow go in here: what these raise has no common class.
    """
    try:
        yield
    except UnlabelError:
        raise
    except Exception as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        why = why.split("\n")[0].rstrip(".")
        if "invalid UTF8" in why or (path.suffix == ".csv" and isinstance(error, UnicodeError)):
            raise not_utf_8(path) from error
        if "CSV parse error" in why:
            refuse_other_separators(path)
        raise UnlabelError(f"{path} could not be read as {path.suffix[1:]}: {why}.") from error


def by_ending(path: Path, formats: dict[str, Any]) -> Any:
    """What is there for a file's format, which is its ending."""
    if path.suffix not in formats:
        known = ", ".join(formats)
        raise UnlabelError(f"{path} has no known ending: name it {known}.")
    return formats[path.suffix]


def _batch_rows(entries: int) -> int:
    return max(1, min(BATCH_ROWS, BATCH_ENTRIES // max(1, entries)))


def _open_parquet(path: Path) -> Table:
    with _told(path):
        columns = pa.parquet.read_metadata(path).num_columns
        # Without pre-buffering a row group larger than memory is read page by page.
        buffer = min(1 << 20, max(1 << 12, PARQUET_BUFFERS // max(1, columns)))
        file = pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=buffer)
        rows, schema = file.metadata.num_rows, file.schema_arrow
        widths = [getattr(kind, "list_size", 1) for kind in schema.types]
        schema.names  # noqa: B018, names that are not UTF-8 show here

    def read() -> Batches:
        done = 0
        for batch in file.iter_batches(batch_size=_batch_rows(sum(widths))):
            # Indices beyond a dictionary's end would else be followed, or written out.
            batch.validate(full=True)
            done += len(batch)
            yield batch, done / rows

    return Table(path, schema, read)


def _open_csv(path: Path) -> Table:
    with _told(path):
        file = CsvFile(path)
        file.schema.names  # noqa: B018, names that are not UTF-8 show here
    return Table(path, file.schema, file.read)


def _open_npy(path: Path) -> Table:
    with _array_errors(path, "the array"):
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(rows, np.ndarray):
        raise UnlabelError(f"{path} does not hold an npy array: give it the ending of its format.")
    return _table_of_arrays(path, {"confidences": rows}, None)


def _open_npz(path: Path) -> Table:
    with _told(path), ZipFile(path) as archive:
        members = archive.infolist()
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise UnlabelError(f"{path} has two arrays of one name: save it anew.")
    size = sum(member.file_size for member in members)
    if size > MAX_NPZ_BYTES:
        raise UnlabelError(
            f"{path} unpacks to {size >> 20} MiB and npz files are read whole: save it as npy or "
            "parquet, which are streamed."
        )
    arrays = {}
    with _array_errors(path, "it"):
        archive = np.load(path, allow_pickle=False)
    with archive:
        for name in archive.files:
            with _array_errors(path, repr(name)):
                arrays[name] = archive[name]
            if not isinstance(arrays[name], np.ndarray):
                raise UnlabelError(f"{path} has a file {name!r} that is not an array: remove it.")
    classes = arrays.pop("classes", None)
    return _table_of_arrays(path, arrays, classes)


@contextmanager
def _array_errors(path: Path, what: str) -> Iterator[None]:
    """Say what is wrong with an array; Python objects, which only pickle reads, in words that help.

    Reading a damaged header, Python may warn of its syntax before NumPy refuses it.
    """
    with _told(path), warnings.catch_warnings(action="ignore"):
        try:
            yield
        except ValueError as error:
            if not re.search("Object arrays|Python objects", str(error)):
                raise
            raise UnlabelError(
                f"{path} has Python objects in {what}: save numbers as float32 or float64, and "
                "texts with .astype(str)."
            ) from error


def _table_of_arrays(
    path: Path, arrays: dict[str, np.ndarray[Any, Any]], names: np.ndarray[Any, Any] | None
) -> Table:
    square = [array for array in arrays.values() if array.ndim == 2]
    if len(square) != 1:
        raise UnlabelError(
            f"{path} has {len(square)} arrays of two dimensions: give one, rows by labels."
        )
    kind = square[0].dtype
    if kind.kind not in NUMBERS or kind.itemsize > 8:
        raise UnlabelError(f"{path} has confidences of type {kind}: save them as float64.")
    count, labels = square[0].shape
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or len(array) != count:
            raise UnlabelError(
                f"{path} has an array {name!r} of shape {array.shape} beside {count} rows of "
                "confidences: give one entry per row."
            )
    if names is not None and names.shape != (labels,):
        raise UnlabelError(
            f"{path} has 'classes' of shape {names.shape} beside {labels} columns of confidences: "
            "give one name per column."
        )

    def read() -> Batches:
        step = _batch_rows(labels)
        for start in range(0, count, step):
            end = min(start + step, count)
            yield _batch({name: array[start:end] for name, array in arrays.items()}), end / count

    with _told(path):
        schema = _batch({n: a[:0] for n, a in arrays.items()}).schema
        classes = None if names is None else as_labels(names.tolist(), f"'classes' of {path}")
    return Table(path, schema, read, classes)


def _batch(arrays: dict[str, np.ndarray[Any, Any]]) -> pa.RecordBatch:
    return pa.record_batch({name: _column(array) for name, array in arrays.items()})


def _column(array: np.ndarray[Any, Any]) -> pa.Array:
    if array.ndim == 2:
        return list_column(array)
    return pa.array(array.astype(array.dtype.newbyteorder("="), copy=False))


def list_column(rows: np.ndarray[Any, Any]) -> pa.FixedSizeListArray:
    """Rows of an array as one column of lists."""
    native = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("="))
    values = pa.array(native.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])


OPENERS: dict[str, Callable[[Path], Table]] = {
    ".parquet": _open_parquet,
    ".csv": _open_csv,
    ".npy": _open_npy,
    ".npz": _open_npz,
}
