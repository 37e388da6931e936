"""What `unlabel --version` prints, with the extra `cli` and without it."""

from __future__ import annotations

from importlib.metadata import version

from unlabel._method import compiled


def version_line() -> str:
    """Return the version, and whether the loops are compiled."""
    loops = "with" if compiled.is_available() else "without"
    return f"unlabel {version('unlabel')}, {loops} compiled loops"
