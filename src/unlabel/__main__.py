"""The command `unlabel`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line, with one sentence and exit code 2 for what a user did wrong."""
    try:
        from unlabel.cli import app
    except ModuleNotFoundError as error:
        sys.exit(f"The command line needs {error.name}: pip install 'unlabel[cli]'.")
    from unlabel.validation import UnlabelError

    # A run that is told to end cleans up after itself, as one that fails does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        app()
    except UnlabelError as error:
        print(f"Error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


if __name__ == "__main__":
    main()
