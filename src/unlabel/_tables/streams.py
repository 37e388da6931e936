"""Bytes of files and of standard input and output, packed with gzip or not."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from unlabel._files.atomic import require_file, whole_file

STANDARD = Path("-")  # standard input or output
GZIP = ".gz"
JSON_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


@contextmanager
def read_bytes(path: Path) -> Iterator[tuple[BinaryIO, Callable[[], float]]]:
    """Open a file, unpacked, with a function that tells the fraction of it read so far."""
    if path == STANDARD:
        yield sys.stdin.buffer, lambda: 0.0
        return
    with require_file(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        unpacked = gzip.GzipFile(fileobj=file) if path.suffix == GZIP else file
        yield cast(BinaryIO, unpacked), lambda: file.tell() / max(1, size)


@contextmanager
def write_bytes(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file for writing, whole or not at all; standard output is written at once."""
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(path, overwrite=overwrite) as part, part.open("wb") as file:
        if path.suffix != GZIP:
            yield file
            return
        # Without a name and a time in it, the same rows give the same bytes.
        with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
            yield cast(BinaryIO, packed)
