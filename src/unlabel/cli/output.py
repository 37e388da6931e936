"""Lines and progress bars that commands print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import rich.progress
from rich.console import Console
from rich.markup import escape

from unlabel._printing import printable
from unlabel._typing import Progress

CLOSED_PIPE = 141  # the exit code of programs that are ended by SIGPIPE, which is 13

console = Console()
error_console = Console(stderr=True)


def print_line(text: str, *, to_error: bool = False) -> None:
    """Print one line, whatever characters the names of files and labels contain."""
    to = error_console if to_error else console
    to.print(printable(text), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def ends_on_closed_pipe() -> Iterator[None]:
    """End the run quietly if nobody reads standard output any longer, as `head` does."""
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(CLOSED_PIPE) from None


@contextmanager
def progress_bar(task: str, *, shown: bool = True) -> Iterator[Progress]:
    """Show on a terminal how far a table has been read."""
    terminal = Console(stderr=True)
    with rich.progress.Progress(
        console=terminal, disable=not (shown and terminal.is_terminal), transient=True
    ) as bar:
        task_id = bar.add_task(escape(printable(task)), total=1.0)
        yield lambda part: bar.update(task_id, completed=part)
