"""Files that appear whole or not at all, and what is in those of measurements."""

from __future__ import annotations

import json
import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from unlabel import UnlabelError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside `path`, in a folder that is made, and rename it once it is complete."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
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


def write_json(path: Path, facts: Any, *, sort_keys: bool = False) -> None:
    """Write facts, of which none may be infinite."""
    text = json.dumps(
        facts, indent=1, sort_keys=sort_keys, allow_nan=False, default=np.generic.item
    )
    with whole_file(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def write_measured(path: Path, **facts: Any) -> None:
    """Write what was measured, beside the hardware and the versions of Python and NumPy."""
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}"
    )
    write_json(path, {"machine": machine, **facts})
