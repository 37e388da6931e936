"""Read tables of confidences batch by batch, whatever the format of their file.

A table is a stream of Arrow record batches.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from unlabel._files.atomic import require_file
from unlabel._tables.files.array_files import open_npy, open_npz
from unlabel._tables.files.csv_input import CsvFile, as_separator
from unlabel._tables.files.streams import STANDARD, shown
from unlabel._tables.predictions import Format, Reading
from unlabel._typing import Label
from unlabel.errors import UnlabelError

Batches = Iterator[tuple[pa.RecordBatch, float]]

BATCH_ROWS = 1 << 16
BATCH_ENTRIES = 1 << 22  # with very many labels a batch has fewer rows
# The buffers of all columns of a parquet file together, in bytes.
PARQUET_BUFFERS = 1 << 26

ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "tsv",
    ".tsv.gz": "tsv",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson": "jsonl",
    ".ndjson.gz": "jsonl",
    ".npy": "npy",
    ".npz": "npz",
}
SEPARATED: dict[Format, str] = {"csv": ",", "tsv": "\t"}
PIPED: tuple[Format, ...] = ("csv", "tsv", "jsonl")
# The first bytes of files that are taken for feather files.
FEATHER_1, IPC_STREAM = b"FEA1", b"\xff\xff\xff\xff"


@dataclass(frozen=True)
class Table:
    """A table that can be read batch by batch."""

    path: Path
    format: Format
    schema: pa.Schema
    read: Callable[[], Batches]
    classes: tuple[Label, ...] | None = None  # if the file itself names the labels
    separator: str = SEPARATED["csv"]  # of a csv file
    is_pipe: bool = False  # which can be read but once

    def batches(self) -> Batches:
        """Yield batches from the start, each with the fraction of the file read so far."""
        with _reading(self.path, self.format):
            yield from self.read()

    def head(self) -> pa.RecordBatch:
        """Read the first rows, to find out what the columns hold."""
        for batch, _ in self.batches():
            if len(batch):
                return batch
        raise UnlabelError("It has no rows: give a table with at least one.", path=self.path)


def open_table(path: str | os.PathLike[str], reading: Reading | None = None) -> Table:
    """Open a table for reading, in the format that is given or that the file's ending names."""
    path, reading = Path(path), reading or Reading()
    kind = format_of(path, reading.format)
    if path != STANDARD:
        require_file(path)
    if kind in SEPARATED:
        table = _open_separated(path, kind, reading.separator)
    elif reading.separator is not None:
        raise UnlabelError(
            f"It is read as {kind}, which has no separators: leave it out.", path=path
        )
    elif kind in OPENERS:
        table = OPENERS[kind](path)
    else:
        raise UnlabelError(
            f"It is read as {kind}, which has no columns: give another format.", path=path
        )
    if not table.schema.names:
        raise UnlabelError("It has no columns: give a table with a header.", path=table.path)
    return table


def format_of(path: Path, given: Format | None = None) -> Format:
    """Return the format of a table: the one that is given, or else the one of the file's ending."""
    if path != STANDARD:
        return given or by_ending(path, ENDINGS)
    if given is None:
        raise UnlabelError("Standard input has no ending: name its format.", argument="format")
    if given not in PIPED:
        *others, last = PIPED
        raise UnlabelError(
            f"Tables in {given} cannot be piped: give the name of a file in place of -, or choose "
            f"{', '.join(others)} or {last}."
        )
    return given


def by_ending(path: Path, formats: dict[str, Any]) -> Any:
    """Look up a file's format by its ending."""
    for ending, format in formats.items():
        if path.name.endswith(ending):
            return format
    *others, last = formats
    raise UnlabelError(f"It has no known ending: name it {', '.join(others)} or {last}.", path=path)


@contextmanager
def errors_naming(
    path: Path,
    action: str = "",
    *libraries: type[Exception],
    advice: str = "",
    place: Callable[[int], str] | None = None,
) -> Iterator[None]:
    """Name the file in every error; one of a library becomes a sentence about the failed action.

    An error about a row says where it is, by its `place`. The advice is to name the labels.
    """
    try:
        yield
    except UnlabelError as error:
        if isinstance(error.row, int) and place is not None:
            error.row = place(error.row)
        error.path = path if error.path is None else error.path
        if advice:
            error.problem = f"{error.problem.removesuffix('.')}. {advice}"
            error.argument = "classes"
        raise
    except libraries as error:
        causes = re.findall(r"^Caused by: [\w.$]+: (.+)", str(error), re.MULTILINE)  # Java's
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        why = causes[-1] if causes else why.split("\n")[0]
        raise UnlabelError(f"It could not be {action}: {why.rstrip('.')}.", path=path) from error


def _reading(path: Path, kind: Format) -> AbstractContextManager[None]:
    """Name the file in errors of NumPy, zipfile, gzip and Arrow, which have no common class."""
    return errors_naming(path, f"read as {kind}", Exception)


def rows_at_once(entries: int) -> int:
    """Return the number of rows, with so many entries each, that memory is taken for."""
    return max(1, min(BATCH_ROWS, BATCH_ENTRIES // max(1, entries)))


def _row_entries(schema: pa.Schema) -> int:
    return sum(getattr(kind, "list_size", 1) for kind in schema.types)


def _open_separated(path: Path, kind: Format, separator: str | None) -> Table:
    if separator is not None:
        separator = as_separator(separator)
    elif kind == "tsv":
        separator = SEPARATED[kind]
    name = shown(path)
    with _reading(name, kind):
        file = CsvFile(path, separator)
    is_pipe = path == STANDARD
    return Table(name, kind, file.schema, file.read, separator=file.separator, is_pipe=is_pipe)


def _open_parquet(path: Path) -> Table:
    with _reading(path, "parquet"):
        columns = pa.parquet.read_metadata(path).num_columns
        # Without pre-buffering a row group larger than memory is read page by page.
        buffer = min(1 << 20, max(1 << 12, PARQUET_BUFFERS // max(1, columns)))
        file = pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=buffer)
        rows, schema = file.metadata.num_rows, file.schema_arrow
        schema.names  # noqa: B018, decodes the names
        entries = _parquet_entries(file)

    def read() -> Batches:
        done = 0
        for batch in file.iter_batches(batch_size=rows_at_once(entries)):
            # Otherwise indices beyond a dictionary's end would be followed, or written out.
            batch.validate(full=True)
            done += len(batch)
            yield batch, done / rows

    return Table(path, "parquet", schema, read)


def _parquet_entries(file: pa.parquet.ParquetFile) -> int:
    """Return the number of entries per row, those of lists too, on average."""
    stored, columns = file.metadata, range(file.metadata.num_columns)
    lists = [at for at in columns if file.schema.column(at).max_repetition_level > 0]
    groups = [stored.row_group(at) for at in range(stored.num_row_groups)] if lists else []
    in_lists = sum(group.column(at).num_values for group in groups for at in lists)
    return len(columns) - len(lists) + int(in_lists / max(1, stored.num_rows))


def _open_feather(path: Path) -> Table:
    with _reading(path, "feather"):
        with path.open("rb") as start:
            magic = start.read(len(FEATHER_1))
        for other, name in ((FEATHER_1, "a Feather file of version 1"), (IPC_STREAM, "a stream")):
            if magic == other:
                raise UnlabelError(
                    f"It is {name} and not an Arrow file: save it with pyarrow.feather."
                )
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        schema, count = file.schema, file.num_record_batches
        schema.names  # noqa: B018, decodes the names

    def read() -> Batches:
        step = rows_at_once(_row_entries(schema))
        for number in range(count):
            batch = file.get_batch(number)
            batch.validate(full=True)
            for start in range(0, len(batch), step):
                part = batch.slice(start, step)
                yield part, (number + (start + len(part)) / len(batch)) / count

    return Table(path, "feather", schema, read)


def _open_npy(path: Path) -> Table:
    return _open_arrays(path, "npy", open_npy)


def _open_npz(path: Path) -> Table:
    return _open_arrays(path, "npz", open_npz)


def _open_arrays(path: Path, kind: Format, opener: Callable[[Path], Any]) -> Table:
    with _reading(path, kind):
        file = opener(path)
        schema = file.schema
    return Table(path, kind, schema, lambda: file.read(rows_at_once(file.shape[1])), file.classes)


OPENERS: dict[Format, Callable[[Path], Table]] = {
    "parquet": _open_parquet,
    "feather": _open_feather,
    "npy": _open_npy,
    "npz": _open_npz,
}
