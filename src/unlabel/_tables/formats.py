"""Read tables of confidences from npy, npz, csv and parquet files, batch by batch.

Whatever the format, a table is a stream of Arrow record batches. The rows of an npy file
become one list column, ``confidences``. An npz file has one array of two dimensions, which
becomes a list column; arrays with one entry per row, which become further columns; and
optionally ``classes``, the names of the labels in the order of the array's columns.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from unlabel._files.atomic import require_file
from unlabel._labels import as_labels
from unlabel._tables.csv_input import CsvFile
from unlabel._typing import Label
from unlabel.errors import RowError, UnlabelError

Batches = Iterator[tuple[pa.RecordBatch, float]]

BATCH_ROWS = 1 << 16
BATCH_ENTRIES = 1 << 22  # with very many labels a batch has fewer rows
# The buffers of all columns of a parquet file together, in bytes.
PARQUET_BUFFERS = 1 << 26
# An npz file is read whole, so its unpacked size is limited.
MAX_NPZ_BYTES = 1 << 30
NUMERIC_KINDS = "biuf"  # NumPy's codes for booleans, integers and floats


@dataclass(frozen=True)
class Table:
    """A table that can be read batch by batch."""

    path: Path
    schema: pa.Schema
    read: Callable[[], Batches]
    classes: tuple[Label, ...] | None = None  # if the file itself names the labels

    def batches(self) -> Batches:
        """Yield batches from the start, each with the fraction of the file read so far."""
        with _reading(self.path):
            yield from self.read()

    def head(self) -> pa.RecordBatch:
        """Read the first rows, to find out what the columns hold."""
        for batch, _ in self.batches():
            if len(batch):
                return batch
        raise UnlabelError(f"{self.path} has no rows: give a table with at least one.")


def open_table(path: str | os.PathLike[str]) -> Table:
    """Open a table for reading; the file's ending is its format."""
    path = Path(path)
    opener = by_ending(path, OPENERS)
    table: Table = opener(require_file(path))
    if not table.schema.names:
        raise UnlabelError(f"{path} has no columns: give a table with a header.")
    return table


@contextmanager
def errors_naming(
    path: Path,
    action: str = "",
    *libraries: type[Exception],
    advice: str = "",
    place: Callable[[int], str] | None = None,
) -> Iterator[None]:
    """Name the file in every error; one of a library becomes a sentence about the failed action.

    An error about a row says where it is, by its `place`.
    """
    try:
        yield
    except RowError as error:
        where = f"row {error.row}" if place is None else place(error.row)
        raise UnlabelError(f"{path}: {error.at(where)} {advice}".rstrip()) from error
    except UnlabelError as error:
        raise UnlabelError(f"{path}: {error} {advice}".rstrip()) from error
    except libraries as error:
        causes = re.findall(r"^Caused by: [\w.$]+: (.+)", str(error), re.MULTILINE)  # Java's
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        why = causes[-1] if causes else why.split("\n")[0]
        raise UnlabelError(f"{path} could not be {action}: {why.rstrip('.')}.") from error


def _reading(path: Path) -> AbstractContextManager[None]:
    """Name the file in errors of NumPy, zipfile and Arrow, which have no common class."""
    return errors_naming(path, f"read as {path.suffix[1:]}", Exception)


def by_ending(path: Path, formats: dict[str, Any]) -> Any:
    """Look up a file's format by its ending."""
    if path.suffix not in formats:
        *others, last = formats
        known = f"{', '.join(others)} or {last}"
        raise UnlabelError(f"{path} has no known ending: name it {known}.")
    return formats[path.suffix]


def _batch_rows(entries: int) -> int:
    return max(1, min(BATCH_ROWS, BATCH_ENTRIES // max(1, entries)))


def _open_parquet(path: Path) -> Table:
    with _reading(path):
        columns = pa.parquet.read_metadata(path).num_columns
        # Without pre-buffering a row group larger than memory is read page by page.
        buffer = min(1 << 20, max(1 << 12, PARQUET_BUFFERS // max(1, columns)))
        file = pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=buffer)
        rows, schema = file.metadata.num_rows, file.schema_arrow
        widths = [getattr(kind, "list_size", 1) for kind in schema.types]
        schema.names  # noqa: B018, decodes the names

    def read() -> Batches:
        done = 0
        for batch in file.iter_batches(batch_size=_batch_rows(sum(widths))):
            # Otherwise indices beyond a dictionary's end would be followed, or written out.
            batch.validate(full=True)
            done += len(batch)
            yield batch, done / rows

    return Table(path, schema, read)


def _open_csv(path: Path) -> Table:
    with _reading(path):
        file = CsvFile(path)
    return Table(path, file.schema, file.read)


def _open_npy(path: Path) -> Table:
    with _array_errors(path, "the array"):
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(rows, np.ndarray):
        raise UnlabelError(f"{path} does not hold an npy array: give it the ending of its format.")
    return _table_of_arrays(path, {"confidences": rows})


def _open_npz(path: Path) -> Table:
    with _reading(path), ZipFile(path) as archive:
        members = archive.infolist()
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise UnlabelError(f"{path} has two arrays of the same name: save it again.")
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
    return _table_of_arrays(path, arrays, arrays.pop("classes", None))


@contextmanager
def _array_errors(path: Path, what: str) -> Iterator[None]:
    """Explain errors of reading an array, above all of Python objects, which need pickle.

    Python may warn about the syntax of a damaged header before NumPy refuses it.
    """
    with _reading(path), warnings.catch_warnings(action="ignore"):
        try:
            yield
        except ValueError as error:
            if not re.search("Object arrays|Python objects", str(error)):
                raise
            raise UnlabelError(
                f"There are Python objects in {what}: save numbers as float32 or float64, and "
                "texts with .astype(str)."
            ) from error


def _table_of_arrays(
    path: Path, arrays: dict[str, np.ndarray[Any, Any]], names: np.ndarray[Any, Any] | None = None
) -> Table:
    matrices = [array for array in arrays.values() if array.ndim == 2]
    if len(matrices) != 1:
        raise UnlabelError(
            f"{path} has {len(matrices)} arrays of two dimensions: give one, rows by labels."
        )
    kind = matrices[0].dtype
    if kind.kind not in NUMERIC_KINDS or kind.itemsize > 8:
        raise UnlabelError(f"{path} has confidences of type {kind}: save them as float64.")
    count, labels = matrices[0].shape
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

    with _reading(path):
        schema = _batch({name: array[:0] for name, array in arrays.items()}).schema
        classes = None if names is None else as_labels(names.tolist(), "'classes'")
    return Table(path, schema, read, classes)


def _batch(arrays: dict[str, np.ndarray[Any, Any]]) -> pa.RecordBatch:
    return pa.record_batch(
        {name: list_column(a) if a.ndim == 2 else _values(a) for name, a in arrays.items()}
    )


def list_column(rows: np.ndarray[Any, Any]) -> pa.FixedSizeListArray:
    """Turn the rows of an array into a list column."""
    return pa.FixedSizeListArray.from_arrays(_values(rows.reshape(-1)), rows.shape[1])


def _values(array: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))


OPENERS: dict[str, Callable[[Path], Table]] = {
    ".parquet": _open_parquet,
    ".csv": _open_csv,
    ".npy": _open_npy,
    ".npz": _open_npz,
}
