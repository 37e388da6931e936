"""Read csv files, packed or piped too, as Arrow record batches, however long their rows are."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.csv

from unlabel._tables.ahead import made_ahead
from unlabel._tables.files.csv_rows import NEWLINE, CsvRows
from unlabel._tables.files.streams import STANDARD, read_bytes
from unlabel.errors import UnlabelError

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
PACKED = b"\x1f\x8b"  # the first bytes of gzip files
IS_PACKED = "The file is packed with gzip: give it a name that ends in .gz."
# A block is as many whole rows as there are in some bytes. Blocks of many rows read fast.
LEAST_BLOCK, LARGEST_BLOCK = 1 << 20, 1 << 26
ROWS_PER_BLOCK = 64
LETTERS_OF_HEADER = 1 << 20  # enough of it to tell the separator
NOT_UTF_8 = "The file is not UTF-8: save it in that encoding."
WRONG_LENGTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")  # Arrow's words
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


class CsvFile:
    """A csv file; all columns are read as text, so that ids and timestamps are kept unchanged.

    Standard input is read once: the rows that came with the header are kept.
    """

    def __init__(self, path: Path, separator: str | None = None) -> None:
        self.path = path
        self._is_pipe = path == STANDARD
        with read_bytes(path) as (file, _):
            self._find_header(cast(BufferedIOBase, file), separator)
        self._block = min(max(LEAST_BLOCK, ROWS_PER_BLOCK * len(self._header)), LARGEST_BLOCK)
        self._types: dict[str, pa.DataType] = {}
        try:
            self._types = dict.fromkeys(self._parse(b"", 0).schema.names, pa.string())
            # The first rows show whether the separator is right before columns are looked for.
            self.schema = self._parse(self._kept[: self._rows.end_of_last(self._kept)], 0).schema
            self.schema.names  # noqa: B018, decodes the names
        except UnicodeError as error:
            raise UnlabelError(NOT_UTF_8) from error

    def read(self) -> Iterator[tuple[pa.RecordBatch, float]]:
        """Yield batches, each with the fraction of the file read so far."""
        # A thread that waits for more of a pipe could not be ended.
        return self._batches() if self._is_pipe else made_ahead(self._batches())

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, float]]:
        row_count = 0
        with read_bytes(self.path) as (file, done):
            for block in self._blocks(cast(BufferedIOBase, file)):
                if block.strip(b"\r\n"):
                    batch = self._parse(block, row_count)
                    row_count += len(batch)
                    yield batch, done()

    def _blocks(self, file: BufferedIOBase) -> Iterator[bytes]:
        """Cut the file behind the header into blocks of whole rows."""
        if self._is_pipe:
            rest = self._kept
        else:
            rest = b""
            file.read(self._header_end)
        while True:
            if end := self._rows.end_of_last(rest):
                yield rest[:end]
                rest = rest[end:]
            if not (piece := self._read(file, self._block, rest)):
                break
            rest += piece
        yield rest

    def _read(self, file: BufferedIOBase, size: int, rest: bytes) -> bytes:
        """Read on after the start of a row: twice as far, in case that it is a long one.

        Of a pipe only what is there is read, so that rows are answered as they come.
        """
        if len(rest) >= LARGEST_BLOCK:
            raise UnlabelError(
                f"A row has more than {LARGEST_BLOCK >> 20} MiB, or a quote is not closed: shorten "
                "the row, or save the table as parquet."
            )
        size = min(max(size, len(rest)), LARGEST_BLOCK - len(rest))
        return file.read1(size) if self._is_pipe and len(rest) < LEAST_BLOCK else file.read(size)

    def _find_header(self, file: BufferedIOBase, separator: str | None) -> None:
        """Read the first row, and find out the separator if none is given."""
        start, end, piece = b"", 0, b"..."
        while piece and not end:
            piece = self._read(file, LEAST_BLOCK, start)
            start += piece
            text = start.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
            line = NEWLINE.split(text[:LETTERS_OF_HEADER], maxsplit=1)[0]
            self._find_separator(line, separator)
            self._rows = CsvRows(self.separator)
            end = self._rows.end_of_first(text)
        end = end or len(text)
        self._header, self._kept = text[:end], text[end:]
        self._header_end = len(start) - len(self._kept)
        if not self._header.endswith((b"\r", b"\n")):
            self._header += b"\n"

    def _find_separator(self, line: bytes, given: str | None) -> None:
        """Take the given separator, or commas, or else another one that the first line has."""
        if line.startswith(UTF_16):
            raise UnlabelError(NOT_UTF_8)
        if line.startswith(PACKED):
            raise UnlabelError(IS_PACKED)
        unquoted = re.sub(rb'"[^"]*"', b"", line).decode("latin-1")
        other = max(OTHER_SEPARATORS, key=unquoted.count)
        is_likely = unquoted.count(other) > unquoted.count(",") and "\0" not in unquoted
        self._likely = other if given is None and is_likely else ""
        self.separator = given or (other if is_likely and "," not in unquoted else ",")

    def _parse(self, rows: bytes, first_row: int) -> pa.RecordBatch:
        """Turn whole rows into a batch."""
        # With the header in front, no later row is taken for one, nor its start for a mark of the
        # encoding.
        content = self._header + rows
        try:
            batches = pa.csv.read_csv(
                pa.BufferReader(content),
                pa.csv.ReadOptions(block_size=len(content) + 1, use_threads=False),
                pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                pa.csv.ConvertOptions(column_types=self._types),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                raise ValueError("it is empty, without a header") from error
            if "invalid UTF8" in str(error):
                raise UnlabelError(NOT_UTF_8) from error
            wrong = WRONG_LENGTH.search(str(error))
            if wrong is None:
                raise
            if self._likely not in ("", self.separator):  # names may hold semicolons
                raise UnlabelError(
                    f"The file is separated by {OTHER_SEPARATORS[self._likely]}: say so.",
                    argument="separator",
                ) from error
            number, columns, cells = map(int, wrong.groups())
            raise UnlabelError(
                f"It does not have one cell per column, but {cells} for {columns}: complete it, "
                "and put texts with separators or line breaks in quotes.",
                row=first_row + number - 2,
            ) from error
        [batch] = batches.to_batches() or [pa.RecordBatch.from_pylist([], schema=batches.schema)]
        return batch


def as_separator(text: str) -> str:
    r"""Read a separator as it is written on a command line.

    Examples
    --------
    >>> as_separator(";"), as_separator("tab"), as_separator("\\t")
    (';', '\t', '\t')
    """
    separator = "\t" if text in ("tab", "\\t") else text
    if len(separator) != 1 or not (" " <= separator <= "~" or separator == "\t"):
        raise UnlabelError(f"The separator is {text!r}: give one character of ASCII, or tab.")
    if separator.isalnum() or separator in '".+-':  # numbers are not quoted
        raise UnlabelError(f"The separator is {text!r}, which cells may hold: give another.")
    return separator
