"""Python code run in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]  # where doors.py lies


def run_python(code, *arguments, options=()):
    """Run code that may import what tests import, and return its output and errors."""
    command = [sys.executable, *options, "-c", code, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS)])}
    return subprocess.run(command, env=environment, capture_output=True, text=True)
