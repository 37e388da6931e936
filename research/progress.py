"""A progress bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], text: str, total: int) -> Iterable[T]:
    """Return the items, which move a bar as they are taken.

    Examples
    --------
    >>> list(track(range(3), "Training", total=3))
    [0, 1, 2]
    """
    if not sys.stderr.isatty() or find_spec("rich") is None:
        return items
    from rich.console import Console
    from rich.progress import track as with_bar

    return with_bar(items, text, total, console=Console(stderr=True), transient=True)
