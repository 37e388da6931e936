"""The line that `unlabel --version` prints."""

from __future__ import annotations

from importlib.metadata import version

from unlabel._method import compiled


def version_line() -> str:
    """Return what `unlabel --version` prints."""
    loops = "with" if compiled.is_available() else "without"
    return f"unlabel {version('unlabel')}, {loops} compiled loops"
