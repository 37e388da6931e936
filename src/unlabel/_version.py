"""The line that the command prints about its version."""

from __future__ import annotations

from importlib.metadata import version

from unlabel._method import compiled


def version_line() -> str:
    """Return the version of the package, and whether it has the compiled loops."""
    loops = "with" if compiled.is_available() else "without"
    return f"unlabel {version('unlabel')}, {loops} compiled loops"
