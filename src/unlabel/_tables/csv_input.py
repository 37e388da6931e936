"""Read csv files as Arrow record batches, however long their rows are."""

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
ROWS_PER_BLOCK = 64
TOO_LONG = "straddling object"  # Arrow's words for a row that is longer than a block
NOT_UTF_8 = "The file is not UTF-8: save it in that encoding."


class CsvFile:
    """A csv file; all columns are read as text, so that ids and timestamps are kept unchanged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            header = file.readline(LARGEST_BLOCK)
        if header.startswith(UTF_16):
            raise UnlabelError(NOT_UTF_8)
        self._unquoted_header = re.sub(rb'"[^"]*"', b"", header)
        if b"," not in self._unquoted_header:
            self._refuse_other_separators()
        self._block = min(max(LEAST_BLOCK, ROWS_PER_BLOCK * len(header)), LARGEST_BLOCK)
        with pa.OSFile(str(path)) as file:
            self.schema = self._open(file).schema
        try:
            self.schema.names  # noqa: B018, decodes the names
        except UnicodeError as error:
            raise UnlabelError(NOT_UTF_8) from error

    def read(self) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield batches, each with the fraction of the file read so far."""
        yielded = 0
        while True:
            seen = 0
            try:
                with pa.OSFile(str(self.path)) as file:
                    for batch in self._open(file):
                        # After a row that was too long the file is read from the start again.
                        new = batch.slice(min(yielded - seen, len(batch)))
                        seen += len(batch)
                        yielded = max(yielded, seen)
                        yield new, file.tell() / file.size()
            except pa.ArrowInvalid as error:
                self._enlarge_block(error)
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
                self._enlarge_block(error)

    def _enlarge_block(self, error: pa.ArrowInvalid) -> None:
        """Make room for a row that is too long; raise any other error."""
        if "invalid UTF8" in str(error):
            raise UnlabelError(NOT_UTF_8) from error
        if "CSV parse error" in str(error):  # names may hold semicolons, so this comes late
            self._refuse_other_separators()
        if TOO_LONG not in str(error):
            raise error
        if self._block == LARGEST_BLOCK:
            raise UnlabelError(
                f"A row has more than {LARGEST_BLOCK >> 20} MiB, or a quote is not closed: shorten "
                "the row, or save the table as parquet."
            ) from error
        self._block = min(4 * self._block, LARGEST_BLOCK)

    def _refuse_other_separators(self) -> None:
        header = self._unquoted_header
        for separator, name in ((b";", "semicolons"), (b"\t", "tabs")):
            if header.count(separator) > header.count(b",") and b"\0" not in header:
                raise UnlabelError(f"The file is separated by {name}: save it with commas.")
