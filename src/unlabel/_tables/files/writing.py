"""Write tables of confidences batch by batch, in the format of the file's ending."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from unlabel._files.atomic import refuse_existing, whole_file
from unlabel._tables.files.formats import SEPARATED, Table, format_of
from unlabel._tables.files.streams import STANDARD, shown, write_bytes
from unlabel._tables.labels import positions_by_text
from unlabel._tables.predictions import Format
from unlabel._typing import Label
from unlabel.errors import UnlabelError
from unlabel.labels import label_array

Write = Callable[[pa.RecordBatch], object]


@contextmanager
def write_table(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    *,
    overwrite: bool,
    classes: tuple[Label, ...] | None = None,
    like: Table | None = None,
) -> Iterator[Write]:
    """Open a table for writing; the file appears, complete, once the block has succeeded.

    Standard output is written at once, in the format of the table that the new one is `like`.
    A csv file keeps that table's separator.
    """
    path = Path(path)
    kind = output_format(path, like)
    if path != STANDARD:
        refuse_existing(path, force=overwrite)
    try:
        if kind in SEPARATED:
            with (
                write_bytes(path) as file,
                _write_csv(file, schema, _separator(path, kind, like)) as write,
            ):
                yield _at_once(write, file) if path == STANDARD else write
        elif kind in WRITERS:
            with (
                whole_file(path) as part,
                WRITERS[kind](part, schema, classes) as write,
            ):
                yield write
        else:
            raise UnlabelError(
                f"It is for {kind}, which has no columns: give it the ending of another format.",
                path=path,
            )
    except pa.ArrowException as error:
        name = shown(path, "standard output")
        raise UnlabelError(f"{name} could not be written: {error}.") from error


def _at_once(write: Write, file: BinaryIO) -> Write:
    """Let the reader of a pipe have each batch as soon as it is written."""
    return lambda batch: (write(batch), file.flush())


def output_format(path: Path, like: Table | None) -> Format:
    """Return the format of an output: its ending's, or the input's on standard output."""
    return format_of(path, like.format if like is not None and path == STANDARD else None)


def _separator(path: Path, kind: Format, like: Table | None) -> str:
    is_same = like is not None and (path == STANDARD or like.format == kind == "csv")
    return like.separator if like is not None and is_same else SEPARATED[kind]


def plain_labels(labels: tuple[Label, ...]) -> np.ndarray[Any, Any]:
    """Make an array of labels, as texts if their types differ: a column has one type."""
    array = label_array(labels)
    return array if array.dtype != object else np.array([*positions_by_text(labels)])


@contextmanager
def _write_parquet(path: Path, schema: pa.Schema, classes: Any) -> Iterator[Write]:
    # A dictionary of values that hardly repeat, as confidences do, is soon given up.
    with pa.parquet.ParquetWriter(path, schema, dictionary_pagesize_limit=1 << 14) as writer:
        yield writer.write_batch


@contextmanager
def _write_feather(path: Path, schema: pa.Schema, classes: Any) -> Iterator[Write]:
    # As pyarrow.feather writes, but for dictionaries, which batches of other files do not share.
    options = pa.ipc.IpcWriteOptions(compression="lz4", emit_dictionary_deltas=True)
    before: list[pa.RecordBatch] = []  # a batch without rows, for its dictionaries

    with pa.ipc.new_file(str(path), schema, options=options) as writer:

        def write(batch: pa.RecordBatch) -> None:
            if len(batch):
                table = pa.Table.from_batches([*before, batch]).unify_dictionaries()
                batch = table.to_batches()[-1]
                before[:] = [batch.slice(0, 0)]
                writer.write_batch(batch)

        yield write


@contextmanager
def _write_csv(file: BinaryIO, schema: pa.Schema, separator: str) -> Iterator[Write]:
    for field in schema:
        if pa.types.is_nested(field.type):
            raise _needs_parquet(f"The column {field.name!r} is nested, which csv cannot hold")

    header = [pa.array([name]) for name in schema.names]
    file.write(_quoted_csv(pa.RecordBatch.from_arrays(header, schema.names), separator))
    options = pa.csv.WriteOptions(include_header=False, delimiter=separator, quoting_style="none")
    some_need_quotes = len(schema) == 1  # an empty cell alone would be a blank line

    def write(batch: pa.RecordBatch) -> None:
        nonlocal some_need_quotes
        if not some_need_quotes:
            text = io.BytesIO()
            try:
                pa.csv.write_csv(batch, text, options)
                file.write(text.getbuffer())
                return
            except pa.ArrowInvalid:
                some_need_quotes = True
        file.write(_quoted_csv(batch, separator))

    yield write


def _quoted_csv(rows: pa.RecordBatch, separator: str) -> Any:
    """Format rows as csv with quotes around the texts that need them.

    Arrow quotes all texts or none, so that the same row would depend on its batch.
    """
    quote, nothing, between, newline = (
        pa.scalar(sign, pa.large_string()) for sign in ('"', "", separator, "\n")
    )
    columns = []
    for column in rows.columns:
        texts = pc.cast(column, pa.large_string())
        if not pa.types.is_floating(column.type):
            needs_quotes = pc.match_substring_regex(texts, rf'[\r\n"\x{ord(separator):02x}]')
            if pc.any(needs_quotes).as_py():
                doubled = pc.replace_substring(texts, '"', '""')
                quoted = pc.binary_join_element_wise(quote, doubled, quote, nothing)
                texts = pc.if_else(needs_quotes, quoted, texts)
        if rows.num_columns == 1:
            is_empty = pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)
            texts = pc.if_else(is_empty, pa.scalar('""', pa.large_string()), texts)
        columns.append(texts)
    options = pc.JoinOptions("replace")  # empty cells are empty texts
    columns[-1] = pc.binary_join_element_wise(columns[-1], newline, nothing, options=options)
    lines = pc.binary_join_element_wise(*columns, between, options=options)
    return lines.buffers()[2] or b""


@contextmanager
def _write_npy(path: Path, schema: pa.Schema, classes: Any) -> Iterator[Write]:
    if len(schema) != 1 or not pa.types.is_fixed_size_list(schema.types[0]):
        raise UnlabelError(
            "An npy file holds nothing but confidences, and there are other columns: give the "
            "output the ending .npz or .parquet."
        )
    kind = schema.types[0]
    dtype = np.dtype(kind.value_type.to_pandas_dtype()).str
    rows = 0
    with path.open("wb") as file:

        def write_header() -> None:
            header = {"descr": dtype, "fortran_order": False, "shape": (rows, kind.list_size)}
            np.lib.format.write_array_header_1_0(file, header)

        def write(batch: pa.RecordBatch) -> None:
            nonlocal rows
            rows += len(batch)
            file.write(batch.column(0).flatten().to_numpy().tobytes())

        write_header()
        yield write
        file.seek(0)  # NumPy pads the header: the number of rows fits in at the end
        write_header()


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
        raise _needs_parquet(f"There are {times} columns {name!r}, and npz can hold only one")
    lists = [field.name for field in schema if pa.types.is_fixed_size_list(field.type)]
    if len(lists) > 1:
        raise _needs_parquet(
            f"{lists[0]!r} and {lists[1]!r} are list columns, and npz can hold one"
        )
    for field in schema:
        column = f"The column {field.name!r}"
        if field.name == "classes" or "\0" in field.name or field.name.endswith(".npy"):
            raise _needs_parquet(f"{column} has a name with another meaning in npz files")
        if field.name not in lists and not _fits_an_array(field.type):
            raise _needs_parquet(f"{column} has the type {field.type}, which npz cannot hold")


def _needs_parquet(problem: str) -> UnlabelError:
    return UnlabelError(f"{problem}: give the output the ending .parquet.")


def _fits_an_array(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _fits_an_array(kind.value_type)
    if types.is_timestamp(kind):
        return kind.tz is None
    plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_date)
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    return any(is_kind(kind) for is_kind in (*plain, types.is_duration, *texts))


def _array(name: str, column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    if pa.types.is_fixed_size_list(column.type):
        entries = np.asarray(column.combine_chunks().flatten())
        return entries.reshape(-1, column.type.list_size)
    if column.null_count:
        raise _needs_parquet(f"The column {name!r} has empty cells, which npz cannot hold")
    values: np.ndarray[Any, Any] = column.to_numpy()
    return values.astype(np.str_) if values.dtype == object else values


def _write_array(archive: ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


WRITERS: dict[Format, Callable[[Path, pa.Schema, Any], AbstractContextManager[Write]]] = {
    "parquet": _write_parquet,
    "feather": _write_feather,
    "npy": _write_npy,
    "npz": _write_npz,
}
