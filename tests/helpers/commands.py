"""The command line, run in this process and in shells."""

import io
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from unittest.mock import patch

from unlabel.__main__ import main


def unlabel(*arguments):
    """Run a command, and return its exit code, output and errors."""
    return _run(main, "unlabel", *arguments)


def research(*arguments, module="research"):
    """Run a command of the paper's experiments in the same way."""
    main = import_module("research.__main__" if module == "research" else module).main
    return _run(main, module, *arguments)


def _run(main, *argv):
    out, err = io.StringIO(), io.StringIO()
    code = 0
    argv = patch.object(sys, "argv", [*map(str, argv)])
    with argv, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    return code, out.getvalue(), err.getvalue()


def names_file(folder, names):
    """Write the labels of a model to a file, one per line, and return its path."""
    path = folder / "classes.txt"
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def run_in_shell(script, folder, **variables):
    """Run a script in a folder as GitHub runs a step, with a command `unlabel`."""
    program = folder / "bin" / "unlabel"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unlabel "$@"\n')
    program.chmod(0o755)
    environment = os.environ | variables
    environment["PATH"] = f"{program.parent}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
