"""Files that register methods, sets and models from outside."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path

from research.registry import DATASETS, METHODS, MODELS
from unlabel import UnlabelError


def load_plugin(file: Path) -> None:
    """Run a Python file that registers something."""
    before = [*METHODS, *DATASETS, *MODELS]
    try:
        file.open().close()  # runpy would also run a folder
        runpy.run_path(str(file))
    except (Exception, SystemExit) as error:
        raise UnlabelError(f"{file}{_reason(file, error).rstrip('.')}.") from error
    if [*METHODS, *DATASETS, *MODELS] == before:
        raise UnlabelError(
            f"{file} registers nothing: call register_method, register_dataset or register_model."
        )


def _reason(file: Path, error: BaseException) -> str:
    """Describe an error, with the last line of the file that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    if isinstance(error, OSError) and not lines:
        return f" could not be read: {error.strerror}"
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    text = str(error) if isinstance(error, UnlabelError) else f"{type(error).__name__}: {error}"
    return f", line {lines[-1]}: {text}" if lines else f": {text}"
