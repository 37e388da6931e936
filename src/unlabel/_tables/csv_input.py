"""csv files as Arrow record batches, with rows as long as they come."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from unlabel.errors import UnlabelError

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Arrow reads a csv in blocks, and each row must fit into one. Blocks of many rows read fast.
LEAST_BLOCK, LARGEST_BLOCK = 1 << 20, 1 << 26
ROWS_OF_A_BLOCK = 64
TOO_LONG = "straddling object"  # Arrow's words for a row that is longer than a block


class CsvFile:
    """A csv file whose columns are all read as text: ids and timestamps leave as they came."""

    def __init__(self, path: Path) -> None:
        self.path = path
        header = _header(path)
        if header.startswith(UTF_16):
            raise not_utf_8(path)
        if b"," not in _outside_quotes(header):
            refuse_other_separators(path)
        self._block = min(max(LEAST_BLOCK, ROWS_OF_A_BLOCK * len(header)), LARGEST_BLOCK)
        with pa.OSFile(str(path)) as file:
            self.schema = self._open(file).schema

    def read(self) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Batches, each with the part of the file read so far."""
        given = 0
        while True:
            seen = 0
            try:
                with pa.OSFile(str(self.path)) as file:
                    for batch in self._open(file):
                        # After a row that was too long the file is read again from its start.
                        new = batch.slice(min(given - seen, len(batch)))
                        seen += len(batch)
                        given = max(given, seen)
                        yield new, file.tell() / file.size()
            except pa.ArrowInvalid as error:
                self._enlarge(error)
            else:
                return

    def _open(self, file: pa.NativeFile) -> pa.csv.CSVStreamingReader:
        while True:
            try:
                file.seek(0)
                return pa.csv.open_csv(
                    file,
                    read_options=pa.csv.ReadOptions(block_size=self._block),
                    parse_options=pa.csv.ParseOptions(newlines_in_values=True),
                    convert_options=pa.csv.ConvertOptions(default_column_type=pa.string()),
                )
            except pa.ArrowInvalid as error:
                self._enlarge(error)

    def _enlarge(self, error: pa.ArrowInvalid) -> None:
        if TOO_LONG not in str(error):
            raise error
        if self._block == LARGEST_BLOCK:
            raise UnlabelError(
                f"{self.path} has a row of more than {LARGEST_BLOCK >> 20} MiB, or a quote that is "
                "not closed: shorten it, or save the table as parquet."
            ) from error
        self._block = min(4 * self._block, LARGEST_BLOCK)


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline(LARGEST_BLOCK)


def _outside_quotes(header: bytes) -> bytes:
    return re.sub(rb'"[^"]*"', b"", header)


def not_utf_8(path: Path) -> UnlabelError:
    """Say that a file has another encoding."""
    return UnlabelError(f"{path} is not UTF-8: save it in that encoding.")


def refuse_other_separators(path: Path) -> None:
    """Refuse a file whose header is separated by something other than commas."""
    header = _outside_quotes(_header(path))
    for separator, name in ((b";", "semicolons"), (b"\t", "tabs")):
        if header.count(separator) > header.count(b",") and b"\0" not in header:
            raise UnlabelError(f"{path} is separated by {name}: save it with commas.")
