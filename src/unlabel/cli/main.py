"""Run the command line; without the extra `cli` too, as far as it goes."""

from __future__ import annotations

import signal
import sys
import traceback
from io import TextIOWrapper
from typing import NoReturn

# The options of arguments whose names they do not repeat: a rule, a plan and true labels are files
# and columns here.
OPTIONS = {
    "changes": "--plan",
    "labels": "--label-column",
    "max_removed_mass": "--rule",
    "min_confidence": "--rule",
    "unknown": "--rule",
    "unlisted": "--plan",
}


def main() -> None:
    """Run the command line: every error ends with 2, and a user's mistake gets one sentence."""
    from unlabel._printing import printable
    from unlabel.errors import UnlabelError, needs_extra

    for name in ("SIGTERM", "SIGHUP"):  # Windows does not have the second
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            signal.signal(number, _end)
    if isinstance(sys.stdout, TextIOWrapper):  # its encoding may lack letters of the labels
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.argv[1:] == ["--version"]:  # without the extra, too
        from unlabel.cli.version import version_line

        print(version_line())  # noqa: T201
        return
    try:
        with needs_extra("cli"):
            import pyarrow

            from unlabel.cli.app import app
        # While Arrow reads a csv file, its own handlers may lose a signal. The files are read in
        # blocks, between which Python's handlers run.
        pyarrow.enable_signal_handlers(False)
        app()
    except UnlabelError as error:
        _fail(printable(error.text(option)))
    except FileNotFoundError as error:
        _fail(printable(f"{error.filename}: {error.strerror or error}."))
    except Exception:
        traceback.print_exc()
        sys.exit(2)


def option(argument: str) -> str:
    """Return the option that gives an argument of the library.

    Examples
    --------
    >>> option("allow_by"), option("labels")
    ('--allow-by', '--label-column')
    """
    return OPTIONS.get(argument, f"--{argument.replace('_', '-')}")


def _fail(message: str) -> NoReturn:
    print(f"Error: {message}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


def _end(number: int, _: object) -> NoReturn:
    """End the run on a signal, cleaning up as after an error.

    A closed terminal may send the signal twice, and the second must not interrupt this.
    """
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
