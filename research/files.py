"""Files that appear whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from unlabel import UnlabelError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to, and rename it once it is complete."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):  # it may not exist
            part.unlink()


def cannot_write(path: Path, error: OSError) -> UnlabelError:
    """Describe why a file could not be written."""
    return UnlabelError(f"{path} could not be written: {error.strerror or error}.")


def plain(value: Any) -> Any:
    """Turn NumPy's numbers into plain ones for JSON, and those that are not finite into None."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
