"""Files that register methods, sets and models from outside."""

from __future__ import annotations

import runpy
import traceback
from pathlib import Path

from research.registry import DATASETS, METHODS, MODELS
from unlabel import UnlabelError


def load_plugin(file: Path) -> None:
    """Run a Python file that registers something."""
    before = _registered()
    try:
        runpy.run_path(str(file))
    except Exception as error:
        raise UnlabelError(f"{file}{_reason(file, error).rstrip('.')}.") from error
    if _registered() == before:
        raise UnlabelError(
            f"{file} registers nothing: call register_method, register_dataset or register_model."
        )


def _registered() -> int:
    return len(METHODS) + len(DATASETS) + len(MODELS)


def _reason(file: Path, error: Exception) -> str:
    """Describe an error, with the last line of the file that it came through."""
    if isinstance(error, OSError) and error.filename == str(file):
        return f" could not be read: {error.strerror}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    text = str(error) if isinstance(error, UnlabelError) else f"{type(error).__name__}: {error}"
    return f", line {lines[-1]}: {text}" if lines else f": {text}"
