"""Messages and progress bars, which go to standard error, and tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import rich.progress
import typer
from rich.console import Console
from rich.markup import escape

from unlabel._printing import printable
from unlabel._typing import Progress

CLOSED_PIPE = 141  # the exit code of programs that are ended by SIGPIPE, which is 13

console = Console()
messages = Console(stderr=True)


def _be_quiet(is_quiet: bool) -> bool:
    messages.quiet = is_quiet
    return is_quiet


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_be_quiet, help="Print nothing but errors.")
]


def print_line(text: str) -> None:
    """Print one line to standard error, whatever characters the names of labels and files have."""
    messages.print(printable(text), highlight=False, markup=False, soft_wrap=True)


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
    is_shown = shown and messages.is_terminal and not messages.quiet
    with rich.progress.Progress(console=messages, disable=not is_shown, transient=True) as bar:
        task_id = bar.add_task(escape(printable(task)), total=1.0)
        yield lambda part: bar.update(task_id, completed=part)


def as_json(value: Any) -> str:
    """Write a value as JSON in ASCII, so that a label cannot hold what a terminal obeys."""
    return json.dumps(value, indent=2).replace("\x7f", "\\u007f")
