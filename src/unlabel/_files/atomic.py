"""Write files whole or not at all, and read nothing but regular files."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unlabel.errors import UnlabelError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path beside `path` to write to, and rename it once it is complete.

    If the block fails, even on a full disk, nothing is left behind. A symbolic link stays, and its
    target is written.
    """
    target = _valid_path(path)
    if target == Path("-"):
        raise UnlabelError("'-' is standard output: give the name of a file.")
    real = behind_links(target)
    if os.path.exists(real) and not os.path.isfile(real):  # a rename would replace it
        raise UnlabelError("It could not be written: it is not a regular file.", path=target)
    part = _beside(real)
    try:
        part.touch(exist_ok=False)
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        part.replace(real)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with suppress(OSError):  # it may not exist
            part.unlink()


def behind_links(path: Path) -> Path:
    """Follow a symbolic link to its target."""
    try:
        return Path(os.path.realpath(path, strict=True)) if os.path.islink(path) else path
    except OSError as error:
        problem = (
            f"It is a link that cannot be followed ({error.strerror}): remove it, or choose "
            "another name."
        )
        raise UnlabelError(problem, path=path) from error


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a folder beside `path` to work in, and remove it at the end."""
    folder = _beside(path)
    try:
        folder.mkdir()
        yield folder
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _beside(path: Path) -> Path:
    # Not made by tempfile: a signal before the name is returned would leave the file behind.
    return path.parent / f".{path.name}.{secrets.token_hex(4)}.part"


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raise an error if a file exists, for commands, which replace files only with `force`."""
    if os.path.exists(path) and not force:
        problem = "It exists already: choose another name, or overwrite it."
        raise UnlabelError(problem, path=path, argument="force")


def cannot_write(path: Path, error: OSError) -> UnlabelError:
    """Return an error with the reason why a file could not be written."""
    return UnlabelError(f"It could not be written: {error.strerror or error}.", path=path)


def _valid_path(path: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(path):  # not an OSError in Python
        raise UnlabelError(f"{os.fspath(path)!r} cannot be the name of a file.")
    return Path(path)


def require_file(path: str | os.PathLike[str]) -> Path:
    """Return a path, or raise an error unless it is a regular file: reading a pipe may not end."""
    path = _valid_path(path)
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return path
    except FileNotFoundError:
        raise
    except OSError as error:
        raise cannot_read(path, error) from error
    raise UnlabelError("It could not be read: it is not a regular file.", path=path)


def cannot_read(path: Path, error: OSError) -> UnlabelError:
    """Return an error with the reason why a file could not be read."""
    return UnlabelError(f"It could not be read: {error.strerror or error}.", path=path)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Compute the SHA-256 digest of a file."""
    file = require_file(path)
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise cannot_read(file, error) from error
