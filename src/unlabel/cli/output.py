"""Lines and progress bars that commands print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import rich.progress
from rich.console import Console
from rich.markup import escape

from unlabel._printing import printable
from unlabel._typing import Progress

console = Console()


def print_line(text: str) -> None:
    """Print one line, whatever characters the names of files and labels contain."""
    console.print(printable(text), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress_bar(task: str) -> Iterator[Progress]:
    """Show on a terminal how far a table has been read."""
    terminal = Console(stderr=True)
    with rich.progress.Progress(
        console=terminal, disable=not terminal.is_terminal, transient=True
    ) as bar:
        task_id = bar.add_task(escape(printable(task)), total=1.0)
        yield lambda part: bar.update(task_id, completed=part)
