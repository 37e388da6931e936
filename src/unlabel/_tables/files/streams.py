"""Bytes of files and of standard input and output, packed with gzip or not."""

from __future__ import annotations

import gzip
import io
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from unlabel._files.atomic import cannot_write, require_file, whole_file
from unlabel.errors import UnlabelError

STANDARD = Path("-")  # standard input or output
GZIP = ".gz"
SECONDS_PER_WAIT = 0.5


@contextmanager
def read_bytes(path: Path) -> Iterator[tuple[BinaryIO, Callable[[], float]]]:
    """Open a file, unpacked, with a function that tells the fraction of it read so far."""
    if path == STANDARD:
        if sys.stdin is None or sys.stdin.buffer.isatty():
            raise UnlabelError("Nothing is piped into standard input: give a file in place of -.")
        is_waited_for = isinstance(sys.stdin.buffer, io.BufferedReader) and os.name != "nt"
        file = _StandardInput() if is_waited_for else sys.stdin.buffer
        yield cast(BinaryIO, file), lambda: 0.0
        return
    with require_file(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        unpacked = gzip.GzipFile(fileobj=file) if path.suffix == GZIP else file
        yield cast(BinaryIO, unpacked), lambda: file.tell() / max(1, size)


@contextmanager
def write_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing, whole or not at all; standard output is written at once."""
    if path == STANDARD:
        with _standard_output() as file:
            yield file
        return
    with whole_file(path) as part, part.open("wb") as file:
        if path.suffix != GZIP:
            yield file
            return
        # Without a name and a time in it, the same rows give the same bytes.
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            yield cast(BinaryIO, packed)


class _StandardInput:
    """Standard input without a buffer, waited for in steps.

    A signal that comes just before a read, and not during it, is not noticed until the read ends.
    """

    def read1(self, size: int) -> bytes:
        """Read what is there, once there is something."""
        number = sys.stdin.fileno()
        while not select.select([number], [], [], SECONDS_PER_WAIT)[0]:
            pass
        return os.read(number, size)

    def read(self, size: int) -> bytes:
        """Read as many bytes as there are up to the end."""
        pieces = []
        while size and (piece := self.read1(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


@contextmanager
def _standard_output() -> Iterator[BinaryIO]:
    if sys.stdout is None:
        raise UnlabelError("Standard output is closed: name the file to write.", argument="out")
    file = own = sys.stdout.buffer
    if isinstance(own, io.RawIOBase):  # as with python -u: it may write less than it is given
        file = open(own.fileno(), "wb", closefd=False)  # noqa: SIM115
    try:
        yield file
        file.flush()
    except OSError as error:
        # Python would try to write the rest at exit, and complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), own.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise cannot_write(shown(STANDARD, "standard output"), error) from error


def shown(path: Path, standard: str = "standard input") -> Path:
    """Return the name of a file for messages."""
    return Path(standard) if path == STANDARD else path


def refuse_standard_input(path: str | os.PathLike[str]) -> None:
    """Refuse to read standard input where a table is needed as a file."""
    if Path(path) == STANDARD:
        raise UnlabelError("Only apply reads standard input: give the table as a file.")
