"""The command `unlabel`."""

from __future__ import annotations

import signal
import sys
from io import TextIOWrapper
from typing import NoReturn


def main() -> None:
    """Run the command line, with one sentence and exit code 2 for what a user did wrong."""
    try:
        from unlabel.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}: pip install 'unlabel[cli]'.")
    from unlabel._printing import printable
    from unlabel.errors import UnlabelError

    for name in ("SIGTERM", "SIGHUP"):  # the second is not known everywhere
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as nohup does
            signal.signal(number, _end)
    if isinstance(sys.stdout, TextIOWrapper):  # one may not have every letter of the labels
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except UnlabelError as error:
        print(f"Error: {printable(str(error))}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


def _end(number: int, _: object) -> NoReturn:
    """End a run that is told to, which cleans up after itself as one that fails does.

    A terminal that is closed may say so twice, and must not cut the cleaning up short.
    """
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
