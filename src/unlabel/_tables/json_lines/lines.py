"""Read JSON lines, one value per line, block by block."""

from __future__ import annotations

import codecs
import json
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from unlabel._tables.files.csv_input import IS_PACKED, PACKED, UTF_16
from unlabel._tables.files.formats import errors_naming
from unlabel._tables.files.streams import STANDARD, read_bytes, shown
from unlabel._tables.json_lines.faults import FAULTS, fault, may_repeat, repeated_name
from unlabel.errors import UnlabelError

# Small blocks, whose decoded values fit into a processor's cache, are read twice as fast as large.
BLOCK, LARGEST_LINE = 1 << 17, 1 << 26
BLANK = b" \t\r"
OBJECT, LIST, END_OBJECT, END_LIST = b"{[}]"
OBJECTS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(dict[str, msgspec.Raw])
VALUES: msgspec.json.Decoder[Any] = msgspec.json.Decoder(msgspec.Raw)


class Block(NamedTuple):
    """Whole lines of a file."""

    text: bytes
    first_line: int  # its number, from 1 on
    done: float  # the fraction of the file read so far

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers."""
        for number, line in enumerate(self.text.split(b"\n"), start=self.first_line):
            if stripped := line.strip(BLANK):
                yield number, stripped

    def values(self, decoder: msgspec.json.Decoder[Any]) -> tuple[list[Any], Sequence[int]]:
        """Decode the value of each line that is not blank, and give their lines' numbers."""
        try:
            values = decoder.decode_lines(self.text)
        except FAULTS:
            values = None
        if values is None or (numbers := self._numbers(len(values))) is None:
            values, numbers = [], []
            for number, line in self.lines():
                try:
                    values.append(decoder.decode(line))
                except FAULTS as error:
                    raise UnlabelError(fault(error, line), row=f"line {number}") from error
                numbers.append(number)
        if decoder is OBJECTS and may_repeat(self.text, values):
            for number, line in self.lines():
                if (name := repeated_name(line)) is not None:
                    raise UnlabelError(
                        f"It has two fields {name!r}: rename or drop one of them.",
                        row=f"line {number}",
                    )
        return values, numbers

    def _numbers(self, values: int) -> Sequence[int] | None:
        """Return the lines of so many objects or lists, or None if not each line has just one.

        Decoding allows a value over several lines and several in one. Within a value no ``}``
        or ``]`` is followed by ``{`` or ``[``: if every line starts and ends with those, none
        of the values goes on in the next line.
        """
        letters = np.frombuffer(self.text, np.uint8)
        breaks = np.flatnonzero(letters[:-1] == ord("\n"))  # but for one at the end
        if values == len(breaks) + 1 and letters[0] != ord("\n"):
            ends, starts = letters[breaks - 1], letters[breaks + 1]
            is_between = ((ends == END_OBJECT) | (ends == END_LIST)) & (
                (starts == OBJECT) | (starts == LIST)
            )
            if is_between.all():  # there are no blank lines or spaces, as usual
                return range(self.first_line, self.first_line + values)
        numbers = []
        for number, line in self.lines():
            if line[0] not in (OBJECT, LIST) or line[-1] not in (END_OBJECT, END_LIST):
                return None
            numbers.append(number)
        return numbers if len(numbers) == values else None


class JsonLines:
    """A file of JSON lines, or standard input, which can be read but once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting = self._read()
        filled = (block for block in self._waiting if not block.text.isspace())
        self.head = next(filled, Block(b"", 1, 1.0))
        if path != STANDARD:
            self._waiting.close()

    @property
    def is_empty(self) -> bool:
        """Whether there are no lines, or only blank ones."""
        return not self.head.text

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks that are not blank, from the start."""
        if self.path == STANDARD:
            yield self.head
        blocks = self._waiting if self.path == STANDARD else self._read()
        yield from (block for block in blocks if not block.text.isspace())

    def _read(self) -> Generator[Block]:
        first_line, pieces, size = 1, list[bytes](), 0
        with _errors(self.path), read_bytes(self.path) as (file, done):
            # A pipe is answered as soon as it has something; of a file, whole blocks are read.
            read = file.read1 if self.path == STANDARD else file.read  # type: ignore[attr-defined]
            while piece := read(BLOCK):
                cut = piece.rfind(b"\n") + 1
                if cut:
                    text = b"".join([*pieces, piece[:cut]])
                    yield Block(_checked(text, first_line), first_line, done())
                    first_line += text.count(b"\n")
                    pieces, size = [], 0
                pieces.append(piece[cut:])
                size += len(piece) - cut
                if size > LARGEST_LINE:
                    raise UnlabelError(
                        f"It has more than {LARGEST_LINE >> 20} MiB: shorten it.",
                        row=f"line {first_line}",
                    )
            if size:
                yield Block(_checked(b"".join(pieces), first_line), first_line, 1.0)


def _errors(path: Path) -> AbstractContextManager[None]:
    return errors_naming(shown(path), "read as JSON lines", OSError, EOFError, zlib.error)


def _checked(text: bytes, first_line: int) -> bytes:
    """Refuse text that is not UTF-8, and skip a mark at the start that says that it is."""
    if first_line == 1:
        if text.startswith(UTF_16):
            raise UnlabelError("The file is UTF-16: save it as UTF-8.")
        if text.startswith(PACKED):
            raise UnlabelError(IS_PACKED)
        text = text.removeprefix(codecs.BOM_UTF8)
    try:
        text.isascii() or text.decode()
    except UnicodeDecodeError as error:
        number = first_line + text.count(b"\n", 0, error.start)
        raise UnlabelError(
            "It is not UTF-8: save the file as UTF-8.", row=f"line {number}"
        ) from error
    return text


def plain_value(line: bytes) -> Any:
    """Decode a line that is known to be JSON into plain values."""
    try:  # Python refuses to convert integers with very many digits
        return json.loads(line, parse_int=lambda text: int(text) if len(text) < 20 else float(text))
    except RecursionError as error:
        raise UnlabelError("A line is nested too deeply: flatten it.") from error
