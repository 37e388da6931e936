"""Tables of confidences written to npy, npz, csv and parquet, batch by batch."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from unlabel._files.atomic import whole_file
from unlabel._labels import label_array
from unlabel._tables.formats import by_ending
from unlabel._tables.labels import positions_by_text
from unlabel._typing import Label
from unlabel.errors import UnlabelError

Write = Callable[[pa.RecordBatch], None]


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
    writer = by_ending(path, WRITERS)
    with whole_file(path, overwrite=overwrite) as part:
        try:
            with writer(part, schema, classes) as write:
                yield write
        except pa.ArrowException as error:
            raise UnlabelError(f"{path} could not be written: {error}.") from error


def plain_labels(labels: tuple[Label, ...]) -> np.ndarray[Any, Any]:
    """Labels of one type as they are, and any others as texts: a column has one type."""
    array = label_array(labels)
    return array if array.dtype != object else np.array([*positions_by_text(labels)])


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
    _refuse_what_npz_cannot_hold(schema)
    names = None if classes is None else plain_labels(classes)
    batches: list[pa.RecordBatch] = []
    yield batches.append
    # Not np.savez, which has parameters of its own that columns may be named after.
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, column in zip(schema.names, pa.Table.from_batches(batches, schema), strict=True):
            _write_array(archive, name, _array(name, column))
        if names is not None:
            _write_array(archive, "classes", names)


def _refuse_what_npz_cannot_hold(schema: pa.Schema) -> None:
    name, times = Counter(schema.names).most_common(1)[0]
    if times > 1:
        raise UnlabelError(
            f"There are {times} columns {name!r}, of which an npz file can hold one: rename them, "
            "or name the output .parquet."
        )
    lists = [field.name for field in schema if pa.types.is_fixed_size_list(field.type)]
    if len(lists) > 1:
        raise UnlabelError(
            f"The columns {lists[0]!r} and {lists[1]!r} hold lists, and an npz file only those of "
            "the confidences: name the output .parquet."
        )
    for field in schema:
        if field.name == "classes" or "\0" in field.name or field.name.endswith(".npy"):
            raise UnlabelError(
                f"The column {field.name!r} has a name with another meaning in an npz file: rename "
                "it, or name the output .parquet."
            )
        if field.name not in lists and not _fits_an_array(field.type):
            raise UnlabelError(
                f"The column {field.name!r} has the type {field.type}, which npz cannot hold: name "
                "the output .parquet."
            )


def _fits_an_array(kind: pa.DataType) -> bool:
    of = pa.types
    if of.is_dictionary(kind):
        return _fits_an_array(kind.value_type)
    plain = (of.is_integer, of.is_floating, of.is_boolean, of.is_date, of.is_duration)
    texts = (of.is_string, of.is_large_string, of.is_string_view)
    has_no_zone = of.is_timestamp(kind) and kind.tz is None
    return has_no_zone or any(is_kind(kind) for is_kind in plain + texts)


def _array(name: str, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    if pa.types.is_fixed_size_list(column.type):
        entries = np.asarray(column.combine_chunks().flatten())
        return entries.reshape(-1, column.type.list_size)
    if column.null_count:
        raise UnlabelError(
            f"The column {name!r} has empty cells, which npz cannot hold: name the output .parquet."
        )
    values: np.ndarray[Any, Any] = column.to_numpy()
    return values.astype(np.str_) if values.dtype == object else values


def _write_array(archive: ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


WRITERS: dict[str, Callable[[Path, pa.Schema, Any], AbstractContextManager[Write]]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".npy": _write_npy,
    ".npz": _write_npz,
}
