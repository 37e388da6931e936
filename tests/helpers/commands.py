"""The command line, run in this process."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from unlabel.__main__ import main


def unlabel(*arguments):
    """Run a command, and return its exit code, output and errors."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    argv = ["unlabel", *map(str, arguments)]
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    return code, out.getvalue(), err.getvalue()
