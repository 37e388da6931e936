"""The command `unlabel`."""

from __future__ import annotations

import signal
import sys
from io import TextIOWrapper
from typing import NoReturn


def main() -> None:
    """Run the command line; a user's mistake gets one sentence and exit code 2."""
    from unlabel._printing import printable
    from unlabel.errors import UnlabelError, needs_extra

    for name in ("SIGTERM", "SIGHUP"):  # Windows does not have the second
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            signal.signal(number, _end)
    if isinstance(sys.stdout, TextIOWrapper):  # its encoding may lack letters of the labels
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with needs_extra("cli"):
            import pyarrow

            from unlabel.cli import app
        # While Arrow reads a csv file, its own handlers may lose a signal. The files are read in
        # blocks, between which Python's handlers run.
        pyarrow.enable_signal_handlers(False)
        app()
    except UnlabelError as error:
        print(f"Error: {printable(str(error))}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


def _end(number: int, _: object) -> NoReturn:
    """End the run on a signal, cleaning up as after an error.

    A closed terminal may send the signal twice, and the second must not interrupt this.
    """
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
