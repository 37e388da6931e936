"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unlabel.validation import UnlabelError


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give a path beside `path` to write to, and rename it once it is complete.

    Whatever ends the block early, a full disk included, leaves nothing behind.
    """
    target = Path(path)
    refuse_existing(target, overwrite=overwrite)
    part = _beside(target)
    try:
        part.touch(exist_ok=False)
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        refuse_existing(target, overwrite=overwrite)
        part.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with suppress(OSError):  # it may never have been made
            part.unlink()


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Give a folder beside `path` to work in, and remove it with all that is left in it."""
    folder = _beside(path)
    try:
        folder.mkdir()
        yield folder
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path) -> Path:
    # The name comes before the file: a signal between a file and its name would leave it behind.
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.part"


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Refuse to write over a file unless told to."""
    if path.exists() and not overwrite:
        raise UnlabelError(
            f"{path} exists already: choose another name, or allow overwriting it "
            "(overwrite=True, --force)."
        )


def cannot_write(path: Path, error: OSError) -> UnlabelError:
    """Say why a file could not be written."""
    return UnlabelError(f"{path} could not be written: {error.strerror or error}.")
