"""Tables of confidences in and out of npy, npz, csv and parquet, batch by batch.

Whatever the format, a table is a stream of Arrow record batches. In an npy file the rows
are one list column, ``confidences``. An npz file has one array of two dimensions, which
becomes a list column; arrays of one entry a row, which become further columns; and
optionally ``classes``, the names of the labels.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from unlabel.files import require_file, whole_file
from unlabel.validation import Label, UnlabelError

Write = Callable[[pa.RecordBatch], None]
Batches = Iterator[tuple[pa.RecordBatch, float]]

BATCH_ROWS = 1 << 15
# An npz file is read whole, so what it may unpack to is limited.
MAX_NPZ_BYTES = 1 << 30
MAX_HEADER_BYTES = 1 << 24
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
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
        """The first batch, for finding out what the columns hold."""
        for batch, _ in self.batches():
            return batch
        raise UnlabelError(f"{self.path} has no rows: give a table with at least one.")


def open_table(path: str | os.PathLike[str]) -> Table:
    """Open a table for reading; its format is the file's ending."""
    path = Path(path)
    opener = _format(path, OPENERS)
    require_file(path)
    with _told(path):
        table: Table = opener(path)
    if not table.schema.names:
        raise UnlabelError(f"{path} has no columns: give a table with a header.")
    return table


@contextmanager
def write_table(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    *,
    overwrite: bool,
    classes: tuple[Label, ...] | None = None,
) -> Iterator[Write]:
    """Open a table for writing; it appears whole, when the block ends well."""
    path = Path(path)
    writer = _format(path, WRITERS)
    with whole_file(path, overwrite=overwrite) as part:
        try:
            with writer(part, schema, classes) as write:
                yield write
        except pa.ArrowException as error:
            raise UnlabelError(f"{path} could not be written: {error}.") from error


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what a reader says of a broken file into a sentence that names the file."""
    try:
        yield
    except UnlabelError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError, MemoryError, BadZipFile) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        why = why.split("\n")[0].rstrip(".")
        if "invalid UTF8" in why:
            raise _not_utf_8(path) from error
        if "CSV parse error" in why:
            _refuse_other_separators(path, _csv_header(path))
        raise UnlabelError(f"{path} could not be read as {path.suffix[1:]}: {why}.") from error


def _format(path: Path, formats: dict[str, Any]) -> Any:
    if path.suffix not in formats:
        known = ", ".join(formats)
        raise UnlabelError(f"{path} has no known ending: name it {known}.")
    return formats[path.suffix]


# Reading


def _open_parquet(path: Path) -> Table:
    # Without pre-buffering a row group larger than memory is read page by page.
    file = pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
    rows = file.metadata.num_rows

    def read() -> Batches:
        done = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            done += len(batch)
            yield batch, done / rows

    return Table(path, file.schema_arrow, read)


def _open_csv(path: Path) -> Table:
    header = _csv_header(path)
    if header.startswith(UTF_16):
        raise _not_utf_8(path)
    if b"," not in header:
        _refuse_other_separators(path, header)

    def reader(file: pa.NativeFile) -> pa.csv.CSVStreamingReader:
        return pa.csv.open_csv(
            file,
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            # Every column is read as text: ids and timestamps leave as they came.
            convert_options=pa.csv.ConvertOptions(default_column_type=pa.string()),
        )

    def read() -> Batches:
        with pa.OSFile(str(path)) as file:
            for batch in reader(file):
                yield batch, file.tell() / file.size()

    with pa.OSFile(str(path)) as file:
        return Table(path, reader(file).schema, read)


def _csv_header(path: Path) -> bytes:
    """The names of a csv's columns, but for those in quotes."""
    with path.open("rb") as file:
        return re.sub(rb'"[^"]*"', b"", file.readline(MAX_HEADER_BYTES))


def _not_utf_8(path: Path) -> UnlabelError:
    return UnlabelError(f"{path} is not UTF-8: save it in that encoding.")


def _refuse_other_separators(path: Path, header: bytes) -> None:
    for separator, name in ((b";", "semicolons"), (b"\t", "tabs")):
        if header.count(separator) > header.count(b",") and b"\0" not in header:
            raise UnlabelError(f"{path} is separated by {name}: save it with commas.")


def _open_npy(path: Path) -> Table:
    with _no_objects(path, "the array"):
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(rows, np.ndarray):
        raise UnlabelError(f"{path} holds no npy array: give it the ending of its format.")
    return _table_of_arrays(path, {"confidences": rows}, None)


def _open_npz(path: Path) -> Table:
    with ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MAX_NPZ_BYTES:
        raise UnlabelError(
            f"{path} unpacks to {size >> 20} MiB and npz files are read whole: save it as npy or "
            "parquet, which are streamed."
        )
    with np.load(path, allow_pickle=False) as archive:
        arrays = {}
        for name in archive.files:
            with _no_objects(path, repr(name)):
                arrays[name] = archive[name]
    classes = arrays.pop("classes", None)
    return _table_of_arrays(path, arrays, None if classes is None else tuple(classes.tolist()))


@contextmanager
def _no_objects(path: Path, what: str) -> Iterator[None]:
    """Refuse arrays of Python objects, which only pickle reads, in words that help."""
    try:
        yield
    except ValueError as error:
        if not re.search("Object arrays|Python objects", str(error)):
            raise
        raise UnlabelError(
            f"{path} has Python objects in {what}: save numbers as float32 or float64, and texts "
            "with .astype(str)."
        ) from error


def _table_of_arrays(
    path: Path, arrays: dict[str, np.ndarray[Any, Any]], classes: tuple[Label, ...] | None
) -> Table:
    square = [array for array in arrays.values() if array.ndim == 2]
    if len(square) != 1:
        raise UnlabelError(
            f"{path} has {len(square)} arrays of two dimensions: give one, rows by labels."
        )
    kind = square[0].dtype
    if kind.kind not in NUMBERS or kind.itemsize > 8:
        raise UnlabelError(f"{path} has confidences of type {kind}: save them as float64.")
    count = len(square[0])
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or len(array) != count:
            raise UnlabelError(
                f"{path} has an array {name!r} of shape {array.shape} beside {count} rows of "
                "confidences: give one entry a row."
            )

    def read() -> Batches:
        for start in range(0, count, BATCH_ROWS):
            end = min(start + BATCH_ROWS, count)
            yield _batch({name: array[start:end] for name, array in arrays.items()}), end / count

    return Table(path, _batch({n: a[:0] for n, a in arrays.items()}).schema, read, classes)


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


# Writing


@contextmanager
def _write_parquet(path: Path, schema: pa.Schema, classes: Any) -> Iterator[Write]:
    with pa.parquet.ParquetWriter(path, schema) as writer:
        yield writer.write_batch


@contextmanager
def _write_csv(path: Path, schema: pa.Schema, classes: Any) -> Iterator[Write]:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise UnlabelError(
                f"The column {field.name!r} is nested, which csv cannot hold: name the output "
                ".parquet."
            )
    with path.open("wb") as file:
        file.write(_csv_text(schema.empty_table().to_batches() or [], schema, header=True))

        def write(batch: pa.RecordBatch) -> None:
            file.write(_csv_text([batch], schema, header=False))

        yield write


def _csv_text(batches: list[pa.RecordBatch], schema: pa.Schema, *, header: bool) -> bytes:
    """CSV with quotes only where a text of the batch needs them, as most files have it."""
    table = pa.Table.from_batches(batches, schema)
    for style in ("none", "needed"):
        text = io.BytesIO()
        options = pa.csv.WriteOptions(
            include_header=header, quoting_style=style, quoting_header=style
        )
        try:
            pa.csv.write_csv(table, text, options)
        except pa.ArrowInvalid:
            if style == "needed":
                raise
        else:
            break
    return text.getvalue()


@contextmanager
def _write_npy(path: Path, schema: pa.Schema, classes: Any) -> Iterator[Write]:
    if len(schema) != 1 or not pa.types.is_fixed_size_list(schema.types[0]):
        raise UnlabelError(
            "An npy file holds confidences alone, and there are further columns: name the output "
            ".npz or .parquet."
        )
    kind = schema.types[0]
    header = {"descr": np.dtype(kind.value_type.to_pandas_dtype()).str, "fortran_order": False}
    rows = 0
    with path.open("wb") as file:
        # NumPy pads the header, so the number of rows can be put in at the end.
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (rows, kind.list_size)})

        def write(batch: pa.RecordBatch) -> None:
            nonlocal rows
            rows += len(batch)
            file.write(batch.column(0).flatten().to_numpy().tobytes())

        yield write
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (rows, kind.list_size)})


@contextmanager
def _write_npz(path: Path, schema: pa.Schema, classes: Any) -> Iterator[Write]:
    batches: list[pa.RecordBatch] = []
    yield batches.append
    arrays = {}
    for name, column in zip(schema.names, pa.Table.from_batches(batches, schema), strict=True):
        if pa.types.is_fixed_size_list(column.type):
            arrays[name] = (
                column.combine_chunks().flatten().to_numpy().reshape(-1, column.type.list_size)
            )
        else:
            if column.null_count:
                raise UnlabelError(
                    f"The column {name!r} has empty cells, which npz cannot hold: name the output "
                    ".parquet."
                )
            values = column.to_numpy()
            arrays[name] = values.astype(np.str_) if values.dtype == object else values
    if classes is not None:
        arrays["classes"] = np.array(classes)
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


WRITERS: dict[str, Callable[[Path, pa.Schema, Any], AbstractContextManager[Write]]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".npy": _write_npy,
    ".npz": _write_npz,
}
