"""Write files whole or not at all, and refuse to read anything but regular files."""

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
    """Give a path beside `path` to write to, and rename it once it is complete.

    If the block fails, even on a full disk, nothing is left behind. Of several writers who
    may not overwrite, only one succeeds. A symbolic link stays, and its target is written.
    """
    target = _valid_path(path)
    if target == Path("-"):
        raise UnlabelError(
            "'-' is standard output, to which only unlabel apply writes: give the name of a file."
        )
    refuse_existing(target, overwrite=overwrite)
    real = behind_links(target)
    if os.path.exists(real) and not os.path.isfile(real):  # a rename would replace it
        raise UnlabelError(f"{target} could not be written: it is not a regular file.")
    part = _beside(real)
    try:
        part.touch(exist_ok=False)
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        if not overwrite and _link(part, real):
            part.unlink()  # here and not below, where a signal would cut it short
        else:
            refuse_existing(target, overwrite=overwrite)
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
        raise UnlabelError(
            f"{path} is a link that cannot be followed ({error.strerror}): remove it, or choose "
            "another name."
        ) from error


def _link(part: Path, path: Path) -> bool:
    """Link a complete file to its name: a link, unlike a rename, never replaces a file."""
    try:
        os.link(part, path)
    except FileExistsError:
        refuse_existing(path, overwrite=False)
        raise
    except OSError:  # memory cards, for one, have file systems without links
        return False
    return True


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Give a folder beside `path` to work in, and remove it at the end."""
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


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Refuse to replace a file unless that is allowed."""
    if os.path.exists(path) and not overwrite:
        raise UnlabelError(
            f"{path} exists already: choose another name, or allow overwriting it "
            "(overwrite=True, --force)."
        )


def cannot_write(path: Path, error: OSError) -> UnlabelError:
    """Describe why a file could not be written."""
    return UnlabelError(f"{path} could not be written: {error.strerror or error}.")


def _valid_path(path: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(path):  # not an OSError in Python
        raise UnlabelError(f"{os.fspath(path)!r} cannot be the name of a file.")
    return Path(path)


def require_file(path: str | os.PathLike[str]) -> Path:
    """Refuse to read anything but a regular file: reading a pipe may never end."""
    path = _valid_path(path)
    try:
        if stat.S_ISREG(path.stat().st_mode):
            return path
    except OSError as error:
        raise cannot_read(path, error) from error
    raise UnlabelError(f"{path} could not be read: it is not a regular file.")


def cannot_read(path: Path, error: OSError) -> UnlabelError:
    """Describe why a file could not be read."""
    return UnlabelError(f"{path} could not be read: {error.strerror or error}.")
