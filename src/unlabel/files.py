"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unlabel.validation import UnlabelError


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Give a path beside `path` to write to, and rename it once it is complete.

    Whatever ends the block early, a full disk included, leaves nothing behind.
    """
    target = Path(path)
    refuse_existing(target, overwrite=overwrite)
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
    except OSError as error:
        raise cannot_write(target, error) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())
        part.chmod(0o666 & ~_umask())
        refuse_existing(target, overwrite=overwrite)
        part.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        part.unlink(missing_ok=True)


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
