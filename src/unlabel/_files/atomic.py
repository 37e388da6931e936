"""Files that appear whole or not at all, and files that can be read to their end."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unlabel.errors import UnlabelError


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give a path beside `path` to write to, and put it in place once it is complete.

    Whatever ends the block early, a full disk included, leaves nothing behind. Of writers
    who may not overwrite, one alone succeeds. A symbolic link stays, and the file that it
    leads to is written.
    """
    target = _possible(path)
    refuse_existing(target, overwrite=overwrite)
    real = behind_links(target)
    if os.path.exists(real) and not os.path.isfile(real):  # a rename would put it out of the way
        raise UnlabelError(f"{target} could not be written: it is not a regular file.")
    part = _beside(real)
    try:
        part.touch(exist_ok=False)
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        if not overwrite and _linked(part, real):
            part.unlink()  # here and not below, where a signal would cut it short
        else:
            refuse_existing(target, overwrite=overwrite)
            part.replace(real)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        with suppress(OSError):  # it may never have been made
            part.unlink()


def behind_links(path: Path) -> Path:
    """Give what a link leads to."""
    try:
        return Path(os.path.realpath(path, strict=True)) if os.path.islink(path) else path
    except OSError as error:
        raise UnlabelError(
            f"{path} is a link that cannot be followed ({error.strerror}): remove it, or choose "
            "another name."
        ) from error


def _linked(part: Path, path: Path) -> bool:
    """Give a complete file its name: a link, unlike a rename, never takes another's."""
    try:
        os.link(part, path)
    except FileExistsError:
        refuse_existing(path, overwrite=False)
        raise
    except OSError:  # a file system without links, as on memory cards
        return False
    return True


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
    if os.path.exists(path) and not overwrite:
        raise UnlabelError(
            f"{path} exists already: choose another name, or allow overwriting it "
            "(overwrite=True, --force)."
        )


def cannot_write(path: Path, error: OSError) -> UnlabelError:
    """Say why a file could not be written."""
    return UnlabelError(f"{path} could not be written: {error.strerror or error}.")


def _possible(path: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(path):  # Python raises no OSError for it
        raise UnlabelError(f"{os.fspath(path)!r} cannot be the name of a file.")
    return Path(path)


def require_file(path: str | os.PathLike[str]) -> Path:
    """Refuse to read what is not a regular file: a pipe would be waited for without end."""
    path = _possible(path)
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise cannot_read(path, error) from error
    if not regular:
        raise UnlabelError(f"{path} could not be read: it is not a regular file.")
    return path


def cannot_read(path: Path, error: OSError) -> UnlabelError:
    """Say why a file could not be read."""
    return UnlabelError(f"{path} could not be read: {error.strerror or error}.")
